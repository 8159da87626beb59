#!/usr/bin/env bash
# python/acre/_declarations.py is what scripts/python-declarations makes of the headers, and its structs have the
# layout that the compiler gives them.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

"$root/scripts/python-declarations" --check || exit
"$root/scripts/python-declarations" --layout |
    "${CC:-cc}" -std=c11 -I "$root/include" -x c -fsyntax-only - || exit 1
