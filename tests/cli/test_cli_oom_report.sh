#!/usr/bin/env bash
# examples/oom_report.c: the out-of-memory report, as text and as JSON.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

program=$ACRE_BUILD/examples/oom_report

run ACRE_DEVICE=soft "$program"
expect_rc 0
expect_out '^acre: out of memory for a block of 25165824 bytes [(]24[.]0 MiB[)]$'
expect_out 'with the tag optimizer$'
expect_out ' model/activations, 12 blocks$'
expect_out ' model/weights, 1 block$'
expect_out '^ +67108864 +64[.]0 MiB  total$'
expect_out '^  free about [0-9.]+ MiB more of this pool, best contiguous$'
expect_out ': all of the card[.]$'

run ACRE_DEVICE=soft "$program" --json
expect_rc 0
expect_json '.schema == "acre-oom/1"'
expect_json '.status == "ACRE_E_DEVICE_MEMORY"'
expect_json '.wanted.bytes == 25165824 and .wanted.tag == "optimizer" and .wanted.kind == "device"'
expect_json '.card | .total_bytes == .free_bytes + .pool_bytes + .other_pools_bytes + .acre_bytes
    + .outside_bytes'
expect_json '.pool | .held_bytes == .live_bytes + .cached_bytes + .quarantined_bytes
    + .pending_bytes + .own_stream_bytes + .hole_bytes + .slot_bytes + .slab_end_bytes'
expect_json '.pool.live_bytes == ([.live_by_tag[].bytes] | add) + .live_by_tag_rest.bytes'
expect_json '.pool.live_bytes == ([.live_by_size[].bytes] | add) + .live_by_size_rest.bytes'
expect_json '[.live_by_tag[] | select(.tag == "model/weights")] == [{"tag": "model/weights",
    "bytes": 20971520, "blocks": 1}]'
expect_json '.steps | length > 0 and all(.do and .text and .bytes > 0)'


# With call stacks the report names the calls that hold memory; with ACRE_DEBUG the log has it, too. Without libdw.so.1
# it names them by their offset in the program.
call='[a-z_]+ at oom_report\.c:[0-9]+'
"$acre" symbolize </dev/null 2>&1 || call='.*/oom_report\+0x[0-9a-f]+'
run ACRE_DEVICE=soft ACRE_DEBUG=1 "$program"
expect_rc 0
expect_out '^Allocated, by call \(bytes as requested\)$'
expect_out "^ +25165824 +24\.0 MiB  $call, 12 blocks\$"
expect_out "^  requested by $call\$"
expect_err '^acre: warning: pool: out of memory for a block of '
expect_err "^acre: +25165824 +24\.0 MiB  $call, 12 blocks\$"
run ACRE_DEVICE=soft ACRE_STACKS=4 "$program" --json
expect_json '.live_by_call | length == 3'
expect_json '.live_by_call[0] | .bytes == 25165824 and .blocks == 12'
run ACRE_DEVICE=soft "$program"
check "no calls without stacks" bash -c "! grep -q 'by call' '$out'"
finish
