#!/usr/bin/env bash
# shellcheck disable=SC2317 # traps and the user's code call much of this
# The kernel of bash contexts and runs, for bash 4.4 and later. README.md says how it is spoken to.
#
# Code is sourced by the loop at the end, outside of any function, or what it declares would be local. Only builtins are
# used, but for `bash -n` after a failure. What must end a call early (SIGINT, exit, set -e) unwinds the sourced code: a
# DEBUG trap that returns 2 makes bash return from function to function, until it meets our loop again.
#
# The code may define functions that are called like builtins, and those last: so what is called here is called by
# `builtin`. The code may also break what no shell can do without (`builtin` itself, variables of bash's own): after each
# call that is looked for, and mended, or the shell ends, and berthd says so. `exec` keeps a redirection only if it is
# called by itself, and so is called by itself.
#
# bash cannot change its group, so that other processes of its user can look into it.

# Moves a descriptor to another number, close-on-exec: what bash keeps of one that is redirected for a while is, at the
# lowest free number from 10, and so is a copy of that.
berth_hide() {
	local free
	exec {free}</dev/null
	builtin eval "exec $free<&-; { exec $2<&$free; } $1<&-; exec $1<&-"
}

# Not 255, or what bash has there in one version or another: the script that it reads, which would end with that.
berth_orders=$((260 + RANDOM % 240)) berth_reports=$((500 + RANDOM % 400))
if (($(ulimit -n) < 1000)); then
	berth_orders=$((20 + RANDOM % 20)) berth_reports=$((40 + RANDOM % 20))
fi
if [[ ${1-} == again ]]; then
	berth_hide "$2" "$berth_orders"
	berth_hide "$3" "$berth_reports"
	# shellcheck disable=SC1090 # what the shell before this one was
	builtin source "/dev/fd/$4" 2>/dev/null
	builtin eval "exec $4<&-"
	berth_self=${BASH_SOURCE[0]}
else
	berth_hide 0 "$berth_orders"
	berth_hide 3 "$berth_reports"
	exec 0</dev/null
	builtin printf '{"ready":true,"language":"bash","version":"%s","pid":%d}\n' \
		"${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}" "$$" >&"$berth_reports"
	berth_loaded='' berth_options='' berth_self=${BASH_SOURCE[0]}
fi
# Copies of what the code prints to, for when it closes that.
berth_bash=$BASH berth_spare=$((berth_reports + 1))
exec {berth_text}>&1
berth_hide "$berth_text" "$berth_spare"
exec {berth_text}>&2
berth_hide "$berth_text" "$((berth_spare + 1))"
builtin set --
berth_why='' berth_status=0 berth_is_busy='' berth_text='' berth_nest=${FUNCNEST-}

# --- JSON ---

