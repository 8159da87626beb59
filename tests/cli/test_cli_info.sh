#!/usr/bin/env bash
# acre info: the table, the JSON, devices by name, and machines without a GPU.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

# Without a GPU: the soft device is listed, and stderr says why there is no GPU.
run "$no_gpu" "$acre" info
expect_rc 0
expect_plain
expect_out '^soft:0 '
expect_out 'GiB|MiB'
expect_err '^acre: no GPU: cannot load the CUDA driver '
check "a missing GPU is one line" test "$(wc -l <"$err")" -eq 1
check "one line on stderr" test "$(wc -l <"$err")" -eq 1

run "$no_gpu" "$acre" info --json
expect_rc 0
expect_json 'keys == ["devices", "schema", "version"]'
expect_json '.schema == "acre-info/1"'
expect_json '.version | test("^[0-9]+[.][0-9]+[.][0-9]+$")'
expect_json '.devices | length == 1'
expect_json '.devices[0].driver == "soft"'
expect_json '.devices[0].ordinal == 0'
expect_json '.devices[0].name | length > 0'
expect_json '.devices[0].bytes > 0 and .devices[0].free_bytes <= .devices[0].bytes'
expect_json '.devices[0].granularity_bytes == 2097152'
expect_json '.devices[0].capabilities
    | .vmm and .fd_sharing and (.fabric | not) and (.rdma | not) and (map_values(type)
    | to_entries | all(.value == "boolean"))'

# The automatic list has the GPU first, if there is one.
run "$acre" info --json
expect_rc 0
expect_json '.devices[-1].driver == "soft"'
expect_json '[.devices[].driver] | (. == (. | sort))'

run "$no_gpu" ACRE_SOFT_DEVICES=3 ACRE_SOFT_BYTES=64MiB "$acre" info --json
expect_rc 0
expect_json '[.devices[].ordinal] == [0, 1, 2]'
expect_json 'all(.devices[]; .bytes == 67108864)'

run ACRE_SOFT_DEVICES=2 ACRE_SOFT_BYTES=64MiB "$acre" info --device soft:1 --json
expect_rc 0
expect_no_err
expect_json '.devices | length == 1 and .[0].ordinal == 1'

run "$no_gpu" "$acre" info --device auto --json
expect_rc 0
expect_json '.devices[0].driver == "soft"'

# Link speeds, on request.
run "$no_gpu" "$acre" info --json
expect_json 'all(.devices[]; has("measured") | not)'
run_leaks "$no_gpu" ACRE_SOFT_DEVICES=2 ACRE_SOFT_BYTES=64MiB "$acre" info --measure --json
expect_rc 0
expect_json 'all(.devices[].measured;
    keys == ["bytes", "d2d", "pinned_d2h", "pinned_h2d", "unit"] and .unit == "GB/s"
    and .bytes == 16777216 and .d2d > 0 and .pinned_d2h > 0 and .pinned_h2d > 0)'
run "$no_gpu" "$acre" info --measure
expect_rc 0
expect_plain
expect_out '^DEVICE .* H2D GB/s +D2H GB/s +D2D GB/s$'
expect_out '^soft:0 .* [0-9.]+ +[0-9.]+ +[0-9.]+$'
# A device that opens but cannot be measured is listed anyway.
run "$no_gpu" ACRE_FAULT='cuMemcpyAsync:2:from:999' "$acre" info --measure
expect_rc 2
expect_err '^acre: cannot copy on soft:0: '
expect_out '^soft:0 .* - +- +-$'

# Invalid device names.
for name in soft:7 soft:x banana '' cuda:99999999999999999999 'soft:-1'; do
    run "$no_gpu" "$acre" info --device "$name"
    expect_rc 2
    expect_no_out
    expect_err '^acre: cannot open '
    expect_err '^acre: what to do: '
done

finish
