#!/usr/bin/env bash
# Output on a terminal: tables fit its width, --watch repaints in place. A pipe gets whole lines.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2
has_terminals || skip "there are no pseudo-terminals"

# tty COLUMNS WORDS: runs the tool on a terminal of that width, without colour.
tty() {
    run "$no_gpu" "$smaller" TERM=xterm NO_COLOR=1 \
        script -qec "stty cols $1 rows 24; '$acre' $2" /dev/null
    # The line of progress is erased.
    sed 's/.*\r\x1b\[K//; s/\r$//' "$out" >"$out.plain"
    mv "$out.plain" "$out"
}
widest() { awk '{ if (length($0) > most) most = length($0) } END { print most + 0 }' "$out"; }
words() { tr -s ' \n' '\n' <"$1" | sort; }

ACRE_DEVICE=soft ACRE_TRACE=tags.trace "$ACRE_BUILD/examples/oom_report" >/dev/null 2>&1
printf 'id,lower,upper,size\na,0,2,4\nb,1,3,4\n' >b.csv

# Tables are not wider than the terminal.
for width in 100 60 40; do
    for command in 'info --device soft' 'trace tags.trace' 'plan b.csv' 'replay --device soft b.csv' doctor; do
        [ "$width $command" = '40 doctor' ] && continue # its names alone take 30 columns
        tty "$width" "$command"
        case $command in
            trace*) sed -i -n '/^TAG/,/^EVENT/p' "$out" ;; # the summary above has fixed lines
        esac
        check "$command fits $width columns, not $(widest)" test "$(widest)" -le "$width"
    done
done

# Nothing is lost: a narrow table has the words of a wide one.
tty 200 'info --device soft'
grep -v '^acre:' "$out" >wide
tty 50 'info --device soft'
grep -v '^acre:' "$out" >narrow
check "the narrow table has more lines" test "$(wc -l <narrow)" -gt "$(wc -l <wide)"
check "all capabilities are there" test "$(grep -o 'fd-sharing' narrow)" = fd-sharing
check "the same words" diff <(words wide | grep -v GiB) <(words narrow | grep -v GiB)
# Too narrow for columns: one line for each cell.
tty 40 'replay --device soft b.csv'
expect_out '^FILE +b.csv$'
expect_out '^LIVE +8 B$'

# COLUMNS overrides the size of the terminal; it has no effect on a pipe.
run "$no_gpu" "$smaller" TERM=xterm NO_COLOR=1 COLUMNS=50 \
    script -qec "stty cols 200; '$acre' info --device soft" /dev/null
tr -d '\r' <"$out" >narrow
check "COLUMNS counts" test "$(wc -l <narrow)" -gt 2
run "$no_gpu" "$smaller" COLUMNS=50 "$acre" info --device soft
check "one line a device" test "$(wc -l <"$out")" -eq 2
expect_out 'vmm host-vmm fd-sharing managed$'

# --watch on a terminal goes back to the top instead of scrolling; in a pipe it does not.
home=$(printf '\033[H\033[J')
ACRE_STATS=s.stats "$acre" bench pool --quick --device soft >/dev/null 2>&1 &
pid=$!
wait_for test -s s.stats
tty 80 'stats --watch 0.05 s.stats'
expect_rc 0
wait "$pid"
check "it repaints" grep -qF "$home" "$out"
check "each screen begins at the top" test "$(grep -cF "$home" "$out")" -eq "$(grep -c 'process [0-9]*.* last written' "$out")"
check "a screen fits the terminal" awk -v RS='\033[[]H\033[[]J' 'NR > 1 && gsub(/\n/, "\n") > 24 { bad = 1 } END { exit bad }' "$out"
run "$acre" stats --watch 0.05 s.stats
expect_rc 0
expect_plain

finish
