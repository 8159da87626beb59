#!/usr/bin/env bash
# Exports and dependencies of libacre.so. The functions marked ACRE_API in the public headers, the
# names in the version map and the names in the symbol table are the same, all of them acre_*. The
# library needs only libc.
#   check_symbols.sh [LIBRARY [MAP [HEADER...]]]     by default those of the build
set -euo pipefail

source_dir=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
library=${1:-${ACRE_BUILD:-$source_dir/build}/libacre.so}
map=${2:-$source_dir/src/acre.map}
if [ $# -gt 2 ]; then
    headers=("${@:3}")
else
    headers=("$source_dir"/include/*.h "$source_dir"/include/acre/*.h "$source_dir"/include/acre/heap/*.h)
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
rc=0
fail() {
    echo "check_symbols: $1"
    rc=1
}

strip_comments() {
    sed -e 's://.*$::' "$@" | awk '
        { line = line $0 "\n" }
        END {
            while ((begin = index(line, "/*")) > 0) {
                rest = substr(line, begin + 2)
                end = index(rest, "*/")
                if (end == 0) break
                line = substr(line, 1, begin - 1) " " substr(rest, end + 2)
            }
            printf "%s", line
        }'
}

# Declarations: from ACRE_API to the semicolon, without preprocessor lines and their continuations.
strip_comments "${headers[@]}" |
    awk '/^[ \t]*#/ || more { more = /\\$/; next } { print }' |
    tr '\n' ' ' | grep -o 'ACRE_API[^;]*;' >"$tmp/declarations" || true
while read -r declaration; do
    name=$(grep -oE '[A-Za-z_][A-Za-z0-9_]*[[:space:]]*\(' <<<"$declaration" | head -n 1 |
        tr -d '( \t')
    if [ -n "$name" ]; then
        echo "$name"
    else
        fail "cannot read a function's name in: $declaration" >&2
        exit 1
    fi
done <"$tmp/declarations" | sort -u >"$tmp/declared"

# The map: nodes, and the names between "global:" and "local:".
strip_comments "$map" >"$tmp/map"
grep -oE '^[A-Za-z0-9_.]+[[:space:]]*\{' "$tmp/map" | tr -d '{ \t' | sort -u >"$tmp/nodes"
tr '\n' ' ' <"$tmp/map" | grep -oE 'global:[^}]*' | sed -e 's/global://' -e 's/local:.*//' |
    tr -s ' ;\t' '\n' | sed '/^$/d' | sort -u >"$tmp/mapped"
if grep -q '[*?]' "$tmp/mapped"; then
    fail "$map: the map names its functions one by one, without patterns"
fi

# The symbol table. A version node is a separate absolute symbol.
nm -D --defined-only "$library" | awk '{ print $(NF - 1), $NF }' | sed 's/@.*//' |
    sort -u >"$tmp/table"
awk '$1 == "A" { print $2 }' "$tmp/table" | comm -12 - "$tmp/nodes" >"$tmp/table_nodes"
awk '{ print $2 }' "$tmp/table" | sort -u | comm -23 - "$tmp/table_nodes" >"$tmp/exported"

for list in declared mapped exported table_nodes; do
    [ -s "$tmp/$list" ] || fail "nothing is $list: $library, $map, ${headers[*]}"
done
while read -r name; do
    case $name in
    acre__*) fail "$name is exported, but two underscores mean internal" ;;
    acre_*) ;;
    *) fail "$name is exported, but is not called acre_*" ;;
    esac
done <"$tmp/exported"

# only A B TEXT: reports names in list A that are missing in list B.
only() {
    local name
    while read -r name; do
        fail "$name $3"
    done < <(comm -23 "$tmp/$1" "$tmp/$2")
}
only exported mapped "is exported, but not in the version map"
only mapped exported "is in the version map, but not exported"
only declared exported "is declared ACRE_API, but not exported"
only exported declared "is exported, but no public header declares it ACRE_API"

while read -r needed; do
    case $needed in
    libc.so.* | libm.so.* | ld-linux*.so.*) ;;
    *) fail "the library needs $needed, but may need only libc" ;;
    esac
done < <(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')

# Before 1.0 the minor version is part of the name, afterwards only the major version.
version() { sed -n "s/^#define ACRE_VERSION_$1 *//p" "${headers[@]}"; }
major=$(version MAJOR)
wanted=libacre.so.$major
[ "$major" != 0 ] || wanted+=.$(version MINOR)
soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = "$wanted" ] || fail "the soname is \"$soname\" instead of $wanted"
readelf -d "$library" | grep NODELETE >/dev/null || fail "the library is not linked with -z nodelete"

echo "check_symbols: $(wc -l <"$tmp/exported") functions exported"
exit $rc
