# SPDX-License-Identifier: Apache-2.0
# Completion of mayfly's commands and options for bash.

_mayfly()
{
	local current=$2 previous=$3 command= i word
	local record="--output --force --interval --exact --snapshots --overhead --max-size
		--max-spool --map-events --sampler --follow --ocaml --debug-dir --stream
		--key --stream-buffer --stream-timeout --spool-dir --progress --quiet --help"
	local receive="--output --force --key --timeout --quiet --help"
	local report="--metric --by --sort --at --from --to --series --histogram --churn --reallocs
		--survival --rss --fragmentation --spans --events
		--focus --ignore --hide --thread --heap --label --min-size --max-size --min-lifetime --max-lifetime --top --all --depth
		--all-frames --wide --json --help"
	local info="--modules --wide --json --help"
	local dump="--no-stacks --json --like-memtrace --help"
	local import="--output --force --help"
	local export="--to --output --force --rows --metric --at --from --focus --ignore --hide --thread
		--heap --label --min-size --max-size --min-lifetime --max-lifetime --all-frames --help"
	local leaks="--suppressions --no-default-suppressions --print-suppressions --exit-code --by --from
		--to --focus --ignore --hide --thread --heap --label --min-size --max-size --min-lifetime
		--max-lifetime --top --all --depth --all-frames --wide --json --help"
	local diff="--metric --by --sort --at --from --to --per --focus --ignore --hide --thread --heap
		--label --min-size --max-size --min-lifetime --max-lifetime --top --all --depth --all-frames
		--wide --json --help"
	local merge="--output --align --force --help"
	local check="--max-peak --max-allocated --max-leaked --max-blocks --limits --baseline
		--max-increase --confident --suppressions --no-default-suppressions --junit --top
		--all-frames --wide --json --help"
	local plan="--error --sampler --by --sort --metric --all-frames --cost --sample-bytes --time
		--json --help"

	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ $word != -* ]]; then
			command=$word
			break
		fi
	done
	case $command in
	"")
		COMPREPLY=($(compgen -W "record receive report leaks diff check merge info dump plan import export help version --help --version" \
			-- "$current"))
		return
		;;
	help)
		COMPREPLY=($(compgen -W "record receive report leaks diff check merge info dump plan import export" -- "$current"))
		return
		;;
	record)
		# Behind -- or the program's name, the program's own arguments.
		for ((i++; i < COMP_CWORD; i++)); do
			word=${COMP_WORDS[i]}
			case $word in
			-o | -i | --output | --interval | --sampler | --debug-dir | --snapshots | \
				--overhead | --max-size | --max-spool | --stream | --key | --stream-buffer | \
				--stream-timeout | --spool-dir | --map-events)
				((i++))
				;;
			--)
				if ((i + 1 < COMP_CWORD)); then
					compopt -o default
					return
				fi
				COMPREPLY=($(compgen -c -- "$current"))
				return
				;;
			-* | =)
				;;
			*)
				compopt -o default
				return
				;;
			esac
		done
		;;
	esac
	case $previous in
	--metric)
		COMPREPLY=($(compgen -W "live peak allocated leaked temporary survived" -- "$current"))
		return
		;;
	--by)
		COMPREPLY=($(compgen -W "function line stack module thread size lifetime heap \
			freeing-thread threads label" -- "$current"))
		return
		;;
	--histogram)
		COMPREPLY=($(compgen -W "size lifetime" -- "$current"))
		return
		;;
	--sort)
		if [[ " ${COMP_WORDS[*]} " == *" --spans "* ]]; then
			COMPREPLY=($(compgen -W "total self count allocated live" -- "$current"))
		elif [[ " ${COMP_WORDS[*]} " == *" --events "* ]]; then
			COMPREPLY=($(compgen -W "total self count" -- "$current"))
		else
			COMPREPLY=($(compgen -W "self total" -- "$current"))
		fi
		return
		;;
	--at)
		COMPREPLY=($(compgen -W "peak end" -- "$current"))
		return
		;;
	--sampler)
		COMPREPLY=($(compgen -W "stratified poisson" -- "$current"))
		return
		;;
	--to)
		if [[ $command == export ]]; then
			COMPREPLY=($(compgen -W "pprof heap_v2 folded speedscope flamegraph csv chrome \
				perfetto massif ctf sqlite memtrace" -- "$current"))
		fi
		return
		;;
	--rows)
		COMPREPLY=($(compgen -W "stacks samples" -- "$current"))
		return
		;;
	--align)
		COMPREPLY=($(compgen -W "start clock" -- "$current"))
		return
		;;
	--debug-dir | --spool-dir)
		COMPREPLY=($(compgen -d -- "$current"))
		return
		;;
	--key)
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -f -- "$current"))
		return
		;;
	--stream | --stream-buffer | --stream-timeout | --timeout | \
	--interval | -i | --from | --series | --focus | --ignore | --hide | --thread | --label | --min-size | \
		--max-size | --min-lifetime | --max-lifetime | --top | --depth | --error | --cost | --sample-bytes | --time | \
		--exit-code | --per | --max-peak | --max-allocated | --max-leaked | --max-blocks | --max-increase)
		return
		;;
	esac
	if [[ $current == -* ]]; then
		case $command in
		record | receive | report | leaks | diff | check | merge | info | dump | plan | import | export)
			COMPREPLY=($(compgen -W "${!command}" -- "$current"))
			;;
		esac
	elif [[ $command == record && $previous != -o && $previous != --output ]]; then
		COMPREPLY=($(compgen -c -- "$current"))
	else
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -f -- "$current"))
	fi
}

complete -F _mayfly mayfly
