#!/usr/bin/env bash
# acre replay: valid files, damaged files, passes, and devices with too little memory.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

rmm=Thread,Time,Action,Pointer,Size,Stream
lives=id,lower,upper,size
trace=$ACRE_SOURCE/tests/data/silmont_forward_bf16_128.rmm.csv.gz

# replay [NAME=VALUE...] WORD...: on a soft device of 4 GiB, which commits memory only when it is
# used.
replay() { run "$no_gpu" ACRE_SOFT_BYTES=4GiB "$acre" replay --device soft "$@"; }

# ---- valid files ----

cat >two_streams.csv <<END
$rmm
7,00:00:01.5,allocate,0x7f0000000000,3000000,0x0
8,00:00:01:600000,allocate,0x7f0000400000,1000000,0x5581
7,01:02:03.000000001,free,0x7f0000000000,3000000,0
8,01:02:04,allocate failure,(nil),999999999999999,0x5581
8,01:02:05.0,allocate,0x7f0000000000,2500000,0x5581
END
replay two_streams.csv --json
expect_rc 0
expect_no_err
expect_json 'keys == ["device", "lag_ns", "lag_operations", "pool", "results", "schema", "version",
    "warmup"]'
expect_json '.schema == "acre-replay/1" and .pool == "acre" and .device.driver == "soft"'
expect_json '.results | length == 1'
expect_json '.results[0] | keys == ["allocs", "chunks_moved", "driver_calls", "file", "format",
    "frees", "lower_bound_bytes", "ns_p50", "ns_p99", "operations", "pass", "peak_live_bytes",
    "peak_reserved_bytes", "reallocs", "reserved_over_requested", "skipped", "streams", "threads",
    "waits"]'
expect_json '.results[0] | .file == "two_streams.csv" and .format == "rmm" and .pass == 1'
expect_json '.results[0] | .operations == 4 and .allocs == 3 and .frees == 1 and .reallocs == 0'
expect_json '.results[0] | .streams == 2 and .threads == 2 and .skipped == 1'
expect_json '.results[0] | .peak_live_bytes == 4000000 and .lower_bound_bytes == 4194304'
expect_json '.results[0] | .peak_reserved_bytes >= .lower_bound_bytes
    and .peak_reserved_bytes % 2097152 == 0 and .ns_p50 <= .ns_p99'
expect_json '.results[0] | (.reserved_over_requested - .peak_reserved_bytes / .peak_live_bytes)
    | fabs < 1e-9'
expect_json '.results[0].driver_calls | keys == ["access", "alloc", "create", "created_bytes", "map",
    "release", "released_bytes", "total", "unmap"] and .create > 0 and .map > 0 and .access > 0
    and .total == .create + .map + .access + .unmap + .release + .alloc'

# At equal times frees come before allocations: the first 4 MB are never live with the next 4 MB.
printf '%s\r\n' "$lives" a,0,3,4000000 b,3,9,4000000 c,3,5,1 >lives.csv
replay lives.csv --json
expect_rc 0
expect_json '.results[0] | .format == "lifetimes" and .operations == 6 and .peak_live_bytes == 4000001'
expect_json '.results[0] | .streams == 1 and .skipped == 0 and .allocs == 3 and .frees == 3'

# Columns in another order, with the extra columns of a plan.
printf '%s\n' size,upper,lower,id,alignment,offset 4000000,3,0,a,256,0 4000000,9,3,b,1,0 1,5,3,c,2,4000000 \
    >order.csv
replay order.csv --json
expect_rc 0
expect_json '.results[0] | .format == "lifetimes" and .operations == 6 and .peak_live_bytes == 4000001'

# two_streams.csv compressed, in one part and in two, with any name, and through a pipe.
gzip -c two_streams.csv >packed
head -n 3 two_streams.csv | gzip -c >parts
tail -n +4 two_streams.csv | gzip -c >>parts
replay packed parts two_streams.csv --json
expect_rc 0
expect_json '[.results[] | [.operations, .peak_live_bytes]] | unique == [[4, 4000000]]'
expect_json '[.results[].file] == ["packed", "parts", "two_streams.csv"]'
head -c -1 two_streams.csv >no_end.csv
replay no_end.csv
expect_rc 0
expect_plain
expect_out '^FILE +PASS +OPS +P50 +P99 +LIVE +LOWER BOUND +RESERVED +RES/LIVE +CALLS +CREATED +RELEASED +MOVED +WAITS$'
expect_out '^no_end.csv +1 +4 .* 3\.8 MiB +4 MiB .* [0-9]+\.[0-9]{3} +[0-9]+ .*[0-9]+ +[0-9]+$'

