# SPDX-License-Identifier: Apache-2.0
# Completion of mayfly's commands and options for fish; see mayfly.bash for what mayfly says of them.

function __mayfly_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -l command
    set -l at 2
    while test $at -le (count $words)
        if not string match -q -- '-*' $words[$at]
            set command $words[$at]
            break
        end
        set at (math $at + 1)
    end
    if test -z "$command" -o "$command" = help
        $program --complete 2>/dev/null
        test -z "$command"; and printf '%s\n' --help --version --no-pager --color
        return
    end

    set -l options
    set -l values
    for line in ($program --complete $command 2>/dev/null)
        set -l parts (string split -m 1 -- ' ' $line)
        set -a options $parts[1]
        set -a values "$parts[2]"
    end
    if test $command = record
        # After -- or the program's name: the program's own arguments.
        set at (math $at + 1)
        while test $at -le (count $words)
            set -l index (contains -i -- $words[$at] $options)
            if test -n "$index"; and test -n "$values[$index]"
                set at (math $at + 1)
            else if test $words[$at] = --; or not string match -q -- '-*' $words[$at]
                test $words[$at] = --; and set at (math $at + 1)
                complete -C (string join ' ' -- (string escape -- $words[$at..-1]) "$current")
                return
            end
            set at (math $at + 1)
        end
    end

    set -l previous $words[-1]
    set -l prefix
    if string match -q -- '--*=*' $current
        set previous (string split -m 1 -- = $current)[1]
        set prefix $previous=
    end
    set -l rest
    set -l index (contains -i -- $previous $options)
    test -n "$index"; and set rest $values[$index]
    if test $command = report -a "$previous" = --sort
        contains -- --spans $words; and set rest "$rest count allocated live"
        contains -- --events $words; and set rest "$rest count"
    end
    switch "$rest"
        case -
        case @folders
            __fish_complete_directories (string replace -- "$prefix" '' $current)
        case @files
            __fish_complete_path (string replace -- "$prefix" '' $current)
        case '@list*'
            set -l done (string match -r -- '^.*,' $current)
            test -z "$done"; and set done "$prefix"
            for word in (string split -n -- ' ' $rest)[2..-1]
                echo "$done$word"
            end
        case ''
            if string match -q -- '-*' $current
                printf '%s\n' $options
            else if test $command = record
                __fish_complete_command
            else if test "$previous" = fleet
                printf '%s\n' init list rollup trim
            else
                __fish_complete_suffix .mayfly
            end
        case '*'
            for word in (string split -n -- ' ' $rest)
                echo "$prefix$word"
            end
    end
end

complete -c mayfly -f -a '(__mayfly_complete)'
