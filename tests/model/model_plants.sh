#!/usr/bin/env bash
# Checks that a model test can fail: test_<what>_model must find each bug that a patch of
# tests/plants/<what>_*.patch plants in a copy of the sources. test_<what>_plants.sh sets `what` and sources
# this file.
#
# The line `Seed:` of a patch is the seed with which the model finds the bug. The seed determines each step of
# the threads and of the device (src/soft/sched.h), so that the model finds it again on any machine, after as
# many operations. A change of the library or of the model changes the steps. If the model does not find a bug
# any more, look for another seed, which is written to the patch:
#
#   bash tests/model/test_<what>_plants.sh --search [PLANT...]
#
# A bug that no seed finds needs a better model.
set -euo pipefail
: "${what:?}"

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${ACRE_BUILD:-$source/build}
cache=$build/CMakeCache.txt
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
ops=${ops:-1}        # the model ends after the seed's world, or after this many operations of it
most=${most:-2000}   # seeds that --search tries
patience=120         # seconds: a planted bug may make the model loop. A run takes less than one.

if grep -q '^ACRE_SANITIZE:[A-Z]*=.\|^ACRE_\(DEBUG\|COVERAGE\):BOOL=\(ON\|1\|TRUE\)' "$cache"; then
    echo "skipped: the test compiles the model with its own flags; one build without sanitizers suffices"
    exit 77
fi
if ! command -v patch >/dev/null; then
    echo "skipped: patch is not installed"
    exit 77
fi
value() { sed -n "s/^$1:[A-Z]*=//p" "$cache"; }
compiler=$(value CMAKE_C_COMPILER)
# CMake's paths of cmocka, which the compiler may not search by default.
cmocka_include=$(value ACRE_CMOCKA_INCLUDE)
cmocka_library=$(value ACRE_CMOCKA_LIBRARY)

# object SOURCE OBJECT: compiles a file with the headers of the copy.
object() {
    "$compiler" -std=gnu11 -O0 -pthread -D_GNU_SOURCE -DACRE_TEST_POINTS=1 -DACRE_FEW_ROUNDS=1 \
        -ftls-model=initial-exec -I"$tmp/src" -I"$tmp/include" -I"$source/tests" \
        -idirafter "$cmocka_include" -c "$1" -o "$2"
}
# link PROGRAM OBJECT...: the linker takes the objects before the library, and so in place of the library's.
link() {
    local program=$1
    shift
    "$compiler" -pthread -o "$program" "$@" "$tmp/schedule.o" "$build/libacre_test.a" "$cmocka_library"
}
# run PROGRAM SEED: succeeds if the model finds nothing.
run() {
    ACRE_TEST_SEED=$2 ACRE_TEST_OPS=$ops timeout "$patience" "$1" >"$tmp/output" 2>&1
}
# Prints the model's report for the seed; fails if there is none in the output.
report() {
    grep -m 1 "ACRE_TEST_SEED=$1[:)]" "$tmp/output"
}

cp -r "$source/src" "$source/include" "$tmp"
model=$source/tests/model/test_${what}_model.c
object "$source/tests/model/schedule.c" "$tmp/schedule.o"
object "$model" "$tmp/model.o"
link "$tmp/plain" "$tmp/model.o"

# plant PATCH: makes the program $tmp/planted.
plant() {
    local file
    file=$(sed -n 's|^+++ b/||p' "$1")
    if ! patch -s -d "$tmp" -p1 <"$1"; then
        echo "plants: $(basename "$1") no longer applies to the sources"
        exit 1
    fi
    case $file in
    *.c)
        object "$tmp/$file" "$tmp/planted.o"
        link "$tmp/planted" "$tmp/model.o" "$tmp/planted.o"
        ;;
    *) # a header, whose code is the model's
        object "$model" "$tmp/planted.o"
        link "$tmp/planted" "$tmp/planted.o"
        ;;
    esac
    cp "$source/$file" "$tmp/$file"
}

# search PATCH NAME: writes to the patch the first seed with which the model reports its bug.
search() {
    local seed
    for ((seed = 1; seed <= most; seed++)); do
        if ! run "$tmp/planted" "$seed" && report "$seed" | sed "s/^/$2: /"; then
            sed -i -e '/^Seed: /d' -e "0,/^--- /s//Seed: $seed\n&/" "$1"
            return
        fi
    done
    echo "plants: no seed up to $most finds $2"
    return 1
}

# check PATCH NAME: the stored seed finds the bug, and nothing without the bug.
check() {
    local seed found status=0
    seed=$(sed -n 's/^Seed: //p' "$1")
    run "$tmp/planted" "$seed" || status=$?
    if [ "$status" -eq 0 ]; then
        echo "plants: the model does not find $2 with seed '$seed' any more;" \
            "find another one: bash tests/model/test_${what}_plants.sh --search $2"
        return 1
    elif [ "$status" -eq 124 ]; then
        echo "plants: $2 with seed $seed does not end within $patience s"
        return 1
    elif ! report "$seed" | sed "s/^/$2: /"; then
        echo "plants: $2 ends the program without the model's report:"
        cat "$tmp/output"
        return 1
    fi
    found=$(sed -n 's/.*after \([0-9]*\) operations.*/\1/p' "$tmp/output")
    if ! ops=${found:-$ops} run "$tmp/plain" "$seed"; then
        echo "plants: the model fails with seed $seed without a planted bug, too:"
        cat "$tmp/output"
        return 1
    fi
}

is_search=
if [ "${1:-}" = --search ]; then
    is_search=1
    shift
fi
rc=0
for patch in "$source"/tests/plants/"$what"_*.patch; do
    name=$(basename "$patch" .patch)
    if [ $# -eq 0 ] || [[ " $* " == *" $name "* ]]; then
        plant "$patch"
        if [ -n "$is_search" ]; then
            search "$patch" "$name" || rc=1
        else
            check "$patch" "$name" || rc=1
        fi
    fi
done
exit $rc
