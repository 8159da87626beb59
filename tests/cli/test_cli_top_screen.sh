#!/usr/bin/env bash
# The live view of acre top, on terminals of several sizes: top_screen_cases.py presses keys and looks
# at the screen.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/publish.sh"
cd "$work" || exit 2
has_terminals || skip "there are no pseudo-terminals"
cases=$ACRE_BUILD/tests/api/top_cases

# Of a build without ncurses, acre top says what to do instead.
if ! grep -q '^ACRE_NCURSESW_LIBRARY:FILEPATH=/' "$ACRE_BUILD/CMakeCache.txt"; then
    run script -qec "'$acre' top" /dev/null
    expect_rc 2
    expect_out "built without ncurses .*use 'acre top --once'"
    finish
fi

export LD_LIBRARY_PATH=$ACRE_BUILD/tests/standin/nvml_cards NVML_PIDS="$$:1:1024"
publish one ACRE_STATS=1 ACRE_SOFT_BYTES=256MiB "$cases"
one=$pid
order one 'alloc 8 train/forward'
order one 'alloc 4 train/backward'
publish two ACRE_STATS=1 ACRE_SOFT_BYTES=256MiB "$cases"
two=$pid
order two 'alloc 64 serve'
ln -s "$cases" "$(printf 'evil\033[31m\xe2\x80\xaename')"
publish evil ACRE_STATS=1 ACRE_SOFT_BYTES=256MiB "./$(printf 'evil\033[31m\xe2\x80\xaename')"
evil=$pid
run python3 "$ACRE_SOURCE/tests/cli/top_screen_cases.py" "$acre" "$one" "$two" "$evil" "$$"
cat "$out"
expect_rc 0
expect_out '^all screens are as expected$'
# A terminal of an unknown type.
run script -qec "TERM=unheard-of '$acre' top" /dev/null
expect_rc 2
expect_out "no live view on a terminal of type 'unheard-of'; use 'acre top --once'"
# A terminal without escape codes gets the list once.
run script -qec "TERM=dumb '$acre' top --interval 0" /dev/null
expect_rc 0
expect_out 'PID +CARD '
close_program one
close_program evil
finish