# A recorded trace. Earlier files do not change its figures, since all their memory was freed.
run_leaks "$no_gpu" ACRE_SOFT_BYTES=4GiB "$acre" replay "$trace" --json
expect_rc 0
expect_no_err
cp "$out" alone.json
expect_json '.results[0] | .operations == 2011 and .peak_live_bytes == 779837440 and .frees == 937'
expect_json '.results[0] | .reserved_over_requested >= 1 and .reserved_over_requested < 1.5'
replay "$trace" "$trace" --passes 4 --json
expect_rc 0
expect_json '[.results[].pass] == [1, 2, 3, 4, 1, 2, 3, 4]'
# shellcheck disable=SC2016 # $alone is jq's
check_json "each file begins with nothing" '[.results[] | select(.pass == 1) | .peak_reserved_bytes] | unique
    == [$alone[0].results[0].peak_reserved_bytes]' "$out" --slurpfile alone alone.json
# From the third pass on the pool holds all memory.
expect_json '[.results[] | select(.pass >= 3) | .driver_calls.total] == [0, 0, 0, 0]'
expect_json '[.results[] | select(.pass == 1) | .driver_calls.create] | all(. > 0)'

# Without virtual memory mapping, memory comes from cuMemAlloc.
run "$no_gpu" ACRE_VMM=no ACRE_SOFT_BYTES=4GiB "$acre" replay two_streams.csv --json
expect_rc 0
expect_json '.results[0] | .driver_calls.alloc > 0 and .driver_calls.create == 0'
expect_json '.results[0] | .peak_reserved_bytes >= .peak_live_bytes'

# ---- a device that lags behind, threads, warm-up ----

# A lagging device needs no more memory and no more calls.
for lag in 0 1000 100000; do
    replay --lag "$lag" "$trace" --passes 3 --json
    expect_rc 0
    expect_json '[.results[].reserved_over_requested] | all(. < 1.05)'
    expect_json '.results[2].driver_calls.total == 0'
done
many=$ACRE_SOURCE/../shared/data/traces/torch-varied-lengths.acre.gz
if [ -r "$many" ] && [ -z "${TSAN_OPTIONS:-}" ]; then # random sequence lengths under PyTorch; too large for the repository
    run "$no_gpu" ACRE_SOFT_BYTES=200GiB "$acre" replay --device soft --lag 1000 "$many" --json
    expect_rc 0
    expect_json '.results[0] | .reserved_over_requested < 1.05 and .driver_calls.total < 4000'
fi
replay --lag 100 "$trace" --passes 2 --json
expect_rc 0
expect_json '.lag_operations == 100 and .lag_ns == 0 and [.results[].operations] == [2011, 2011]'
replay --lag 1ms two_streams.csv --json
expect_rc 0
expect_json '.lag_operations == 0 and .lag_ns == 1000000'
# The device checks the order of work on blocks, whichever thread queues it.
for words in '' --threads '--lag 100' '--lag 100 --threads' '--lag 2ms --threads'; do
    # shellcheck disable=SC2086 # the words of a command
    run "$no_gpu" ACRE_SOFT_BYTES=4GiB ACRE_SOFT_CHECK=1 "$acre" replay --device soft $words \
        two_streams.csv "$trace" --json
    expect_rc 0
    expect_no_err
    expect_json '[.results[] | .operations] == [4, 2011] and .results[0].threads == 2'
done
replay --threads --pool driver two_streams.csv --json
expect_rc 0
# All memory is created before the warm-up ends.
replay "$trace" --json
expect_json '.results[0].driver_calls | .created_bytes > 700000000 and .released_bytes < 50000000'
replay --warmup 2010 "$trace" --json
expect_json '.results[0].driver_calls | .create == 0 and .created_bytes == 0' '.warmup == 2010'

# ---- damaged files ----

# refuse WHERE WHAT: bad.csv is refused with this position and message.
refuse() {
    replay bad.csv
    expect_rc 2
    expect_no_out
    expect_err "^acre: bad.csv:$1: $2"
    check "one line says it" test "$(wc -l <"$err")" -eq 1
}

# rmm_bad WHERE WHAT LINE...: a log of these lines, one of which is invalid.
rmm_bad() {
    local where=$1 what=$2
    shift 2
    printf '%s\n' "$rmm" "$@" >bad.csv
    refuse "$where" "$what"
}

