#!/usr/bin/env bash
# python/acre/_declarations.py is what scripts/python-declarations makes of the headers, and its structs have the
# layout that the compiler gives them.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

# Debian's packages are for Debian's Python, which another one may precede in PATH.
for python in python3 /usr/bin/python3 none; do
    ! "$python" -c 'import pycparser' 2>/dev/null || break
done
if [ "$python" = none ]; then
    echo "skipped: pycparser is not installed (scripts/deps test)"
    exit 77
fi
"$python" "$root/scripts/python-declarations" --check || exit 1
"$python" "$root/scripts/python-declarations" --layout |
    "${CC:-cc}" -std=c11 -I "$root/include" -x c -fsyntax-only - || exit 1
