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

# ---- a program: why acre run would not see its calls ----

# doctor_program RESULT NAME TEXT PROGRAM: the check of this name has the result and the text.
doctor_program() {
    run LD_PRELOAD= LD_AUDIT= "$acre" doctor --json -- "$4"
    check "exit code of $4" test "$rc" -eq "$([ "$1" = problem ] && echo 1 || echo 0)"
    expect_json "any(.checks[]; .area == \"program\" and .name == \"$2\" and .result == \"$1\" and (.text | test(\"$3\")))"
    expect_json 'all(.checks[]; .result != "problem" or (.advice | type == "string"))'
}
cp "$(type -P true)" "$work/dynamic"
doctor_program ok linking '^dynamically, with /' "$work/dynamic"
doctor_program ok processor '64-bit' "$work/dynamic"
doctor_program ok privileges 'gains none' "$work/dynamic"
doctor_program ok gate 'glibc [0-9.]+: acre run --watch uses the (audit|preload) gate' sh
doctor_program problem file 'is not in a folder of PATH' no-such-program
doctor_program problem file 'No such file' "$work/none"
doctor_program problem file 'is a folder' "$work"
echo text >"$work/text"
doctor_program problem file 'is not executable' "$work/text"
chmod +x "$work/text"
doctor_program problem format 'neither an ELF program nor a script' "$work/text"
printf '#!/usr/bin/env -S LANG=C sh -e\n' >"$work/script"
chmod +x "$work/script"
doctor_program ok file 'script is a script for sh$' "$work/script"
doctor_program ok linking '^dynamically, with /' "$work/script"
printf '#!%s/dynamic\n' "$work" >"$work/own"
chmod +x "$work/own"
doctor_program ok file 'own is a script for .*/dynamic$' "$work/own"
printf '#!%s/endless\n' "$work" >"$work/endless"
chmod +x "$work/endless"
doctor_program problem file 'scripts start scripts' "$work/endless"

# patch NAME OFFSET BYTES: a copy of a program with other bytes.
patch() {
    cp "$work/dynamic" "$work/$1"
    printf '%b' "$3" | dd of="$work/$1" bs=1 seek="$2" conv=notrunc status=none
}
patch narrow 4 '\001'
doctor_program problem processor '32-bit' "$work/narrow"
patch foreign 18 '\002\000' # EM_SPARC
doctor_program problem processor '64-bit, ELF machine 2' "$work/foreign"
loader=$(readelf -l "$work/dynamic" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
at=$(grep -abo "$loader" "$work/dynamic" | head -1 | cut -d: -f1)
patch musl "$at" '/lib/ld-musl.so.1\000'
doctor_program problem linking 'musl' "$work/musl"
patch lost "$at" '/lib/none.so\000'
doctor_program problem linking '/lib/none.so is not there' "$work/lost"
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$ACRE_BUILD/CMakeCache.txt")
if echo 'int main(void) { return 0; }' | "$cc" -static -x c - -o "$work/static" 2>/dev/null; then
    doctor_program problem linking 'linked statically' "$work/static"
fi
if [ "$(id -u)" -eq 0 ]; then
    cp "$work/dynamic" "$work/setuid"
    chown 12345 "$work/setuid" && chmod u+s "$work/setuid"
    doctor_program problem privileges 'set-user-ID' "$work/setuid"
fi
head -c 40 "$work/dynamic" >"$work/short"
chmod +x "$work/short"
doctor_program problem format 'neither' "$work/short"

run LD_PRELOAD=/lib/none.so "$acre" doctor --json -- "$work/dynamic"
expect_json 'any(.checks[]; .name == "LD_PRELOAD" and .result == "warn" and .advice != null)'
run "$acre" doctor -- "$work/dynamic" --json # an option of the program
expect_rc 0
expect_out '^program$'
check "the machine is not checked" test "$(grep -c '^host$' "$out")" -eq 0

finish