good=1,00:00:00.0,allocate,0x100,256,0
rmm_bad 3:15 "unknown Action 'alocate': expected allocate, free" "$good" 1,00:00:00.00,alocate,0x200,256,0
rmm_bad 3:19 '0x200 is freed but is not a live block' "$good" 1,00:00:00.0,free,0x200,256,0
rmm_bad 4:19 '0x100 is freed but is not a live block' "$good" \
    1,00:00:00.0,free,0x100,256,0 1,00:00:00.0,free,0x100,256,0
rmm_bad 3:23 '0x100 is already live, allocated in line 2' "$good" "$good"
rmm_bad 2:29 'Size is 0' 1,00:00:00.0,allocate,0x100,0,0
rmm_bad 2:29 'Size is negative' 1,00:00:00.0,allocate,0x100,-5,0
rmm_bad 2:29 'Size does not fit into 64 bits' 1,00:00:00.0,allocate,0x100,18446744073709551616,0
rmm_bad 2:31 "Size is not a number: it contains 'k'" 1,00:00:00.0,allocate,0x100,12k,0
rmm_bad 2:29 'Size is empty' 1,00:00:00.0,allocate,0x100,,0
rmm_bad 2:23 'Pointer of an allocation is 0' '1,00:00:00.0,allocate,(nil),256,0'
rmm_bad 2:25 "Pointer is not a number: it contains 'z'" 1,00:00:00.0,allocate,0xz00,256,0
rmm_bad 2:23 'Pointer does not fit into 64 bits' 1,00:00:00.0,allocate,0x10000000000000000,256,0
rmm_bad 2:33 "Stream is not a number: it contains 'q'" 1,00:00:00.0,allocate,0x100,256,q
rmm_bad 2:1 'Thread is negative' -1,00:00:00.0,allocate,0x100,256,0
rmm_bad 2:5 'Time is not of the form 12:34:56.789012' 1,00.00:00.0,allocate,0x100,256,0
rmm_bad 2:13 'Time is not of the form 12:34:56.789012' 1,00:00:00.0z,allocate,0x100,256,0
rmm_bad 2:32 'the line ends here, without the column Stream' 1,00:00:00.0,allocate,0x100,256
rmm_bad 3:1 'the line ends here, without the column Time' "$good" '' "$good"
rmm_bad 2:34 'there are more than 6 columns' "$good,0"
printf '%s\n' Thread,Time,Action,Pointer,Size "$good" >bad.csv
refuse 1:32 'the line ends here, without the column Stream'
printf '%s\n' Thread,Time,Action,Pointer,Bytes,Stream "$good" >bad.csv
refuse 1:28 'expected the column Size here'

# lives_bad WHERE WHAT LINE...
lives_bad() {
    local where=$1 what=$2
    shift 2
    printf '%s\n' "$lives" "$@" >bad.csv
    refuse "$where" "$what"
}
lives_bad 2:5 'upper must be greater than lower' a,7,3,100
lives_bad 2:5 'upper must be greater than lower' a,7,7,100
lives_bad 2:7 'size is 0' a,1,3,0
lives_bad 2:3 'lower is negative' a,-1,3,100
lives_bad 3:1 "duplicate id 'a', first in line 2" a,1,3,100 a,4,5,100
lives_bad 2:1 'id is empty' ,1,3,100
lives_bad 2:3 'lower does not fit into 63 bits' a,9223372036854775808,9223372036854775809,1
lives_bad 2:6 'the line ends here, without the column size' a,1,3
lives_bad 2:7 'size does not fit into 64 bits' a,1,3,99999999999999999999999999

: >bad.csv
refuse 1:1 'the file is empty'
printf 'hello\n' >bad.csv
refuse 1:1 'this is not a trace'
head -c 5000 "$acre" >bad.csv
refuse 1:1 'this is not a trace'
printf '%s\n1,00:00\0:00,free' "$rmm" >bad.csv
refuse 2:8 'the line contains a NUL byte'
{ echo "$rmm" && head -c 10000 /dev/zero | tr '\0' 1; } >bad.csv
refuse 2:4097 'the line has more than 4096 bytes'
head -c 5000 "$trace" >bad.csv
refuse '[0-9]{3,4}:[0-9]+' 'the file is truncated'
{ head -c 4000 "$trace" && printf garbage && tail -c +4008 "$trace"; } >bad.csv
refuse '[0-9]{3,4}:[0-9]+' 'the gzip data is damaged'
{ cat "$trace" && echo more; } >bad.csv
refuse '[0-9]+:[0-9]+' 'other data follows the gzip data'
gzip -c </dev/null >bad.csv
refuse 1:1 'the file is empty'
printf '\037\213' >bad.csv
refuse 1:1 'the file is truncated'
# Messages print no control characters to the terminal.
printf '%s\n1,00:00:00.0,\033[31mred,0x1,1,0\n' "$rmm" >bad.csv
refuse 2:14 "unknown Action '[?].31mred'"

