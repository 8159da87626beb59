#!/usr/bin/env bash
# scripts/dist gives the same bytes for the same commit: from clones in other folders, with another
# umask, language and time zone, and from an unpacked tarball. Runs in a small temporary repository.
set -euo pipefail

root=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# In a hook git names the developer's repository in variables, and -C does not change that.
mapfile -t local_variables < <(git rev-parse --local-env-vars)
unset "${local_variables[@]}"
export LC_ALL=C # bash warns of a language that is not installed
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
in_repository() { git -C "$tmp/first" -c user.name=test -c user.email=test@example.invalid "$@"; }

fail() {
    echo "check_dist: $1"
    exit 1
}
# dist TREE OUTPUT: runs the script of a tree; its messages are in $tmp/said.
dist() {
    "$tmp/$1/scripts/dist" "$tmp/out/$2" >"$tmp/printed" 2>"$tmp/said" || { cat "$tmp/said"; fail "$1 failed"; }
}
# same NAME: the tarballs have the bytes of the first.
same() {
    local kind
    for kind in gz xz; do
        cmp "$tmp/out/first/acre-1.2.3.tar.$kind" "$tmp/out/$1/acre-1.2.3.tar.$kind" ||
            fail "other bytes: $1, tar.$kind"
    done
}

mkdir -p "$tmp"/first/{scripts,include,packaging,docs} "$tmp/out"
cp "$root/scripts/dist" "$tmp/first/scripts"
cp "$root/.gitattributes" "$root/.gitignore" "$tmp/first"
# An unpacked tarball has the commit in this file already.
# shellcheck disable=SC2016
echo '$Format:%H %ct$' >"$tmp/first/packaging/commit"
printf '#define ACRE_VERSION_MAJOR 1\n#define ACRE_VERSION_MINOR 2\n#define ACRE_VERSION_PATCH 3\n' \
    >"$tmp/first/include/acre.h"
touch "$tmp"/first/docs/{B.md,a.md,ä.md}
in_repository init -q
in_repository add -A
in_repository commit -qm first

dist first first
[ ! -s "$tmp/said" ] || fail "it warns about a clean tree"
[ "$(wc -l <"$tmp/printed")" = 2 ] || fail "it does not print two paths"
sleep 1 # a time of the clock in the tarball would differ
(
    umask 077
    git clone -q "$tmp/first" "$tmp/another folder" 2>/dev/null
    export LC_ALL=C.UTF-8 TZ=Asia/Tokyo
    dist "another folder" other
)
same other

mkdir "$tmp/unpacked"
tar -xf "$tmp/out/first/acre-1.2.3.tar.gz" -C "$tmp/unpacked"
mkdir -p "$tmp"/unpacked/acre-1.2.3/{build,.deps/page}
touch "$tmp"/unpacked/acre-1.2.3/{build,.deps}/file
# Inside another repository: its commit must not be taken.
git -C "$tmp/unpacked" init -q
dist unpacked/acre-1.2.3 tarball
same tarball
tar -tvf "$tmp/out/tarball/acre-1.2.3.tar.xz" >"$tmp/list"
grep -E '^-rwxr-xr-x root/root|^-rwxr-xr-x 0/0' "$tmp/list" | grep 'scripts/dist$' >/dev/null ||
    { cat "$tmp/list"; fail "scripts/dist is not executable in the tarball"; }

echo change >>"$tmp/first/docs/a.md"
dist first changed
same changed
grep -q 'docs/a.md' "$tmp/said" || fail "no warning about a change that is not committed"

# shellcheck disable=SC2016
echo '$Format:%H %ct$' >"$tmp/unpacked/acre-1.2.3/packaging/commit"
! "$tmp/unpacked/acre-1.2.3/scripts/dist" "$tmp/out/none" >"$tmp/said" 2>&1 || fail "it succeeds without a commit"
grep -q 'neither a git checkout nor an unpacked tarball' "$tmp/said" || fail "it does not say what is missing"
echo "check_dist: the same bytes from a checkout, a clone and an unpacked tarball"
