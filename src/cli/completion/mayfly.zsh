#compdef mayfly
# SPDX-License-Identifier: Apache-2.0
# Completion of mayfly's commands and options for zsh; see mayfly.bash for what mayfly says of them.

_mayfly()
{
	local command= current=${words[CURRENT]} previous=${words[CURRENT - 1]} option rest
	local -A values
	local -i i

	for ((i = 2; i < CURRENT; i++)); do
		if [[ ${words[i]} != -* ]]; then
			command=${words[i]}
			break
		fi
	done
	if [[ -z $command || $command == help ]]; then
		compadd -- ${(f)"$(${words[1]} --complete 2>/dev/null)"}
		[[ -n $command ]] || compadd -- --help --version --no-pager --color
		return
	fi
	while read -r option rest; do
		values[$option]=$rest
	done < <(${words[1]} --complete $command 2>/dev/null)
	if [[ $command == record ]]; then
		# After -- or the program's name: the program's own arguments.
		for ((i++; i < CURRENT; i++)); do
			if [[ -n ${values[${words[i]}]} ]]; then
				((i++))
			elif [[ ${words[i]} == -- || ${words[i]} != -* ]]; then
				[[ ${words[i]} == -- ]] && ((i++))
				shift $((i - 1)) words
				((CURRENT -= i - 1))
				_normal
				return
			fi
		done
	fi
	if [[ $current == --*=* ]]; then
		previous=${current%%=*}
		compset -P '*='
	fi
	rest=${values[$previous]}
	if [[ $command == report && $previous == --sort ]]; then
		[[ -n ${words[(r)--spans]} ]] && rest+=" count allocated live"
		[[ -n ${words[(r)--events]} ]] && rest+=" count"
	fi
	case $rest in
	-) ;;
	@folders) _files -/ ;;
	@files) _files ;;
	@list*)
		compset -P '*,'
		compadd -- ${=rest#@list}
		;;
	'')
		if [[ $current == -* ]]; then
			compadd -- ${(k)values}
		elif [[ $command == record ]]; then
			_command_names -e
		elif [[ $previous == fleet ]]; then
			compadd -- init list rollup trim
		else
			_files -g '*.mayfly*' || _files
		fi
		;;
	*) compadd -- ${=rest} ;;
	esac
}

_mayfly "$@"
