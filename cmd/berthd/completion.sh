# shellcheck shell=bash
# The tables are written in front of this when Berth is built.
_berthd() {
	local cur=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]} kind=''
	COMPREPLY=()
	# "--flag=value" is three words where `=` breaks them, and one where it does not.
	if [[ $cur == '=' ]]; then
		cur=''
	elif [[ $flag == '=' ]] && ((COMP_CWORD > 1)); then
		flag=${COMP_WORDS[COMP_CWORD - 2]}
	elif [[ $cur == --*=* ]]; then
		return
	fi
	_berthd_kind "$flag"
	case $kind in
	files) compopt -o default ;;
	dirs) compopt -o dirnames ;;
	users) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
	groups) mapfile -t COMPREPLY < <(compgen -g -- "$cur") ;;
	levels) mapfile -t COMPREPLY < <(compgen -W "${_berthd_levels-}" -- "$cur") ;;
	any) ;;
	*) mapfile -t COMPREPLY < <(compgen -W "${_berthd_flags-}" -- "$cur") ;;
	esac
}

complete -F _berthd berthd
