#!/usr/bin/env bash
# The modules of the page that acre report writes, in Node.
set -euo pipefail

if ! command -v node >/dev/null; then
    echo "skipped: there is no node"
    exit 77
fi
folder=$(cd "$(dirname "$0")" && pwd)
if ! out=$(node --test "$folder/modules.test.mjs" 2>&1); then
    echo "$out"
    exit 1
fi
echo "$out" | grep -E '^(# |ℹ )(tests|pass|fail) '
# Node exits with 0 if it finds no test at all.
echo "$out" | grep -E '^(# |ℹ )pass [1-9]' >/dev/null
