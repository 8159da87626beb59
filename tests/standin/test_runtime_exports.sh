#!/usr/bin/env bash
# Exports and dependencies of libcudart.so.13. It exports the names of its three lists and those
# written by hand, all with the symbol version of NVIDIA's library, and no others. It needs
# libcuda.so.1, found beside it, and libc. Where NVIDIA's library is installed, both export the same
# names.
set -euo pipefail

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${ACRE_BUILD:-$source/build}
library=$build/soft/libcudart.so.13
nvidia=${ACRE_NVIDIA_CUDART:-/usr/local/cuda/lib64/libcudart.so.13}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
rc=0
fail() {
    echo "exports: $1"
    rc=1
}

if grep -q '^ACRE_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
    echo "skipped: a sanitizer adds symbols; a plain build runs this test"
    exit 77
fi

# names LIBRARY: the symbols it defines, without the symbol of the version node.
names() {
    nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort
}

names "$library" >"$tmp/exported"
if grep -v '@@libcudart\.so\.13$' "$tmp/exported"; then
    fail "these do not have the version libcudart.so.13"
fi
sed 's/@@.*//' "$tmp/exported" | LC_ALL=C sort >"$tmp/ours"

# Every call of the list, with its suffix, and all other names.
sed -n 's/^    X(\(cuda[A-Za-z0-9_]*\), PLAIN.*/\1/p
        s/^    X(\(cuda[A-Za-z0-9_]*\), PT\(SZ\|DS\).*/\1/p' "$source/standin/runtime_list.h" >"$tmp/listed"
sed -n 's/^    X(\(cuda[A-Za-z0-9_]*\), PTSZ.*/\1_ptsz/p
        s/^    X(\(cuda[A-Za-z0-9_]*\), PTDS.*/\1_ptds/p' "$source/standin/runtime_list.h" >>"$tmp/listed"
sed -n 's/^    X(\([A-Za-z0-9_]*\)).*/\1/p' "$source/standin/runtime_others.h" >>"$tmp/listed"
[ "$(wc -l <"$tmp/listed")" -gt 380 ] || fail "the lists could not be read: has their form changed?"
LC_ALL=C sort "$tmp/listed" >"$tmp/sorted"
LC_ALL=C comm -23 "$tmp/sorted" "$tmp/ours" >"$tmp/missing"
[ ! -s "$tmp/missing" ] || fail "not exported: $(tr '\n' ' ' <"$tmp/missing")"

dynamic=$(readelf -dW "$library")
grep -q 'SONAME.*\[libcudart\.so\.13\]' <<<"$dynamic" || fail "its SONAME is not libcudart.so.13"
grep -q 'NEEDED.*\[libcuda\.so\.1\]' <<<"$dynamic" || fail "it does not need libcuda.so.1"
# shellcheck disable=SC2016 # the word is literal
grep -q '(RPATH).*\[$ORIGIN\]' <<<"$dynamic" || fail "its RPATH is not \$ORIGIN"
if grep NEEDED <<<"$dynamic" | grep -Ev '\[(libcuda\.so\.1|libc\.so\.6|ld-linux.*)\]'; then
    fail "it needs more than libcuda.so.1 and libc"
fi

if [ -e "$nvidia" ]; then
    names "$nvidia" >"$tmp/nvidias"
    diff "$tmp/nvidias" "$tmp/exported" || fail "NVIDIA's library exports other names (<) than ours (>)"
fi
exit "$rc"
