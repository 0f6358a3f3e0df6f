# shellcheck shell=bash
# Completion of `berth` for bash. All that can be typed is known to `berth complete`; this is only
# about the shell's quotes. Names of files come from sandboxes, and whoever is in one may have
# chosen them: nothing here is ever evaluated, and what is put on the line is quoted.
# It needs none of the functions of the package bash-completion, and does not mind them.

# Takes the quotes off a word as it was typed, running nothing that is in it. Sets `literal`; `quote`,
# the one that is open at its end; `is_mixed`, whether one was closed before; and of the word's end,
# which alone bash replaces: `kept`, how many characters of `literal` are in front of it.
_berth_unquote() {
	local raw=$1 i c
	literal='' quote='' is_mixed='' kept=0
	for ((i = 0; i < ${#raw}; i++)); do
		c=${raw:i:1}
		case $quote$c in
		"''" | '""')
			quote='' is_mixed=1
			;;
		\"\\)
			if [[ ${raw:i+1:1} == [\$\`\"\\] ]]; then c=${raw:++i:1}; fi
			literal+=$c
			;;
		[\'\"]?) literal+=$c ;;
		\\)
			((++i))
			literal+=${raw:i:1}
			;;
		[\'\"])
			quote=$c kept=${#literal}
			;;
		*)
			literal+=$c
			# bash begins a word behind it, be it a colon or what its settings name.
			if [[ $COMP_WORDBREAKS == *"$c"* ]]; then kept=${#literal}; fi
			;;
		esac
	done
}

# Sets `quoted`: text as it has to stand on the line. Fails for what cannot be written between the
# quotes that are open.
_berth_quote() {
	local text=$1 i c
	case $quote in
	\')
		quoted=$text
		[[ $text != *\'* ]]
		return
		;;
	\") [[ $text != *!* ]] || return ;;
	esac
	quoted=$text
	[[ $text == *[![:alnum:]_./:=@%+,-]* ]] || return 0
	quoted=
	for ((i = 0; i < ${#text}; i++)); do
		c=${text:i:1}
		if [[ $quote ]]; then
			[[ $c != [\$\`\"\\] ]] || quoted+=\\
		else
			# Of what is not ASCII nothing means anything to a shell.
			[[ $c == [[:alnum:]_./:=@%+,-] || $c != [[:ascii:]] ]] || quoted+=\\
		fi
		quoted+=$c
	done
}

# The words in front of the cursor, as they were typed. bash takes them apart at colons too.
_berth_words() {
	local line=${COMP_LINE:0:COMP_POINT} rest=$COMP_LINE i word blanks at=0
	raws=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		blanks=${rest%%[![:blank:]]*}
		((at += ${#blanks}))
		rest=${rest:${#blanks}}
		if ((i == COMP_CWORD)); then word=${line:at}; fi
		if ((${#blanks} || i == 0)); then
			raws+=("$word")
		else
			raws[-1]+=$word
		fi
		((at += ${#word}))
		rest=${rest:${#word}}
	done
}

# Local names beside those of sandboxes; by themselves they are left to bash.
_berth_local() {
	local name
	while IFS= read -r name; do
		# What is not there is a part of a name with a newline.
		[[ $name == "$literal"* && ( -e $name || -L $name ) ]] || continue
		if [[ $name == .* && $literal != .* || $name == *[[:cntrl:]]* ]]; then continue; fi
		if [[ -d $name ]]; then offers+=("+$name/"); else offers+=("=$name"); fi
	done < <(compgen -f)
}

_berth_ask() {
	local program=$1 line
	shift
	if [[ $program == \~/* ]]; then program=$HOME/${program:2}; fi
	type -P -- "$program" >/dev/null || program=berth
	while IFS= read -r line; do
		case $line in
		[=+]*) offers+=("$line") ;;
		files | dirs) names=$line ;;
		esac
	done < <("$program" complete -- "$@" 2>/dev/null </dev/null)
}

_berth() {
	local -a raws=() words=() offers=()
	local literal quote is_mixed kept quoted raw offer names=''
	COMPREPLY=()
	_berth_words
	for raw in "${raws[@]:1}"; do
		_berth_unquote "$raw"
		words+=("$literal")
	done
	# Whoever mixes quotes in a word knows its end.
	if [[ $is_mixed ]] || ((${#words[@]} == 0)); then return; fi
	_berth_ask "$1" "${words[@]}"
	if [[ $names == files && ${#offers[@]} -gt 0 ]]; then
		_berth_local
	elif [[ $names == files ]]; then
		compopt -o default
	elif [[ $names == dirs ]]; then
		compopt -o dirnames
	fi
	for offer in "${offers[@]}"; do
		_berth_quote "${offer:1+kept}" || continue
		COMPREPLY+=("$quoted")
	done
	if [[ ${#offers[@]} -eq 1 && ${offers[0]} == +* ]]; then compopt -o nospace; fi
}

complete -F _berth berth
