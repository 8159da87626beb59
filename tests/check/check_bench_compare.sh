#!/usr/bin/env bash
# scripts/bench-compare reports a case that is slower in every run, ignores noise, and can continue
# a comparison. The two builds are scripts that print fixed figures.
set -euo pipefail

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# build NAME PAIR...: a program whose runs take PAIR ns, one after another.
build() {
    local name=$1
    shift
    printf '%s\n' "$@" >"$tmp/$name.figures"
    cat >"$tmp/$name" <<END
#!/usr/bin/env bash
value=\$(head -n 1 "$tmp/$name.figures")
sed -i 1d "$tmp/$name.figures"
[ -n "\$value" ] || { echo "$name was run too often" >&2; exit 2; }
printf '{"results": [
    {"suite": "pool", "case": "pair", "who": "acre", "unit": "ns/pair", "value": %s},
    {"suite": "pool", "case": "held", "who": "acre", "unit": "MiB", "value": %s},
    {"suite": "pool", "case": "pair", "who": "malloc", "unit": "ns/pair", "value": 9}]}' \
    "\$value" "\$value" >"\${!#}"
END
    chmod +x "$tmp/$name"
}
# expect RC PATTERN ARGUMENT...
expect() {
    local wanted=$1 pattern=$2 rc=0
    shift 2
    "$source/scripts/bench-compare" "$@" >"$tmp/said" 2>&1 || rc=$?
    if [ $rc -ne "$wanted" ] || ! grep -q "$pattern" "$tmp/said"; then
        echo "bench-compare $*: exit code $rc, not $wanted, or no /$pattern/ in"
        cat "$tmp/said"
        exit 1
    fi
}

build old 10 11 10
build new 12 12 13
expect 1 'pool pair, acre: 1.200 of the time (best runs 1.200, 3 rounds)' --rounds 3 "$tmp/old" "$tmp/new" 'pool --case pair'
build old 10 19 10
build new 12 12 13
expect 0 'Nothing is slower' --rounds 3 "$tmp/old" "$tmp/new" pool
# One round, then two more.
build old 10 11 10
build new 10 11 10
expect 0 '^pool  *1  *1  *1.000' --rounds 1 --keep "$tmp/kept" "$tmp/old" "$tmp/new" pool
expect 0 '^pool  *3  *1  *1.000' --rounds 3 --keep "$tmp/kept" "$tmp/old" "$tmp/new" pool
expect 1 'was run too often' --rounds 4 --keep "$tmp/kept" "$tmp/old" "$tmp/new" pool
