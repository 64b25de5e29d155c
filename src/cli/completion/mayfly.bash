# SPDX-License-Identifier: Apache-2.0
# Completion of mayfly's commands and options for bash. `mayfly --complete` prints the commands,
# `mayfly --complete COMMAND` the options, each with the words that its value may be.

_mayfly()
{
	local current=$2 previous=$3 command= i word option
	local -A values=()

	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ $word != -* ]]; then
			command=$word
			break
		fi
	done
	if [[ -z $command ]]; then
		COMPREPLY=($(compgen -W "$("$1" --complete 2>/dev/null) --help --version --no-pager --color" -- "$current"))
		return
	fi
	if [[ $command == help ]]; then
		COMPREPLY=($(compgen -W "$("$1" --complete 2>/dev/null)" -- "$current"))
		return
	fi
	while read -r option word; do
		values[$option]=$word
	done < <("$1" --complete "$command" 2>/dev/null)
	if [[ $command == record ]]; then
		# After -- or the program's name: the program's own arguments.
		for ((i++; i < COMP_CWORD; i++)); do
			word=${COMP_WORDS[i]}
			if [[ -n ${values[$word]} ]]; then
				((i++))
			elif [[ $word == -- ]] && ((i + 1 == COMP_CWORD)); then
				COMPREPLY=($(compgen -c -- "$current"))
				return
			elif [[ $word == -- || ($word != -* && $word != =) ]]; then
				compopt -o default 2>/dev/null
				return
			fi
		done
	fi
	word=${values[$previous]}
	if [[ $command == report && $previous == --sort ]]; then
		case " ${COMP_WORDS[*]} " in
		*" --spans "*) word+=" count allocated live" ;;
		*" --events "*) word+=" count" ;;
		esac
	fi
	case $word in
	-) ;;
	@list*)
		local done=
		[[ $current == *,* ]] && done=${current%,*},
		COMPREPLY=($(compgen -P "$done" -W "${word#@list}" -- "${current##*,}"))
		;;
	@folders)
		COMPREPLY=($(compgen -d -- "$current"))
		;;
	"" | @files)
		if [[ -z $word && $current == -* ]]; then
			COMPREPLY=($(compgen -W "${!values[*]}" -- "$current"))
		elif [[ -z $word && $command == record ]]; then
			COMPREPLY=($(compgen -c -- "$current"))
		elif [[ -z $word && $previous == fleet ]]; then
			COMPREPLY=($(compgen -W "init list rollup trim" -- "$current"))
		else
			compopt -o filenames 2>/dev/null
			# Traces, if there are any; other tools' files have any name.
			[[ -z $word ]] && COMPREPLY=($(compgen -f -X '!*.mayfly*' -- "$current"))
			if ((${#COMPREPLY[@]})); then
				COMPREPLY+=($(compgen -d -- "$current"))
			else
				COMPREPLY=($(compgen -f -- "$current"))
			fi
		fi
		;;
	*)
		COMPREPLY=($(compgen -W "$word" -- "$current"))
		;;
	esac
}

complete -F _mayfly mayfly
