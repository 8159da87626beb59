# shellcheck shell=bash
# shellcheck disable=SC2034 # variables are for the tests
# Helpers for the tests of the tool. A test sources this file, calls `run`, asserts, and ends with
# `finish`. ACRE_BUILD is the folder of the tool, ACRE_SOURCE that of the project.
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

# Tests set the variables that the tool reads; settings of the caller must not matter. The size of
# soft devices stays, for builds that need small ones.
unset ACRE_DEVICE ACRE_CUDA_LIBRARY ACRE_SOFT_DEVICES ACRE_SOFT_SEED ACRE_SOFT_CHECK ACRE_FAULT \
    ACRE_COPY_THREADS ACRE_COPY_STAGE_BYTES ACRE_VMM ACRE_CHUNK_CACHE_BYTES ACRE_CHUNK_LIMIT_BYTES \
    ACRE_ADDRESS_BYTES ACRE_TRACE ACRE_TRACE_BYTES ACRE_TRACE_RING ACRE_STATS ACRE_SOFT_LIBRARIES ACRE_SHIM_LIBRARIES \
    ACRE_RUN ACRE_LOG ACRE_DEBUG ACRE_STACKS NO_COLOR
export LC_ALL=C
# Programs under `acre run` publish their statistics here.
export XDG_RUNTIME_DIR=$work/.runtime
mkdir "$XDG_RUNTIME_DIR"
# On aarch64 the sanitizer's leak check takes seconds per process: only run_leaks enables it.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"

# Returns 0 in a sanitizer build. Such builds skip long runs that differ from others only in their
# output.
is_sanitized() { grep -q '^ACRE_SANITIZE:[A-Z]*=.' "$ACRE_BUILD/CMakeCache.txt"; }

# skip REASON: ends a test that cannot run here. Every test that is skipped ends with such a line.
skip() {
    echo "skipped: $1"
    exit 77
}

# Skips a test of the shim where it cannot run.
needs_shim() {
    ! is_sanitized || skip "a gate cannot load a sanitizer's library; a plain build runs it"
    [ -f "$ACRE_BUILD/shim/libacre_shim.so" ] || skip "the shim was not built"
}

# Whether programs can have a terminal. Containers may have no pseudo-terminals.
has_terminals() { script -qec true /dev/null >/dev/null 2>&1 </dev/null; }
without_terminals() { echo "without the cases on a terminal: there are no pseudo-terminals"; }

# run [NAME=VALUE...] PROGRAM ARGUMENT...: sets $rc, and the files $out and $err.
run() {
    out=$work/out
    err=$work/err
    last="$*"
    env "$@" >"$out" 2>"$err" </dev/null
    rc=$?
}

# run_leaks ...: as run, with the leak check if the build has one. One call for each command and
# output format is enough, the one that allocates most.
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
# check_json WHAT EXPRESSION FILE [OPTION...]: one JSON document, of which the expression yields at
# least one value, all of them true. jq -e alone accepts an empty file before jq 1.7.
check_json() {
    check "JSON: $1" jq -s -e "${@:4}" "length == 1 and ([.[0] | ($2)] | length > 0 and all)" "$3"
}
# expect_json EXPRESSION...: one start of jq, which takes longer than most expressions, checks all; if one fails, each
# is checked alone to name it.
expect_json() {
    local expression all=
    if [ $# -gt 1 ]; then
        for expression in "$@"; do
            all+="${all:+, }([$expression] | length > 0 and all)"
        done
        if jq -s -e "length == 1 and (.[0] | [$all] | all)" "$out" >/dev/null 2>&1; then
            checks=$((checks + $#))
            return
        fi
    fi
    for expression in "$@"; do
        check_json "$expression" "$expression" "$out"
    done
}
expect_no_crash() { check "no death by a signal ($rc)" test "$rc" -lt 128; }
# Expects no escape codes in either stream.
expect_plain() {
    checks=$((checks + 1))
    if grep -q "$(printf '\033')" "$out" "$err"; then
        fail "no escape codes"
    fi
}

# wait_for COMMAND...: waits until the command succeeds. The limit only ends a test that would hang: it is a hundred times
# what a busy machine takes.
wait_for() {
    local end=$((SECONDS + 200))
    until "$@"; do
        if [ $SECONDS -ge $end ]; then
            rc=1
            fail "waited in vain: $*"
            return 1
        fi
        sleep 0.02
    done
}

# For tests that start Python often: a script that stands for it, as that of pyenv, takes longer than the interpreter.
find_python() { PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH; }

# expect_unreadable COMMAND FILE...: the command cannot read any of the files, and says so.
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

# make_broken FILE [AT BYTES]...: copies FILE to "broken" and writes BYTES (in printf notation) at
# AT.
make_broken() {
    cp "$1" broken
    shift
    while [ $# -gt 0 ]; do
        printf '%b' "$2" | dd of=broken bs=1 seek="$1" conv=notrunc status=none
        shift 2
    done
}

# expect_borne COMMAND FILE BYTES AT...: with BYTES written at each AT in turn, the command reports
# an error, finds damage or succeeds.
expect_borne() {
    local command=$1 file=$2 bytes=$3 at
    shift 3
    for at in "$@"; do
        make_broken "$file" "$at" "$bytes"
        run "$acre" "$command" broken
        expect_no_crash
        check "exit code 0, 1 or 2" test "$rc" -le 2
    done
}

# Points to a missing driver library, so that machines with a GPU give the same results.
no_gpu=ACRE_CUDA_LIBRARY=/nonexistent/libcuda.so.1
# A device that is filled quickly, for demos whose figures do not matter.
small=ACRE_SOFT_BYTES=16MiB
# A smaller device than the default one takes a fifth of the time.
smaller=ACRE_SOFT_BYTES=64MiB

finish() {
    if [ "$failures" -gt 0 ]; then
        echo "$failures of $checks checks failed" >&2
        exit 1
    fi
    echo "$checks checks"
    exit 0
}
