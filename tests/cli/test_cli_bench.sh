#!/usr/bin/env bash
# acre bench: the suites, the table with its ratios, the JSON that every suite shares.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

run "$acre" bench --help
expect_rc 0
expect_out '^Suites:'
expect_out 'ground'

run_leaks "$no_gpu" "$acre" bench ground --device soft --json
expect_rc 0
expect_json 'keys == ["device", "results", "schema", "version"]'
expect_json '.schema == "acre-bench/1" and .device.driver == "soft"'
expect_json '.results | length > 0'
expect_json 'all(.results[]; keys == ["case", "suite", "unit", "value", "who"] and .value > 0)'
expect_json '(.results | map(select(.who == "acre") | .case) | unique)
    == (.results | map(.case) | unique)'

run "$no_gpu" "$acre" bench ground
expect_rc 0
expect_plain
expect_out '^SUITE +CASE +WHO'
expect_out 'driver .*x$'

run "$acre" bench nothing
expect_rc 64
expect_err "there is no suite 'nothing'"

run "$acre" bench --device moon
expect_rc 2
expect_err 'cannot open'

run "$no_gpu" ACRE_FAULT='cuEventRecord:3:from:999' "$acre" bench ground
expect_rc 2
expect_err 'suite ground could not be measured'

finish
