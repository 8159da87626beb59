#!/usr/bin/env bash
# The programs of examples/mistakes with ACRE_DEBUG=1 and nothing else: each prints one message that
# names the mistake, the bytes and the lines, as recorded in tests/data/mistakes.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

# Addresses differ from run to run, and paths from machine to machine.
plain() { sed -E "s#$ACRE_SOURCE/##g; s/0x[0-9a-f]+/ADDRESS/g; s#at [^ ]*/([a-z_]+\.c:)#at \1#g" "$1"; }

for recorded in "$ACRE_SOURCE"/tests/data/mistakes/*.txt; do
    name=$(basename "$recorded" .txt)
    program=$ACRE_BUILD/examples/mistakes/$name
    run "$no_gpu" ACRE_DEBUG=1 "$program"
    expect_rc 0
    # The soft device is lost after a race, and says so after the message.
    plain "$err" | grep -v ' is lost: ' >"$work/said"
    check "$name prints what is recorded" diff "$recorded" "$work/said"

    # Without the variable the library prints nothing. A sanitizer finds the race itself.
    if [ "$name" = race ] && is_sanitized; then
        continue
    fi
    run "$no_gpu" "$program"
    expect_rc 0
    check "$name prints nothing" test ! -s "$err"
done
finish
