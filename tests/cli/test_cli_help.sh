#!/usr/bin/env bash
# Help, version, and usage errors.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

run "$acre" --help
expect_rc 0
expect_no_err
for word in info doctor demo replay plan bench trace stats run Examples: ACRE_SOFT_BYTES NO_COLOR 'Exit status'; do
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
expect_err 'info, doctor, demo, replay, plan, bench, trace, stats, run'

run "$acre" "$(head -c 5000 /dev/zero | tr '\0' x)"
expect_rc 64
expect_err 'there is no command'

run "$acre" ''
expect_rc 64

run "$acre" --no-such-option info
expect_rc 64
run "$acre" info --device
expect_rc 64
expect_err 'requires an argument'

finish
