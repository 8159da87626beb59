#!/usr/bin/env bash
# docs/measurements.md has the tables of bench/results, and scripts/measurements detects a mismatch.
set -euo pipefail
root=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
python=${PYTHON:-python3}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
rc=0

"$python" "$root/scripts/measurements" --check || rc=1

# A small page with one result, and the finding for each change of it.
mkdir -p "$tmp/scripts" "$tmp/docs" "$tmp/bench/results"
cp "$root/scripts/measurements" "$tmp/scripts"
page=$tmp/docs/measurements.md
result=$tmp/bench/results/a.json
run() { "$python" "$tmp/scripts/measurements" "$@" >"$tmp/out" 2>&1; }

fresh() {
    rm -f "$tmp"/bench/results/*
    printf '%s\n' '# Page' '<!-- results a.json suite=pool case="pair .*" -->' '<!-- end -->' >"$page"
    cat >"$result" <<'JSON'
{"schema": "acre-bench/1", "date": "2026-01-02", "host": "two cores", "commit": "abc", "command": "acre bench",
 "device": {"driver": "cuda", "name": "GPU", "driver_version": "13.0"},
 "results": [
  {"suite": "pool", "case": "pair 64", "who": "driver", "unit": "ns/pair", "value": 1000},
  {"suite": "pool", "case": "pair 64", "who": "acre", "unit": "ns/pair", "value": 20},
  {"suite": "pool", "case": "threads 2", "who": "acre", "unit": "M pairs/s", "value": 7},
  {"suite": "copy", "case": "pair 64", "who": "acre", "unit": "GB/s", "value": 3}]}
JSON
    run
}

# expect NAME PATTERN: the check must fail with this message.
expect() {
    if run --check || ! grep -q -- "$2" "$tmp/out"; then
        echo "check_measurements: $1: not seen"
        cat "$tmp/out"
        rc=1
    fi
}

# shellcheck disable=SC2016 # the backticks are the page's
table_is_right() {
    grep -qxF '| case | acre | driver | unit | speed of acre |' "$page" &&
        grep -qxF '| pair 64 | 20 | 1,000 | ns/pair | 50x |' "$page" &&
        ! grep -q 'threads 2\|GB/s' "$page" &&
        grep -q '^GPU, CUDA 13.0; two cores; 2026-01-02; commit abc; `acre bench`\.$' "$page" && run --check
}
fresh
if ! table_is_right; then
    echo "check_measurements: the table is wrong"
    cat "$page"
    rc=1
fi

sed -i 's/| 20 |/| 19 |/' "$page"
expect "a changed figure" "not current"
fresh && echo '| a | table |' >>"$page"
expect "a table of no result" "comes from no result"
fresh && sed -i '/end -->/d' "$page"
expect "a table without an end" "no <!-- end -->"
fresh && sed -i 's/"commit": "abc", //' "$result"
expect "a result without a commit" "has no field commit"
fresh && cp "$result" "$tmp/bench/results/b.json"
expect "a result that is not shown" "b.json: the page shows nothing of it"
fresh && sed -i 's/case="pair/case="pear/' "$page"
expect "a case that there is not" "no case of suite pool"

# The median of three runs.
for value in 10 90 20; do
    sed "s/\"value\": 20/\"value\": $value/" "$result" >"$tmp/$value.json"
done
run --merge "$tmp/10.json" "$tmp/90.json" "$tmp/20.json" commit=def
for line in '"who": "acre", "unit": "ns/pair", "value": 20.0}' '"commit": "def"' '"runs": "3"'; do
    if ! grep -qF -- "$line" "$tmp/out"; then
        echo "check_measurements: merge: no $line"
        cat "$tmp/out"
        rc=1
    fi
done
exit $rc
