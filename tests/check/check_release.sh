#!/usr/bin/env bash
# scripts/release rejects a tree that is not ready. Runs in a temporary repository and tags nothing.
set -euo pipefail
root=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
tmp=$(mktemp -d)
out=$(mktemp)
trap 'rm -rf "$tmp" "$out"' EXIT
rc=0
# In a hook git names the developer's repository in variables, and -C does not change that.
mapfile -t local_variables < <(git rev-parse --local-env-vars)
unset "${local_variables[@]}"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
git() { command git -C "$tmp" -c user.name=test -c user.email=test@example.invalid "$@"; }

mkdir -p "$tmp/scripts" "$tmp/include"
cp "$root/scripts/release" "$tmp/scripts"
printf '#define ACRE_VERSION_MAJOR 1\n#define ACRE_VERSION_MINOR 2\n#define ACRE_VERSION_PATCH 3\n' >"$tmp/include/acre.h"
printf '# Changes\n\n## 1.2.3 (2026-01-02)\n' >"$tmp/CHANGELOG.md"
git init -q
if [ "$(git rev-parse --absolute-git-dir)" != "$(realpath "$tmp")/.git" ]; then
    echo "check_release: git does not use the repository of the test"
    exit 1
fi
git add -A
git commit -qm first

# expect CODE PATTERN ARG...: how scripts/release must end, and what it must print.
expect() {
    local want=$1 pattern=$2 got=0
    shift 2
    bash "$tmp/scripts/release" "$@" >"$out" 2>&1 || got=$?
    echo "end" >>"$out"
    if [ "$got" -ne "$want" ] || ! grep -q -- "$pattern" "$out"; then
        echo "check_release: $*: wanted $want with \"$pattern\", got $got:"
        cat "$out"
        rc=1
    fi
}

expect 0 '^end$' --check 1.2.3
expect 64 'scripts/release VERSION' --check 1.2
expect 64 'scripts/release VERSION'
expect 1 'acre.h has another version' --check 1.2.4
expect 1 'no section' --check 1.2.4
touch "$tmp/new"
expect 1 'not committed' --check 1.2.3
rm "$tmp/new"
git tag v1.2.3
expect 1 'exists already' --check 1.2.3
exit $rc
