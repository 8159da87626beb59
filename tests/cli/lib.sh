# shellcheck shell=bash
# shellcheck disable=SC2034 # variables are for the tests
# What the tests of the tool share. A test sources this, calls `run` and asserts; it ends with
# `finish`. ACRE_BUILD is the folder that holds the tool, ACRE_SOURCE the project's.
set -u

: "${ACRE_BUILD:?the build folder, set by ctest}"
: "${ACRE_SOURCE:?the source folder, set by ctest}"

acre=$ACRE_BUILD/acre
[ -x "$acre" ] || {
    echo "$acre was not built" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
checks=0
last=

# Tests say what the tool reads; the caller's own settings must not. The size of soft devices stays,
# for builds that need it small.
unset ACRE_DEVICE ACRE_CUDA_LIBRARY ACRE_SOFT_DEVICES ACRE_SOFT_SEED ACRE_SOFT_CHECK ACRE_FAULT \
    ACRE_COPY_THREADS ACRE_COPY_STAGE_BYTES ACRE_VMM ACRE_CHUNK_CACHE_BYTES ACRE_CHUNK_LIMIT_BYTES \
    ACRE_ADDRESS_BYTES ACRE_TRACE ACRE_TRACE_BYTES ACRE_TRACE_RING ACRE_STATS ACRE_SOFT_LIBRARIES \
    ACRE_RUN NO_COLOR
export LC_ALL=C
# Looking for leaks takes the sanitizer seconds for each process on aarch64: run_leaks asks for it.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"

# Whether this is a sanitizer's build, in which long runs that differ from others in their words alone
# are left to plain builds.
is_sanitized() { grep -q '^ACRE_SANITIZE:[A-Z]*=.' "$ACRE_BUILD/CMakeCache.txt"; }

# run [NAME=VALUE...] PROGRAM ARGUMENT...: leaves $rc, and the files $out and $err.
run() {
    out=$work/out
    err=$work/err
    last="$*"
    env "$@" >"$out" 2>"$err" </dev/null
    rc=$?
}

# The same, and leaks are failures where the build can see them. Once for each command and way of
# printing is enough, the one that makes most.
run_leaks() { run "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=1" "$@"; }

fail() {
    failures=$((failures + 1))
    {
        echo "FAILED: $1"
        echo "  after: $last (exit $rc)"
        sed 's/^/  out: /' "$out" | head -20
        sed 's/^/  err: /' "$err" | head -20
    } >&2
}

# check WHAT COMMAND...: the command must succeed.
check() {
    local what=$1
    shift
    checks=$((checks + 1))
    "$@" >"$work/check" 2>&1 || {
        fail "$what"
        sed 's/^/  check: /' "$work/check" | head -20 >&2
    }
}

expect_rc() { check "exit code $1, not $rc" test "$rc" -eq "$1"; }
expect_out() { check "stdout has /$1/" grep -Eq -- "$1" "$out"; }
expect_err() { check "stderr has /$1/" grep -Eq -- "$1" "$err"; }
expect_no_out() { check "stdout is empty" test ! -s "$out"; }
expect_no_err() { check "stderr is empty" test ! -s "$err"; }
# One document, and all that the expression gives, at least one value, is true.
expect_json() {
    check "JSON: $1" jq -s -e "length == 1 and ([.[0] | ($1)] | length > 0 and all)" "$out"
}
expect_no_crash() { check "no death by a signal ($rc)" test "$rc" -lt 128; }
# No escape code in either stream.
expect_plain() {
    checks=$((checks + 1))
    if grep -q "$(printf '\033')" "$out" "$err"; then
        fail "no escape codes"
    fi
}

# expect_unreadable COMMAND FILE...: each is none that the command reads, and it says so.
expect_unreadable() {
    local command=$1 file
    shift
    for file in "$@"; do
        run "$acre" "$command" "$file"
        expect_rc 2
        expect_no_out
        expect_err '^acre: '
    done
}

# make_broken FILE [AT BYTES]...: a copy called "broken", with bytes, as printf has them, in places.
make_broken() {
    cp "$1" broken
    shift
    while [ $# -gt 0 ]; do
        printf '%b' "$2" | dd of=broken bs=1 seek="$1" conv=notrunc status=none
        shift 2
    done
}

# expect_borne COMMAND FILE BYTES AT...: nonsense in each of the places is told or harmless.
expect_borne() {
    local command=$1 file=$2 bytes=$3 at
    shift 3
    for at in "$@"; do
        make_broken "$file" "$at" "$bytes"
        run "$acre" "$command" broken
        expect_no_crash
        check "exit code 0 or 2" test "$rc" -eq 0 -o "$rc" -eq 2
    done
}

# The GPU is looked for where none is, so that a machine with one gives the same answers.
no_gpu=ACRE_CUDA_LIBRARY=/nonexistent/libcuda.so.1
# A device that is soon filled, for a demo whose figures nobody looks at.
small=ACRE_SOFT_BYTES=16MiB
# A sanitizer sees the same on a smaller device, in a third of the time.
smaller=()
if is_sanitized; then
    smaller=(ACRE_SOFT_BYTES=64MiB)
fi

finish() {
    if [ "$failures" -gt 0 ]; then
        echo "$failures of $checks checks failed" >&2
        exit 1
    fi
    echo "$checks checks"
    exit 0
}
