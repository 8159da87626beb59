#!/usr/bin/env bash
# Help, version, and usage errors.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

run "$acre" --help
expect_rc 0
expect_no_err
for word in info doctor demo replay plan bench trace export stats run Examples: ACRE_SOFT_BYTES NO_COLOR 'Exit status'; do
    expect_out "$word"
done
cp "$out" "$work/help"
run "$acre" help
expect_rc 0
check "help is --help" cmp "$out" "$work/help"
run "$acre" help demo
expect_rc 0
expect_out '^Usage: acre demo '
run "$acre" help reply
expect_rc 64

version=$(sed -n 's/^#define ACRE_VERSION_[A-Z]* //p' "$ACRE_SOURCE/include/acre.h" | paste -sd.)
for option in --version -V; do
    run "$acre" "$option"
    expect_rc 0
    check "version of the header" test "$(cat "$out")" = "acre $version"
done

for command in info doctor demo; do
    run "$acre" "$command" --help
    expect_rc 0
    expect_out "acre $command"
    expect_out '--json'
    run "$acre" "$command" --version
    expect_rc 0
    run "$acre" "$command" --no-such-option
    expect_rc 64
    expect_no_out
    expect_err 'no-such-option'
    run "$acre" "$command" surplus
    expect_rc 64
    expect_no_out
done

run "$acre"
expect_rc 64
expect_no_out
expect_err 'no command given'

run "$acre" inof
expect_rc 64
expect_no_out
expect_err "did you mean 'info'"

run "$acre" reply
expect_rc 64
expect_no_out
expect_err "there is no command 'reply'; did you mean 'replay'"
expect_err 'info, doctor, demo, replay, plan, bench, trace, report, export, stats, top, ps, snapshot, symbolize, run, limit'

run "$acre" "$(head -c 5000 /dev/zero | tr '\0' x)"
expect_rc 64
expect_err 'there is no command'

run "$acre" ''
expect_rc 64

# -h is --help in every command, also behind other options; so is -?.
run "$acre" -h
expect_rc 0
check "-h is --help" cmp "$out" "$work/help"
sed -n '/^Commands:/,/^$/ s/^  \([a-z]*\) .*/\1/p' "$work/help" >"$work/commands"
check "there are commands" test -s "$work/commands"
while read -r command; do
    run "$acre" "$command" --help
    cp "$out" "$work/help.$command"
    run "$acre" "$command" -h
    expect_rc 0
    expect_no_err
    check "$command -h is --help" cmp "$out" "$work/help.$command"
done <"$work/commands"

# argp wraps at 79 columns and continues in column 0: no line below the options may be so long. If
# the text of an option ends in the last column, argp prints a line of blanks after it.
text_of() { sed '1,/--version /d; /^Mandatory or optional arg/,/^$/d' "$1"; }
while read -r command; do
    run "$acre" ${command:+"$command"} --help
    ARGP_HELP_FMT=rmargin=200 "$acre" ${command:+"$command"} --help >"$work/wide"
    check "argp wraps no line" diff <(text_of "$work/wide") <(text_of "$out")
    check "no trailing blanks" test "$(grep -c ' $' "$out")" -eq 0
    check "at most 79 columns" test "$(wc -L <"$out")" -le 79
done < <(echo && cat "$work/commands")
run "$acre" trace --help
expect_out 'ALLOCATED BY'
expect_out 'ACRE_STACKS'
for words in 'info --json -h' 'plan b.csv -h' 'bench -qh' 'info -?'; do
    # shellcheck disable=SC2086 # the words of a command
    run "$acre" $words
    expect_rc 0
    expect_out '^Usage: acre '
    expect_out '^  -h, --help '
done
run "$acre" info --usage
expect_rc 0
expect_out '^Usage: acre info '

# A letter means the same in every command. ("--out" of plan is the "--output" of others.)
grep -hoE '^  -., --[a-z-]+' "$work"/help.* "$work/help" | sed 's/--out$/--output/' | sort -u |
    grep -v -- '-?' >"$work/letters"
check "letters were found" test "$(wc -l <"$work/letters")" -gt 10
check "one meaning for each letter" test -z "$(cut -c3-4 "$work/letters" | uniq -d)"

# --help has all variables but those that users do not set.
grep -oE '^    X\([A-Z_]+' "$ACRE_SOURCE/src/base/config.h" | sed 's/.*(/ACRE_/' | sort >"$work/all"
grep -oE '^  ACRE_[A-Z_]+' "$work/help" | tr -d ' ' | sort -u >"$work/shown"
check "there are variables" test -s "$work/all"
check "six are internal" test "$(comm -23 "$work/all" "$work/shown" | paste -sd' ')" = \
    'ACRE_DATA ACRE_FAULT ACRE_REQUIRE_CUDA ACRE_RUN ACRE_SHIM_LIBRARIES ACRE_SOFT_LIBRARIES'
check "no other is shown" test -z "$(comm -13 "$work/all" "$work/shown")"

run "$acre" --no-such-option info
expect_rc 64
run "$acre" info --device
expect_rc 64
expect_err 'requires an argument'

finish
