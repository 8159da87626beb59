#!/usr/bin/env bash
# A configured tree that is copied or moved builds its own sources: `make`, `make install` and the
# tests. Uses the Makefile and the scripts in a project of one file.
set -euo pipefail

root=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset MAKEFLAGS MAKELEVEL

fail() {
    echo "check_moved: $1"
    cat "$tmp/said"
    exit 1
}
# in_tree NAME COMMAND...: must succeed.
in_tree() {
    local tree=$1
    shift
    (cd "$tmp/$tree" && "$@") >"$tmp/said" 2>&1 || fail "$tree: $* failed"
}
# built TREE: prints what the product of the tree has.
built() { cat "$tmp/$1/build/product"; }

mkdir -p "$tmp/first/scripts"
cp "$root/Makefile" "$root/CMakePresets.json" "$tmp/first"
cp "$root"/scripts/{configure,deps,install,run-tests} "$tmp/first/scripts"
cat >"$tmp/first/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(moved LANGUAGES NONE)
set(ACRE_TOOL AUTO CACHE STRING "")
add_custom_command(OUTPUT product DEPENDS ${CMAKE_SOURCE_DIR}/source
    COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/source product)
add_custom_target(acre_product ALL DEPENDS product)
install(FILES ${CMAKE_BINARY_DIR}/product DESTINATION share)
enable_testing()
add_test(NAME product COMMAND grep -x second ${CMAKE_BINARY_DIR}/product)
CMAKE
echo first >"$tmp/first/source"
in_tree first make TOOL=OFF
[ "$(built first)" = first ] || fail "the first tree was not built"

cp -a "$tmp/first" "$tmp/a copy"
echo second >"$tmp/a copy/source"
in_tree "a copy" make
grep "configured in $tmp/first" "$tmp/said" >/dev/null || fail "it does not say why it builds again"
[ "$(built "a copy")" = second ] || fail "the copy built the sources of the first tree"
grep -x 'ACRE_TOOL:[A-Z]*=OFF' "$tmp/a copy/build/CMakeCache.txt" >/dev/null || fail "TOOL=OFF is forgotten"
in_tree "a copy" make
! grep 'configured in' "$tmp/said" >/dev/null || fail "it builds again each time"

mv "$tmp/a copy" "$tmp/moved"
in_tree moved make install PREFIX="$tmp/prefix"
[ "$(cat "$tmp/prefix/share/product")" = second ] || fail "make install installed another product"
in_tree moved make uninstall PREFIX="$tmp/prefix"

cp -r "$tmp/moved" "$tmp/other"
touch "$tmp/other/CMakePresets.json" # so that Make configures
in_tree other make TOOL=OFF
mv "$tmp/moved" "$tmp/tested"
in_tree tested scripts/run-tests default
echo "check_moved: copies and moved trees build their own sources"
