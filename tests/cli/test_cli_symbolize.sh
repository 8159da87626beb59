#!/usr/bin/env bash
# acre symbolize: frames of a log become functions and lines; everything else stays.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

leak=$ACRE_BUILD/examples/mistakes/leak

# Without ACRE_DEBUG frames are modules and offsets.
run "$no_gpu" ACRE_LOG=stderr ACRE_STACKS=4 "$leak"
expect_rc 0
expect_err '^acre: warning: pool: soft:0: leak: 100000 bytes in 1 block of a pool not freed; allocated by .*/leak\+0x[0-9a-f]+$'
cp "$err" "$work/log"
frame=$(sed -n 's/.*allocated by //p' "$work/log")

run_leaks "$acre" symbolize "$work/log"
expect_rc 0
expect_out 'not freed; allocated by make_buffer at .*leak\.c:10$'
expect_out '^acre:     called by main at .*leak\.c:21$'
check "as many lines as before" test "$(wc -l <"$out")" -eq "$(wc -l <"$work/log")"

run "$acre" symbolize "$frame"
expect_rc 0
expect_out '^make_buffer at .*leak\.c:10$'

place=$(sed 's/^make_buffer at //' "$out")

# Standard input; frames in brackets; text that only looks like a frame.
# shellcheck disable=SC2016 # $1 and $2 are for the inner shell
run bash -c 'printf "[%s] (%s), x+0x10 /dev/null+0x1 +0x12\tx\0y\n%s" "$2" "$2" end | "$1" symbolize' - "$acre" "$frame"
expect_rc 0
expect_out '^\[make_buffer at .*leak\.c:10\] \(make_buffer at .*leak\.c:10\), x\+0x10 /dev/null\+0x1 \+0x12'
check "the last line stays without an end" bash -c "tail -c 3 '$out' | grep -q end"

# A path with spaces and brackets, alone, in a text, and relative.
mkdir -p "$work/my (own) dir"
cp "$leak" "$work/my (own) dir"
spaced="my (own) dir/leak+${frame##*+}"
run "$acre" symbolize "$work/$spaced"
expect_rc 0
expect_out '^make_buffer at .*leak\.c:10$'
cd "$work" || exit 2
printf '%s\n' "by $work/$spaced; by [$work/$spaced]" "in $frame $spaced" "make_buffer in $work/$spaced" >spaced.log
run "$acre" symbolize spaced.log
expect_rc 0
expect_no_err
printf '%s\n' "by make_buffer at $place; by [make_buffer at $place]" \
    "in make_buffer at $place make_buffer at $place" "make_buffer in $place" >wanted
check "every frame" diff wanted "$out"

run "$acre" symbolize /nonexistent+0x10
expect_rc 1
expect_err "^acre: /nonexistent\+0x10: the file is missing or has no symbol for this address\$"
run "$acre" symbolize /nonexistent
expect_rc 2
expect_err '^acre: /nonexistent: No such file or directory$'
run "$acre" symbolize "$work"
expect_rc 2
expect_err 'Is a directory'
run "$acre" symbolize --wrong
expect_rc 64
finish
