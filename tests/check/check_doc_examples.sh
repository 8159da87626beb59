#!/usr/bin/env bash
# Programs in documents are those that the tests build. A document names the file in a comment, and
# shows its text in the block of code below:
#
#   <!-- examples/cpp/tour.cpp -->
#   ```cpp
#   ...
#
# And the documents for users of other libraries name no function or constant that does not exist.
#
#   check_doc_examples.sh [ROOT]
set -euo pipefail

root=${1:-${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}}
cd "$root"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
rc=0
shown=0
for document in docs/*.md; do
    while read -r file; do
        shown=$((shown + 1))
        # The first block of code after the comment.
        awk -v mark="<!-- $file -->" '
            $0 == mark { found = 1; next }
            found && /^```/ { if (inside) exit; inside = 1; next }
            inside' "$document" >"$tmp/shown"
        if ! diff -u "$file" "$tmp/shown"; then
            echo "$document: differs from $file"
            rc=1
        fi
    done < <(sed -n 's/^<!-- \(examples\/.*\) -->$/\1/p' "$document")
done
for document in docs/from-*.md; do
    while read -r name; do
        if ! grep -rqwF -- "$name" include; then
            echo "$document: names $name, which no header has"
            rc=1
        fi
    done < <(grep -oE '\b(acre_[a-z_]*[a-z]|ACRE_(E|KIND|VEC|POOL|STREAM|PLAN|MEM)_[A-Z_]*[A-Z])\b' "$document" | sort -u)
done
echo "check_doc_examples: $shown programs"
[ "$shown" -gt 0 ] || rc=1
exit $rc
