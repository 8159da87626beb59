#!/usr/bin/env bash
# acre plan on the larger instances, where they are present: the hard ones within the bytes that
# their names state, each plan checked, and the traces. ACRE_DATA is the folder with plans/ and
# traces/.
# shellcheck source-path=SCRIPTDIR
data=${ACRE_DATA:-$ACRE_SOURCE/../shared/data}
. "$(dirname "$0")/lib.sh"
if [ ! -d "$data/plans" ] || [ ! -d "$data/traces" ]; then
    skip "ACRE_DATA has no plans and traces"
fi
data=$(cd "$data" && pwd)
cd "$work" || exit 2

# Searches and replays take ten times as long with a sanitizer: one of each kind is enough.
hard='A B C E F G H I'
traces="$data/traces/*.rmm.csv.gz"
if is_sanitized; then
    hard=A
    traces="$data/traces/silmont*.rmm.csv.gz"
fi

for name in $hard; do
    file=$data/plans/$name.1048576.csv
    run "$no_gpu" "$acre" plan --capacity 1048576 "$file" --out "$name.csv"
    expect_rc 0
    run "$no_gpu" "$acre" plan --capacity 1048576 "$file" --check "$name.csv"
    expect_rc 0
    expect_out ' valid$'
done

# plan_of FILE RATIO: a valid plan of at most RATIO times its lower bound.
plan_of() {
    run "$no_gpu" "$acre" plan "$1" --out plan.csv --svg plan.svg --json
    expect_rc 0
    expect_json ".results[0].ratio <= $2"
    check "well-formed" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' plan.svg
    run "$no_gpu" "$acre" plan "$1" --check plan.csv
    expect_rc 0
}
plan_of "$data/plans/G_1.csv" 1
plan_of "$data/plans/resnet50.csv" 1
is_sanitized || plan_of "$data/plans/S_1.csv.gz" 1.00265

# The lifetimes of a trace equal those of the plan derived from it: the same lower bound.
for file in $traces; do
    run "$no_gpu" ACRE_SOFT_BYTES= "$acre" plan "$file" --json
    expect_rc 0
    expect_json '.results[0] | .ratio <= 1.002 and .bytes < .trace.pool_bytes'
    jq '.results[0] | [.buffers, .lower_bound_bytes]' "$out" >from_trace
    run "$no_gpu" "$acre" plan "${file%.rmm.csv.gz}.plan.csv.gz" --align 256 --budget 1 --json
    jq '.results[0] | [.buffers, .lower_bound_bytes]' "$out" >from_plan
    check "the same buffers" cmp from_trace from_plan
done

finish