echo "$rmm" >bad.csv
replay bad.csv
expect_rc 2
expect_err '^acre: bad.csv: there are no allocations to replay'
{
    echo "$rmm"
    seq 1 1025 | sed 's/.*/1,00:00:00.0,allocate,0x&00,1,0x&/'
} >bad.csv
replay bad.csv
expect_rc 2
expect_err '^acre: bad.csv: the trace has more than 1024 streams'
replay no_such_file.csv
expect_rc 2
expect_err '^acre: cannot read no_such_file.csv: No such file'
replay .
expect_rc 2
expect_err '^acre: cannot read .: Is a directory'

# All files are read; the worst result sets the exit code.
replay no_such_file.csv two_streams.csv --json
expect_rc 2
expect_json '[.results[].file] == ["two_streams.csv"]'

# ---- more than the device's memory ----

printf '%s\n' "$lives" a,0,9,1000 b,1,9,5000000000 c,2,9,1000 >big.csv
replay big.csv two_streams.csv --json
expect_rc 1
expect_err '^acre: big.csv: pass 1, event 2 of 6: cannot allocate 4\.7 GiB: '
expect_err '^acre: big.csv: 1000 B were live then; the trace needs up to 4\.7 GiB; the device has 4 GiB'
expect_json '.results | length == 2'
expect_json '.results[0] | (.failed | test("cannot allocate")) and has("ns_p50") == false
    and has("reserved_over_requested") == false'
expect_json '.results[1].operations == 4'
replay big.csv
expect_rc 1
expect_out '^big.csv .* failed '
replay big.csv no_such_file.csv
expect_rc 2
# Sizes whose sum overflows 64 bits.
printf '%s\n' "$lives" a,0,9,18446744073709551615 b,1,9,18446744073709551615 >big.csv
replay big.csv
expect_rc 1
expect_err '^acre: big.csv: pass 1, event 1 of 4: cannot allocate 16\.0 EiB: '

# A failing device is an error, not a finding.
run "$no_gpu" ACRE_SOFT_BYTES=4GiB ACRE_FAULT='cuMemCreate:1:sticky:700' "$acre" replay two_streams.csv
expect_rc 2
expect_err '^acre: two_streams.csv: '
expect_no_crash

# ---- the driver's pool ----

replay two_streams.csv "$trace" --pool driver --json
expect_rc 0
expect_no_err
expect_json '.pool == "driver" and [.results[] | .operations] == [4, 2011]'
expect_json 'all(.results[]; .peak_reserved_bytes >= .peak_live_bytes and (has("driver_calls") | not))'

# ---- on a GPU, if there is one ----

if [ "${ACRE_REQUIRE_CUDA:-0}" = 1 ]; then
    for pool in acre driver; do
        run "$acre" replay --device cuda --pool "$pool" "$trace" two_streams.csv --passes 2 --json
        expect_rc 0
        expect_json ".pool == \"$pool\" and .device.driver == \"cuda\""
        expect_json '[.results[] | .operations] == [2011, 2011, 4, 4]'
        expect_json 'all(.results[]; .ns_p50 > 0 and .peak_reserved_bytes >= .peak_live_bytes)'
        expect_json "all(.results[]; has(\"driver_calls\") == (\"$pool\" == \"acre\"))"
        for words in '--lag 1000' '--lag 5ms --threads'; do
            # shellcheck disable=SC2086 # the words of a command
            run "$acre" replay --device cuda --pool "$pool" $words "$trace" two_streams.csv --json
            expect_rc 0
            expect_json '[.results[] | .operations] == [2011, 4]'
        done
    done
    run "$acre" replay --device cuda --lag 1001 "$trace"
    expect_rc 2
    expect_err 'at most 1000 operations'
fi

# ---- usage errors ----

for words in '' '--no-such-option x' '--passes 0 x' '--passes -1 x' '--passes x x' '--passes 1001 x' \
    '--passes 2x x' '--pool heap x' '--lag x x' '--lag 5s x' '--warmup x x'; do
    # shellcheck disable=SC2086 # the words of a command
    replay $words
    expect_rc 64
    expect_no_out
done
replay --help
expect_rc 0
expect_out '^Examples:'
expect_out '--passes=N'
run "$acre" replay --device moon two_streams.csv
expect_rc 2
expect_err 'cannot open the device'

finish
