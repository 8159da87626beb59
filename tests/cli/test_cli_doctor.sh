#!/usr/bin/env bash
# acre doctor: every area is checked, findings carry advice, and the exit code reflects them.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

run "$acre" doctor
expect_no_crash
expect_plain
check "exit 0 or 1" test "$rc" -le 1
for area in driver device host configuration; do
    expect_out "^$area\$"
done
expect_out '[0-9]+ checks: [0-9]+ problems?, [0-9]+ warnings?'

run_leaks "$acre" doctor --json
check "exit 0 or 1" test "$rc" -le 1
expect_json '.schema == "acre-doctor/1"'
expect_json '.devices_opened >= 1'
expect_json '.problems == ([.checks[] | select(.result == "problem")] | length)'
expect_json '.warnings == ([.checks[] | select(.result == "warn")] | length)'
expect_json 'all(.checks[]; .result | IN("ok", "warn", "problem"))'
expect_json 'all(.checks[]; (.text | length > 0) and (.name | length > 0))'
expect_json 'all(.checks[]; .result != "problem" or (.advice | type == "string"))'
expect_json '[.checks[].name] | (index("GPU") and index("soft:0 open") and index("soft:0 order"))'
for name in memory addresses 'locked memory' 'open files' mappings overcommit 'huge pages' /dev/shm; do
    expect_json "any(.checks[]; .area == \"host\" and .name == \"$name\")"
done
expect_json '.checks[] | select(.name == "soft:0 order") | .result == "ok"'

# A variable that is set is shown; an unknown one is a warning with the nearest name.
run ACRE_SOFT_BYTES=256MiB "$acre" doctor --json
expect_json 'any(.checks[]; .name == "ACRE_SOFT_BYTES" and .result == "ok")'
expect_json '.checks[] | select(.name == "soft:0 memory") | .text | test("256 MiB")'
run ACRE_SOFT_BYTE=1 "$acre" doctor --json
expect_json 'any(.checks[]; .area == "configuration" and .result == "warn"
    and (.text | test("ACRE_SOFT_BYTE\\b.*ACRE_SOFT_BYTES")))'

# A limit below the usual default is a warning, not a problem.
# shellcheck disable=SC2016 # $0 is for the inner shell
run "$no_gpu" bash -c 'ulimit -n 256; exec "$0" doctor --json' "$acre"
expect_json '.checks[] | select(.name == "open files") | .result == "warn" and .advice != null'

# No device opens: exit 2.
run "$no_gpu" ACRE_SOFT_BYTES=abc "$acre" doctor
expect_rc 2
expect_out 'problem.*ACRE_SOFT_BYTES'
expect_err 'no device could be opened'

# Without a GPU the automatic choice is the soft device, which has no kernels of .cu files.
run "$no_gpu" "$acre" doctor --json
expect_json '.checks[] | select(.name == "automatic choice")
    | .result == "ok" and (.text | test("^soft:0, acre soft device; it cannot run kernels compiled by nvcc: "
        + "a program that needs a GPU opens its device with ACRE_OPEN_NO_SOFT, or runs with ACRE_DEVICE=cuda$"))'

# The selected device is not available, others are: a finding.
run "$no_gpu" ACRE_DEVICE=cuda "$acre" doctor --json
expect_rc 1
expect_json '.checks[] | select(.name == "automatic choice") | .result == "problem"'

finish