# The text of a JSON string, in $berth_text.
berth_decode() {
	local LC_ALL=C s=${1//\\\\/\\x5c} hex low bytes
	s=${s//\\\//\/}
	s=${s//\\\"/\"}
	while [[ $s =~ \\u([0-9a-fA-F]{4}) ]]; do
		hex=$((16#${BASH_REMATCH[1]})) low=''
		if ((hex >= 0xD800 && hex < 0xDC00)) && [[ $s =~ \\u([dD][89abAB]..)\\u([dD][c-fC-F]..) ]]; then
			hex=$((0x10000 + ((16#${BASH_REMATCH[1]} - 0xD800) << 10) + 16#${BASH_REMATCH[2]} - 0xDC00))
			low="\\\\u${BASH_REMATCH[2]}"
		fi
		if ((hex == 0)); then
			bytes='' # no variable can hold it
		elif ((hex < 0x80)); then
			builtin printf -v bytes '\\x%02x' "$hex"
		elif ((hex < 0x800)); then
			builtin printf -v bytes '\\x%02x' "$((0xC0 | hex >> 6))" "$((0x80 | hex & 63))"
		elif ((hex < 0x10000)); then
			builtin printf -v bytes '\\x%02x' "$((0xE0 | hex >> 12))" "$((0x80 | hex >> 6 & 63))" "$((0x80 | hex & 63))"
		else
			builtin printf -v bytes '\\x%02x' "$((0xF0 | hex >> 18))" "$((0x80 | hex >> 12 & 63))" \
				"$((0x80 | hex >> 6 & 63))" "$((0x80 | hex & 63))"
		fi
		s=${s//\\u${BASH_REMATCH[1]}$low/$bytes}
	done
	builtin printf -v berth_text '%b' "$s"
}

# A JSON string of the text, in $berth_text.
berth_encode() {
	local LC_ALL=C s=${1//\\/\\\\} i byte
	s=${s//\"/\\\"}
	s=${s//$'\n'/\\n}
	s=${s//$'\t'/\\t}
	for ((i = 1; i < 32; i++)); do
		builtin printf -v byte '\\x%02x' "$i"
		builtin printf -v byte '%b' "$byte"
		[[ $s != *"$byte"* ]] || s=${s//"$byte"/ }
	done
	berth_text="\"$s\""
}

# Takes an order apart: $call, $code, $load, $cwd, $env (names and values in turn) and $input, JSON as it stands.
# A line that is split at its quotes is structure and strings in turn; a quote behind a backslash goes on with its string.
berth_parse() {
	local LC_ALL=C parts=() part text='' is_text='' depth=0 key='' keys=() raw=() is_raw='' ends
	builtin mapfile -t -d '"' parts <<<"$1"
	for part in "${parts[@]}"; do
		if [[ $is_text ]]; then
			text+=$part
			ends=${part##*[!\\]}
			if ((${#ends} % 2)); then
				text+='"'
				builtin continue
			fi
			is_text=''
			[[ ! $is_raw ]] || raw+=("\"$text\"")
			builtin continue
		fi
		berth_meet "$part"
		is_text=1
	done
}

# Structure, of which `text` is the string before it: a key if a colon follows, or else the value of the newest key.
berth_meet() {
	local rest=${1#"${1%%[![:space:]]*}"} block
	if [[ $rest == :* && ! $is_raw ]]; then
		berth_decode "$text"
		key=$berth_text rest=${rest#:} rest=${rest#"${rest%%[![:space:]]*}"}
		[[ $depth.$key != 1.call ]] || call=${rest%%[!0-9]*}
		if [[ ${keys[depth - 1]-} == invoke && $key == input ]]; then
			is_raw=1 ends_at=$depth
		fi
	elif [[ ($text || $key) && ! $is_raw ]]; then
		berth_value
	fi
	text=''
	# Cutting from the front of a text costs as much as the text is long.
	while [[ $rest ]]; do
		block=${rest:0:4096} rest=${rest:4096}
		berth_pass
	done
}

# Of `block`: how deep it is, and the raw text of an input, which a comma ends that is not within it.
berth_pass() {
	local at plain
	while [[ $block ]]; do
		if [[ $is_raw ]] && ((depth == ends_at)); then
			plain=${block%%[][{\},]*}
		else
			plain=${block%%[][{\}]*}
		fi
		[[ ! $is_raw ]] || raw+=("$plain")
		at=${block:${#plain}:1} block=${block:${#plain}+1}
		case $at in
		'{' | '[') keys[depth]=$key depth=$((depth + 1)) key='' ;;
		'}' | ']') depth=$((depth - 1)) ;;
		esac
		if [[ $is_raw && $at ]]; then
			if ((depth < ends_at)) || { [[ $at == , ]] && ((depth == ends_at)); }; then
				builtin printf -v input '%s' "${raw[@]}"
				is_raw='' key=''
			else
				raw+=("$at")
			fi
		fi
	done
}

berth_value() {
	berth_decode "$text"
	case ${keys[depth - 1]-}.$key in
	env.*) env+=("$key" "$berth_text") ;;
	.code) code=$berth_text ;;
	.load) load=$berth_text ;;
	.cwd) cwd=$berth_text ;;
	esac
	key=''
}

# --- calls ---

berth_report() {
	builtin printf '{"call":%s,%s}\n' "$berth_call" "$1" >&"$berth_reports"
}

# Reads an order, and sets where its code runs. It fails when there are no more.
berth_next() {
	local -
	builtin set +efukxC
	local line REPLY
	while ((1)); do
		line=''
		while ! builtin read -r -u "$berth_orders"; do # with no name, it takes nothing from IFS
			(($? > 128)) || builtin return 1
			line+=$REPLY
		done
		# An order that its sender could not complete.
		[[ $line$REPLY != *$'\x18' ]] || builtin continue
		if berth_begin "$line$REPLY"; then
			builtin return 0
		fi
	done
}

# False if the call is done already.
# The user's own names are hidden by ours only here; code that makes one of ours readonly has no context any more.
berth_begin() {
	local call='' code='' load='' cwd='' env=() input='' ends_at=0 i
	berth_parse "$1"
	berth_call=$call berth_why='' berth_status=0 berth_code=$code
	if [[ $cwd ]] && ! builtin cd -- "$cwd"; then
		berth_fail FileNotFoundError "there is no folder $cwd, or it cannot be entered"
		builtin return 1
	fi
	for ((i = 0; i < ${#env[@]}; i += 2)); do
		if [[ ${env[i]} =~ ^[A-Za-z_][A-Za-z_0-9]*$ ]]; then
			builtin declare -gx "${env[i]}=${env[i + 1]}"
		fi
	done
	if [[ $load ]]; then
		berth_loaded=$load
		if berth_is_refused "$load"; then
			berth_loaded=''
			berth_fail SyntaxError "$berth_message" ",\"is_syntax\":true,\"line\":$berth_line"
		else
			berth_report '"checked":true'
			berth_report '"done":"ok"'
		fi
		builtin return 1
	fi
	if [[ $1 == *'"invoke"'* && ! $code ]]; then
		if [[ ! $berth_loaded ]]; then
			berth_fail LookupError "there is no code that was loaded"
			builtin return 1
		fi
		berth_give_input
		# Of a shell that a signal ends bash prints what it ran, which is ours: the code's standard error waits aside.
		berth_aside=$((berth_spare + 2))
		berth_code="berth_run $berth_aside>&2 2>/dev/null" berth_is_run=1
	else
		berth_is_run=''
	fi
	berth_is_busy=1
	builtin trap '{ berth_interrupt; } 2>/dev/null' INT
}

# What is longer than one string of an environment can be (128 KiB, with its name and end) is in the shell alone: with it,
# no program could be started.
berth_give_input() {
	local LC_ALL=C
	if ((${#input} < 131072 - 6)); then
		builtin export "INPUT=$input"
		berth_input=''
	else
		builtin export -n "INPUT=$input"
		berth_input=$input
	fi
}

# The code of a run, each time in a shell of its own: nothing of it stays, and $$ is that shell.
berth_run() (
	exec 2>&"$berth_aside" {berth_aside}>&-
	berth_text='builtin source /dev/stdin'
	if [[ $berth_input ]]; then
		exec {berth_new_state}<<<"$berth_input"
		berth_text="builtin read -r <&$berth_new_state; INPUT=\$REPLY; unset REPLY; exec $berth_new_state<&-; $berth_text"
	fi
	exec "$berth_bash" -c "$berth_text" "$0" <<<"$berth_loaded"
)

# Opens again what the code has closed, and leaves what it has sent elsewhere.
berth_open() {
	[[ -e /dev/fd/0 ]] || exec 0</dev/null
	[[ -e /dev/fd/1 ]] || exec 1>&"$berth_spare"
	[[ -e /dev/fd/2 ]] || exec 2>&"$((berth_spare + 1))"
}

# True if what is called here does what it shall, and what bash tells of itself is there.
berth_is_sound() {
	berth_text=''
	builtin printf -v berth_text '%s' sound 2>/dev/null
	[[ $berth_text == sound && ${BASH_SUBSHELL-} == 0 && ${BASHPID-} == "$$" && ${FUNCNAME[0]-} == berth_is_sound ]]
}

# Where special builtins come before functions, a function that stands in place of `builtin` can be taken away.
berth_mend() {
	POSIXLY_CORRECT=1
	unset -f builtin
	unset -v POSIXLY_CORRECT
	berth_is_sound && builtin return
	berth_is_busy=''
	builtin kill -KILL "$$"
	/bin/kill -KILL "$$"
	exec 0</dev/null "$berth_bash" -c 'kill -KILL "$$"'
}

# What would end this shell with the first builtin that fails, or show what is ours; the code of the next call has it again.
berth_leave_options() {
	if [[ -o posix ]]; then
		builtin set +o posix
		berth_options+=p
	fi
	if [[ -o xtrace ]]; then # not $-, in which nocasematch takes X for x
		builtin set +x
		berth_options+=x
	fi
	if [[ -o verbose ]]; then
		builtin set +v
		berth_options+=v
	fi
}

# With "name", "message", and more members of the error.
berth_fail() {
	berth_encode "$2"
	local message=$berth_text
	berth_encode "$1: $2"
	berth_report "\"error\":{\"name\":\"$1\",\"message\":$message,\"traceback\":[$berth_text]${3-}}"
	berth_report "\"done\":\"${4-error}\""
}

# True if bash cannot read it: why is in $berth_message and $berth_line then. It is asked with an empty environment, since
# with that of the code it might not start, and believed only about that text: other words are those of a start that failed.
# More arguments are options for bash.
berth_is_wrong() {
	local said REPLY
	said=$(builtin exec -c "$berth_bash" "${@:2}" -n /dev/stdin <<<"$1" 2>&1 >/dev/null) && builtin return 1
	while builtin read -r; do
		if [[ $REPLY =~ ^/dev/stdin:\ line\ ([0-9]+):\ (.*) && ${BASH_REMATCH[2]} != warning:* ]]; then
			berth_line=${BASH_REMATCH[1]} berth_message=${BASH_REMATCH[2]}
			builtin return 0
		fi
	done <<<"$said"
	builtin return 1
}

# True if no bash can read the code of a run. It may turn on extglob for its later lines, and nothing is turned on while it
# is only read: what can be read with that may be right, and bash itself tells if it is not.
berth_is_refused() {
	berth_is_wrong "$1" || builtin return 1
	local line=$berth_line message=$berth_message
	berth_is_wrong "$1" -O extglob || builtin return 1
	berth_line=$line berth_message=$message # by the options that the code begins with
}

# True if bash cannot read the code of a call, by the options that it has left.
berth_is_unread() {
	if builtin shopt -q extglob; then
		berth_is_wrong "$1" -O extglob
	else
		berth_is_wrong "$1"
	fi
}

# After the code, with its status.
berth_end() {
	if [[ -o errexit ]]; then
		builtin set +e
		berth_options+=e
	fi
	local -
	builtin set +fukxC
	local status=$1 why=$berth_why
	berth_is_busy=''
	case $why in
	interrupt) berth_fail Interrupted "the call was interrupted" '' interrupted ;;
	*)
		[[ ! $why ]] || status=$berth_status
		if ((status == 0)) && [[ ! $why || $why == exit ]]; then
			[[ ! $berth_is_run ]] || berth_report '"value":null,"nothing":true'
			berth_report '"done":"ok"'
		elif [[ ! $berth_is_run ]] && berth_is_unread "$berth_code"; then
			berth_fail SyntaxError "$berth_message" ",\"is_syntax\":true,\"line\":$berth_line"
		elif [[ $why == exit ]]; then
			berth_fail Exit "exit $status" ",\"exit_code\":$status"
		else
			berth_fail ExitStatus "exit status $status" ",\"exit_code\":$status"
		fi
		;;
	esac
}

# --- the ends that code can come to ---

# Under set -x nothing of these shows, as the standard error of whoever calls them goes nowhere.

berth_unwind() {
	berth_why=$1 berth_status=$2
	builtin shopt -s extdebug
	builtin trap '{ berth_step; } 2>/dev/null' DEBUG
}

# Before every command of the code that is left: 2 has bash return from where it is.
berth_step() {
	((${#FUNCNAME[@]} > 2)) && builtin return 2
	builtin trap - DEBUG
	builtin shopt -u extdebug
	builtin set -E # which goes with extdebug
}

berth_interrupt() {
	[[ ! $berth_is_busy || $berth_why ]] || berth_unwind interrupt 130
}

# Of a signal that ends a shell: it ends the call, as that would end with it. Between calls it ends this one.
berth_signal() {
	if [[ ! $berth_is_busy ]]; then
		builtin trap - "$1"
		builtin kill "-$1" "$$"
	elif [[ ! $berth_why ]]; then
		berth_unwind signal "$((128 + $1))"
	fi
}

# In place of the builtin: it ends the call, and not the shell that the next one needs.
exit() {
	{
		berth_text=$? # what it ends with if nothing is said
		berth_leave_options
	} 2>/dev/null
	local status # without a value, which set -k would take away
	[[ ${1-} != -- ]] || builtin shift
	status=${1-$berth_text}
	((BASH_SUBSHELL == 0)) || builtin exit "$status"
	[[ $berth_is_busy ]] || builtin exit "$status"
	# Of numbers test knows what exit does: all digits are decimal, and what it cannot read makes it return 2.
	if builtin test "$status" -eq 0 2>/dev/null || (($? == 1)); then
		status=$((${status//[!-]/}10#0${status//[!0-9]/} & 255))
	else
		builtin printf 'exit: %s: numeric argument required\n' "$status" >&2
		status=2
	fi
	berth_unwind exit "$status"
}

# Of every command that fails and is not asked whether it does. Under set -e the shell would end after this.
berth_failed() {
	if [[ -o errexit && $BASH_SUBSHELL == 0 && $berth_is_busy ]]; then
		builtin set +e
		berth_options+=e
		[[ $berth_why ]] || berth_unwind errexit "$1"
	fi
}

# All that lives in this shell, but for what every shell has of its own.
berth_tell() {
	builtin shopt -p # first: what functions have may need extglob
	builtin shopt -u nocasematch
	builtin mapfile -t berth_names <<<"$(builtin compgen -v)"
	for berth_name in "${berth_names[@]}"; do
		case $berth_name in
		berth_names | berth_orders | berth_reports | berth_name | berth_spare | berth_bash | BASH* | COMP_* | DIRSTACK | EPOCH* | EUID | FUNCNAME | GROUPS) ;;
		LINENO | PIPESTATUS | PPID | *RANDOM | SECONDS | SHELLOPTS | UID | _) ;;
		*) builtin declare -p "$berth_name" ;;
		esac
	done
	# Not that ours are readonly: whoever begins anew defines them once more.
	while builtin read -r; do
		[[ $REPLY == 'declare -fr '@(berth_*|exit) ]] || builtin printf '%s\n' "$REPLY"
	done <<<"$(builtin declare -f)"
	builtin alias -p
	builtin set +o
}

# Something ends the shell itself: builtin exit, a variable that set -u does not know, an error that bash does not survive.
# The same process begins anew then, with all that can be told of variables, functions and options.
berth_last_words() {
	berth_status=$1 # no names of ours that could be the user's: they are told, too
	[[ $berth_is_busy && $BASHPID == "$$" ]] || builtin return 0
	{
		# After a signal whose trap the code took away, bash has the status of the command before.
		if ((berth_status == 0)) && [[ ! $berth_why && ! ${BASH_COMMAND-} =~ exit|builtin|command ]]; then
			berth_why=failed
		fi
		[[ $berth_why != failed ]] || berth_status=1
		berth_is_sound || berth_mend
		[[ ! -o errexit ]] || berth_options+=e
		builtin set +efx
		berth_is_busy='' berth_why=${berth_why:-exit}
		berth_end "$berth_status"
		berth_state=$(berth_tell)
	} 2>/dev/null
	# A copy at 0 or 1 is not close-on-exec, and so is a copy of that.
	exec {berth_stdout}>&1 1>&"$berth_reports" 0<&"$berth_orders"
	exec {berth_new_reports}>&1 {berth_new_orders}<&0 1>&"$berth_stdout" 0</dev/null
	builtin eval "exec $berth_stdout>&-"
	exec {berth_new_state}<<<"$berth_state"
	# What is exported may be too much for a program to start with; it is told, too.
	builtin shopt -s execfail
	# shellcheck disable=SC2093 # it fails then
	exec "$berth_bash" "$berth_self" again "$berth_new_orders" "$berth_new_reports" "$berth_new_state"
	exec -c "$berth_bash" "$berth_self" again "$berth_new_orders" "$berth_new_reports" "$berth_new_state"
}

# Code that defines one of these, or unsets it, is told that it may not.
builtin readonly -f berth_hide berth_decode berth_encode berth_parse berth_meet berth_pass berth_value berth_report berth_next \
	berth_begin berth_give_input berth_run berth_open berth_is_sound berth_mend berth_leave_options berth_fail berth_is_wrong \
	berth_is_refused berth_is_unread berth_end berth_unwind berth_step berth_interrupt berth_signal exit berth_failed berth_tell berth_last_words
builtin trap '{ berth_status=$?; berth_leave_options; } 2>/dev/null; berth_last_words "$berth_status"' EXIT
builtin trap '{ berth_failed "$?"; } 2>/dev/null' ERR
builtin trap '' INT
# Those that bash ends by, after its EXIT trap. Not SIGSEGV and its like: the code that met one would meet it again.
for berth_name in 1 5 6 10 12 13 14 15 24 25 26 31; do
	# shellcheck disable=SC2064 # the number is known now
	builtin trap "{ berth_signal $berth_name; } 2>/dev/null" "$berth_name"
done
builtin set -E
while { berth_next; } 2>/dev/null; do
	berth_open
	FUNCNEST=$berth_nest
	[[ $berth_options != *p* ]] || builtin set -o posix
	[[ $berth_options != *e* ]] || builtin set -e
	# Within the code, so that it shows nothing of ours.
	[[ $berth_options != *x* ]] || berth_code="builtin set -x;$berth_code"
	[[ $berth_options != *v* ]] || builtin set -v
	berth_options=''
	# shellcheck disable=SC1091 # it is what the user wrote
	builtin source /dev/stdin <<<"$berth_code"
	{
		berth_status_now=$? berth_nest=${FUNCNEST-} FUNCNEST=''
		berth_is_sound || berth_mend
		berth_leave_options
		builtin trap '' INT
		berth_end "$berth_status_now"
	} 2>/dev/null
done
# An assignment that cannot be evaluated (x=1/0, of an integer) has bash give up the loop, with the call in it.
[[ ! $berth_is_busy ]] || berth_why=${berth_why:-failed}
builtin exit 0
