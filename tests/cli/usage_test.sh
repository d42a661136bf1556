#!/usr/bin/env bash
# Commands, options, help: everything before a file is opened.
. "$(dirname "$0")/support.sh"
fixture=$golden/llama/packed7.h5

expect 3 'Usage: cpeq COMMAND' cpeq
expect 0 'Usage: cpeq COMMAND' cpeq help
expect 0 'Usage: cpeq COMMAND' cpeq --help
expect 0 'cpeq ' cpeq --version
refuse "no command 'frobnicate'; there are info" cpeq frobnicate
refuse "no command 'frobnicate'; there are info" cpeq help frobnicate
refuse 'help: expected one command, found 2' cpeq help info diff

commands=$(cpeq help | sed -n 's/^  \([a-z]*\) .*/\1/p')
check 'a list of commands' [ -n "$commands" ]
for command in $commands; do
    expect 0 "Usage: cpeq $command" cpeq "$command" --help
    printed 'Example:'
    printed '--json'
    cp "$work/.out" help
    expect 0 "Usage: cpeq $command" cpeq help "$command"
    check "help $command and $command --help are the same" cmp -s "$work/.out" help
    refuse '--nonsense: no such option; there are --' cpeq "$command" --nonsense
    refuse '--json: given twice' cpeq "$command" --json --json
    refuse '--json=yes: takes no value' cpeq "$command" --json=yes
    refuse '--color: needs a value' cpeq "$command" --color
    refuse '--color: needs a value, WHEN, found an empty one' cpeq "$command" --color=
    refuse "--color: no 'pink'; there are auto, always, never" cpeq "$command" --color pink
    refuse '--quiet: not together with --verbose' cpeq "$command" -q -v
done

refuse 'expected at least one FILE, found 0 operands' cpeq info
refuse 'expected EXPECTED and at least one ACTUAL, found 1 operand' cpeq diff "$fixture"
for value in 0 -1 2x '' ' 2' 1e1 99999999999999999999; do
    refuse '--cp:' cpeq info "$fixture" --cp "$value"
done
refuse "--layout: no 'snake'; there are contiguous, zigzag" cpeq info "$fixture" --layout snake
refuse "'striped:0': expected the tokens of a block" cpeq info "$fixture" --layout striped:0
refuse "'uneven:4:x': expected each rank's tokens" cpeq info "$fixture" --layout uneven:4:x
refuse "'zigzag:2': zigzag takes no parameter" cpeq info "$fixture" --layout zigzag:2
for value in -1 nan inf 0x1 1e999 1.5.2 ''; do
    refuse '--rtol:' cpeq diff "$fixture" "$fixture" --rtol "$value"
    refuse '--atol:' cpeq diff "$fixture" "$fixture" --atol "$value"
done
finish
