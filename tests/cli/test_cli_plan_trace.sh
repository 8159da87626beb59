#!/usr/bin/env bash
# acre plan of traces: their lifetimes, and the memory that a pool needs for the same requests.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

rmm=Thread,Time,Action,Pointer,Size,Stream
trace=$ACRE_SOURCE/tests/data/silmont_forward_bf16_128.rmm.csv.gz

# The tool creates a soft device as large as the trace needs.
plan() { run "$no_gpu" ACRE_SOFT_BYTES= "$acre" plan "$@"; }

# ---- lifetimes in event order ----

cat >small.csv <<END
$rmm
1,00:00:00.0,allocate,0x1000,1000,0
1,00:00:00.0,allocate,0x2000,3000000,0
1,00:00:00.0,allocate failure,(nil),99,0
1,00:00:00.0,free,0x1000,1000,0
2,00:00:00.0,allocate,0x1000,2000,5
1,00:00:00.0,free,0x2000,3000000,0
1,00:00:00.0,allocate,0x2000,500000,0
END
# Without a GPU, one message says so for all traces.
plan small.csv small.csv --device cuda
expect_rc 2
check "the reason is said once" test "$(grep -c 'cannot open the device for the pool: cannot load the CUDA driver' "$err")" -eq 1
check "and the advice" test "$(wc -l <"$err")" -eq 2

plan small.csv --out offsets.csv --svg small.svg --json
expect_rc 0
expect_no_err
expect_json '.results[0] | .format == "rmm" and .buffers == 4 and .align_bytes == 256'
# 3000000 and the larger of the two that share memory, rounded up to the alignment of the next.
expect_json '.results[0] | .lower_bound_bytes >= 3002000 and .bytes >= 3002000 and .bytes <= 3002112'
expect_json '.results[0].trace | keys == ["operations", "peak_live_bytes", "pool_bytes", "saved"]'
expect_json '.results[0].trace | .operations == 6 and .peak_live_bytes == 3002000'
expect_json '.results[0] | .trace.pool_bytes >= 4194304 and .trace.pool_bytes % 2097152 == 0
    and ((1 - .bytes / .trace.pool_bytes - .trace.saved) | fabs) < 1e-9'
check "numbers are names" test "$(cut -d, -f1 offsets.csv | paste -sd' ')" = 'id 0 1 2 3'
check "moments are events" grep -q '1: 3000000 bytes .* live 1 to 4' small.svg
check "what is not freed is live to the end" grep -q '3: 500000 bytes .* live 5 to 6' small.svg
check "the axis says so" grep -q 'events of the trace' small.svg
plan small.csv --check offsets.csv
expect_rc 0
expect_out ' valid$'
expect_out '^TRACE +OPS +LIVE +PLAN +PLAN/LIVE +POOL +POOL/LIVE +SAVED$'
plan small.csv --align 1 --json
expect_rc 0
expect_json '.results[0] | .bytes == 3002000 and .align_bytes == 1 and .optimal'
plan small.csv --capacity 2MiB
expect_rc 1
expect_err '^acre: small.csv: no plan fits into 2097152 bytes'

# ---- a recorded trace ----

run_leaks "$no_gpu" ACRE_SOFT_BYTES= "$acre" plan "$trace" --json
expect_rc 0
expect_no_err
expect_json '.results[0] | .buffers == 1074 and .lower_bound_bytes == 779837440 and .ratio < 1.002'
expect_json '.results[0].trace | .operations == 2011 and .peak_live_bytes == 779837440 and .saved > 0'
plan "$trace"
expect_rc 0
expect_plain
expect_out '_128.rmm.csv.gz +2011 +743\.7 MiB +743\.[0-9] MiB +1\.00[0-9]+ +[0-9.]+ MiB +1\.0[0-9]+ +[0-9.]+ %$'

# A trace written by the library, in which a block changes its size.
run "$no_gpu" ACRE_TRACE="$work/own.trace" "$ACRE_BUILD/examples/realloc_strategies"
expect_rc 0
plan own.trace --json --out own.csv
expect_rc 0
expect_json '.results[0] | .format == "acre" and .buffers > 4 and .bytes >= .trace.peak_live_bytes'
plan own.trace --check own.csv
expect_rc 0

# ---- no pool to compare with ----

# A size that the user sets stays, and the tool reports a pool that runs out of memory.
run "$no_gpu" ACRE_SOFT_BYTES=64MiB "$acre" plan "$trace" small.csv --json
expect_rc 2
expect_err 'cannot allocate'
expect_json '.results[0] | .ratio < 1.002 and (.trace | has("pool_bytes") | not)'
expect_json '.results[1].trace.pool_bytes > 0'
run "$no_gpu" ACRE_SOFT_BYTES=64MiB "$acre" plan "$trace"
expect_rc 2
expect_out '_128.rmm.csv.gz +2011 .* 1\.00[0-9]+ +- +- +-$'
run "$no_gpu" "$acre" plan --device moon small.csv
expect_rc 2
expect_err 'cannot open the device for the pool'
expect_out '^small.csv +4 '

# ---- damaged traces, as `acre replay` refuses them ----

printf '%s\n' "$rmm" 1,00:00:00.0,free,0x2000,256,0 >bad.csv
plan bad.csv
expect_rc 2
expect_no_out
expect_err '^acre: bad.csv:2:19: 0x2000 is freed but is not a live block'
head -c 100 own.trace >bad.trace
plan bad.trace
expect_rc 2
expect_no_out
expect_err '^acre: bad.trace: '
echo "$rmm" >bad.csv
plan bad.csv
expect_rc 2
expect_err '^acre: bad.csv: there are no allocations to replay'

finish
