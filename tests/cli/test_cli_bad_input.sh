#!/usr/bin/env bash
# Errors print one plain line and what to do next, with exit code 2; never a crash.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

expect_refused() {
    expect_rc 2
    expect_no_out
    expect_err "$1"
    expect_err '^acre: what to do: '
}

# Invalid configuration.
for command in info 'info --device soft' 'demo --device soft'; do
    # shellcheck disable=SC2086 # the words of a command
    run "$no_gpu" ACRE_SOFT_BYTES=abc "$acre" $command
    expect_refused '^acre: cannot open soft.*ACRE_SOFT_BYTES.*abc'
done
for bad in ACRE_SOFT_BYTES=99999999999999999999 ACRE_SOFT_BYTES=-1 ACRE_SOFT_DEVICES=0 \
    ACRE_SOFT_DEVICES=1000 ACRE_SOFT_DEVICES=x ACRE_SOFT_SEED=x ACRE_SOFT_CHECK=perhaps \
    ACRE_FAULT=nonsense ACRE_FAULT=cuNoSuchThing:1; do
    run "$no_gpu" "$bad" "$acre" info --device soft
    expect_refused "^acre: cannot open soft.*${bad%%=*}"
done
run "$no_gpu" ACRE_DEVICE=banana "$acre" demo
expect_refused '^acre: cannot open auto.*banana'

# Unknown configuration: a warning, and the command continues.
run "$no_gpu" ACRE_SOFT_BYTE=1 "$acre" info --device soft
expect_rc 0
expect_out '^soft:0 '
expect_err 'warning.*ACRE_SOFT_BYTE\b.*ACRE_SOFT_BYTES'

# No driver library, and a file that is not a library.
run ACRE_CUDA_LIBRARY=/nonexistent "$acre" info --device cuda
expect_refused '^acre: cannot open cuda: cannot load the CUDA driver /nonexistent'
check "the reason is said once" test "$(grep -c 'cannot' "$err")" -eq 1
run ACRE_CUDA_LIBRARY=/nonexistent "$acre" demo --device cuda
expect_refused '^acre: cannot open cuda: '
echo 'not a library' >fake.so
run ACRE_CUDA_LIBRARY="$work/fake.so" "$acre" info --device cuda
expect_refused '^acre: cannot open cuda: '
run ACRE_CUDA_LIBRARY="$work/fake.so" "$acre" info
expect_rc 0
expect_err '^acre: no GPU: '

# A driver that lacks functions that acre needs is too old. A library with only cuInit is the
# oldest.
if command -v cc >/dev/null; then
    echo 'int cuInit(unsigned flags) { (void)flags; return 0; }' >old.c
    if cc -shared -fPIC -o old.so old.c 2>/dev/null; then
        run ACRE_CUDA_LIBRARY="$work/old.so" "$acre" info --device cuda
        expect_refused '^acre: cannot open cuda: the installed driver is too old'
        run ACRE_CUDA_LIBRARY="$work/old.so" "$acre" doctor
        expect_rc 1
        expect_out 'problem +GPU +the driver is too old'
    fi
fi

# The device is lost at one call after another: the tool reports it and does not crash.
for n in 5 6 8 11 15 20 25 30 40 60 80; do
    run "$no_gpu" "$small" "ACRE_FAULT=*:$n:sticky:700" "$acre" demo --device soft --output page
    expect_no_crash
    if [ "$rc" -ne 0 ]; then
        expect_refused '^acre: cannot .* soft: the device failed for good'
        expect_err 'the device was lost'
    fi
done
run "$no_gpu" 'ACRE_FAULT=*:5:sticky:700' "$acre" info --device soft
expect_refused 'the device failed for good'
expect_err 'the device was lost'
run "$no_gpu" 'ACRE_FAULT=*:5:sticky:700' "$acre" info
expect_rc 2
expect_err 'the device was lost'
run "$no_gpu" 'ACRE_FAULT=*:5:sticky:700' "$acre" doctor
expect_no_crash
expect_rc 2
expect_out 'problem.*the device failed for good'

# A single driver call fails: a result or a message, never a crash.
for n in $(seq 1 3 60); do
    run "$no_gpu" "$small" "ACRE_FAULT=*:$n" "$acre" demo --device soft --output page
    expect_no_crash
    check "exit 0, 1 or 2" test "$rc" -le 2
done

# System limits are reported, not a crash. An ACRE_ADDRESS_BYTES above the address space is
# harmless.
limits=('-f 100' '-v 400000')
# Sanitizers need larger files and more address space.
[ -z "${TSAN_OPTIONS:-}" ] || limits=()
for limit in "${limits[@]}"; do
    run "$no_gpu" bash -c "ulimit $limit; exec \"\$0\" info --device soft" "$acre"
    expect_rc 2
    expect_err 'ACRE_SOFT_BYTES'
done
run "$no_gpu" "$small" ACRE_ADDRESS_BYTES=18446744073709551615 "$acre" demo --output page
expect_rc 0
run "$no_gpu" ACRE_DATA="$(printf 'a\033[31mb')" "$acre" doctor
expect_plain

finish
