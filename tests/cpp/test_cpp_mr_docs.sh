#!/usr/bin/env bash
# docs/from-rmm.md shows the programs of examples/cpp as they are: the code block behind the line that ends
# with the program's name and a colon must be the file.
set -uo pipefail
document=$ACRE_SOURCE/docs/from-rmm.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rc=0
for program in examples/cpp/from_rmm.cpp examples/cpp/from_rmm_thrust.cu; do
    awk -v name="$program:" '
        index($0, name) && index($0, name) + length(name) - 1 == length($0) { found = 1; next }
        found && /^```/ && !inside { inside = 1; next }
        inside && /^```/ { exit }
        inside { print }' "$document" >"$work/shown"
    if ! diff -u "$ACRE_SOURCE/$program" "$work/shown"; then
        echo "docs/from-rmm.md does not show $program as it is"
        rc=1
    fi
done
# Headers and functions that the table names must exist.
while read -r name; do
    if ! grep -rqw "$name" "$ACRE_SOURCE/include"; then
        echo "docs/from-rmm.md names $name, which no header has"
        rc=1
    fi
done < <(grep -o 'acre_[a-z_]*[a-z]\|ACRE_E_[A-Z]*\|ACRE_KIND_[A-Z]*' "$document" | sort -u)
exit $rc
