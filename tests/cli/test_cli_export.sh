#!/usr/bin/env bash
# acre export: every format is read back by a reader of that format, with the same peak; snapshots of
# PyTorch as input; names that must be harmless; damaged input.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2
corpus=$ACRE_SOURCE/tests/fuzz/corpus
snapshot=$corpus/torch.pickle
find_python

# read_back KIND FILE: as run, with the reader of a format (read_export.py).
read_back() { run python3 "$ACRE_SOURCE/tests/cli/read_export.py" "$1" "$2"; }

# export_to FORMAT FILE OUT: exports, with a message.
export_to() {
    run "$acre" export --format "$1" --force -o "$3" "$2"
    expect_rc 0
    expect_no_out
    expect_err "^acre: $3: $1 with [0-9]+ allocations and [0-9]+ frees, peak "
}

# peak_of FILE: sets $peak, by acre's own readers.
peak_of() {
    run "$acre" export --format rmm --json --force -o peak.csv "$1"
    expect_rc 0
    peak=$(jq .peak_bytes "$out")
}

# same_peaks FILE [REALLOCS]: each format has the same peak as FILE, by its own reader. A plan may have
# a larger one: while a block is reallocated, there are two.
same_peaks() {
    local file=$1 reallocs=${2:-0} wanted
    peak_of "$file"
    wanted=$peak
    check "a peak" test "$wanted" -gt 0
    export_to memory_viz "$file" x.pickle
    read_back viz x.pickle
    expect_rc 0
    expect_json ".peak_bytes == $wanted"
    export_to perfetto "$file" x.json
    read_back chrome x.json
    expect_rc 0
    expect_json "[.counters | to_entries[] | select(.key | endswith(\"/live\")).value] | max <= $wanted and add >= $wanted"
    export_to folded "$file" x.folded
    read_back folded x.folded
    expect_rc 0
    expect_json ".bytes == $wanted"
    export_to rmm "$file" x.rmm
    peak_of x.rmm
    check "rmm: peak $peak, not $wanted" test "$peak" -eq "$wanted"
    export_to plan "$file" x.plan
    run "$acre" plan --json --budget 1 x.plan
    expect_json ".results[0] | (.lower_bound_bytes - $wanted) as \$more | .format == \"lifetimes\" and
        (\$more == 0 or ($reallocs > 0 and \$more > 0 and \$more < $wanted / 10))"
    # The snapshot is input again.
    peak_of x.pickle
    check "memory_viz as input: peak $peak, not $wanted" test "$peak" -eq "$wanted"
}

# ---- traces of acre ----

run "$no_gpu" ACRE_SOFT_BYTES=256MiB ACRE_STACKS=6 ACRE_TRACE=oom.trace "$ACRE_BUILD/examples/oom_report"
expect_rc 0
same_peaks oom.trace
read_back viz x.pickle
expect_json '.actions.alloc == 25 and .actions.free_requested == 6 and .actions.oom == 1 and .stacks == 25'
expect_json '.tags == ["input", "model/activations", "model/weights"] and (.names | index("main") != null)'
read_back chrome x.json
expect_json '.slices == 25 and .instants == {"out of memory": 1}'
expect_json '.counters["1000/model/weights"] == 20971520 and .counters["1/physical"] >= .counters["1/live"]'
read_back folded x.folded
expect_json '.names | any(test("^main \\(oom_report\\.c:[0-9]+\\)$"))'

# The sum of folded stacks at the end, and of everything that was allocated.
run "$acre" trace --json oom.trace
at_end=$(jq .live_bytes "$out")
run "$acre" export --format folded --at end oom.trace
cp "$out" end.folded
read_back folded end.folded
expect_json ".bytes == $at_end"
run "$acre" trace --list oom.trace
churn=$(sed -n 's/.* alloc .* bytes=\([0-9]*\) .*/\1/p' "$out" | jq -s add)
run "$acre" export --format folded --at churn oom.trace
cp "$out" churn.folded
read_back folded churn.folded
expect_json ".bytes == $churn"
run "$acre" export --format perfetto --blocks 3 oom.trace
cp "$out" few.json
read_back chrome few.json
expect_json '.slices == 3'

# Reallocs, marks, several threads; other formats.
same_peaks "$corpus/acre.trace" 1
same_peaks "$corpus/rmm.csv.gz"
same_peaks "$corpus/rmm_streams.csv"
same_peaks "$corpus/lifetimes.csv"

# ---- snapshots of PyTorch ----

same_peaks "$snapshot"
read_back viz "$snapshot"
wanted_peak=$(jq .peak_bytes "$out")
peak_of "$snapshot"
check "the peak of the snapshot" test "$peak" -eq "$wanted_peak"
read_back viz x.pickle
# Each free has two entries, also where the snapshot had one; segments and notes stay as they are.
expect_json '.actions == {alloc: 3, free_requested: 3, free_completed: 3, segment_alloc: 1, segment_map: 1,
    segment_unmap: 1, segment_free: 1, oom: 1, user_defined: 2}'
expect_json '.devices == 2 and .before == 2 and .tags == ["snapshot", "step 2", "weights"]'
read_back chrome x.json
expect_json '.instants == {"out of memory": 1, "snapshot": 1, "step 2": 1} and .slices == 5'
expect_json '.counters["1000/weights"] == 1000 and .counters["2/live"] == 256'
read_back folded x.folded
expect_json '.deepest == 3' # a ';' in a name is no separator
run "$no_gpu" "$acre" replay --json "$snapshot"
expect_rc 0
expect_json '.results[0] | .format == "torch" and .allocs == 5 and .frees == 3'
run "$no_gpu" "$acre" plan --json "$snapshot.gz"
expect_rc 0
expect_json '.results[0] | .format == "torch" and .buffers == 5'
# acre trace reads only acre's own traces, and says what to do.
run "$acre" trace "$snapshot"
expect_rc 2
expect_err 'acre export'

# A snapshot that acre wrote is one that acre reads: the second export is the same as the first.
export_to memory_viz oom.trace first.pickle
export_to memory_viz first.pickle second.pickle
read_back viz first.pickle
cp "$out" first.json
read_back viz second.pickle
check "the same snapshot" cmp "$out" first.json

# A real one, where it is present.
real=${ACRE_DATA:-$ACRE_SOURCE/../shared/data}/traces/magma27.pickle.gz
if [ -r "$real" ] && ! is_sanitized; then
    read_back viz "$real"
    cp "$out" real.json
    same_peaks "$real"
    read_back viz x.pickle
    for key in entries actions segments reserved_bytes peak_bytes before live_bytes stacks names; do
        check "$key of the real snapshot" test "$(jq -c ".$key" "$out")" = "$(jq -c ".$key" real.json)"
    done
    columns() { sed 1d "$1" | cut -d, -f3-5 | sort; }
    gzip -dc "${real%.pickle.gz}.rmm.csv.gz" >real.csv
    columns real.csv >real.columns
    columns x.rmm >x.columns
    check "the events of its RMM log" cmp real.columns x.columns
fi

# ---- names ----

# read_export.py refuses harmful characters in every format; here are the escapes that it finds.
export_to memory_viz "$snapshot" x.pickle
read_back viz x.pickle
expect_json '.names | any(startswith("<\\/script><b>\\x1b[31m\\u202e\"'"'"';"))'
# A tag of a trace, replaced by one of the same length.
printf '\033]0;</script>\342\200\256"' >name
check "17 bytes" test "$(wc -c <name)" -eq 17
python3 -c 'import sys; d = open("oom.trace", "rb").read(); n = open("name", "rb").read()
assert b"model/activations" in d
open("names.trace", "wb").write(d.replace(b"model/activations", n))'
same_peaks names.trace
read_back viz x.pickle
expect_json '.tags | index("\\x1b]0;<\\/script>\\u202e\"") != null'
read_back chrome x.json
expect_json '.counters["1000/\\x1b]0;<\\/script>\\u202e\""] > 0'
# A name of 10 kB is clipped, invalid UTF-8 is escaped.
python3 -c 'import pickle
f = [{"name": "n" * 10000, "filename": "f", "line": 1}]
e = {"action": "alloc", "addr": 4096, "size": 5, "stream": 0, "time_us": 1, "frames": f, "user_metadata": "t" * 10000}
d = pickle.dumps({"segments": [], "device_traces": [[e]]}, 4)
open("long.pickle", "wb").write(d.replace(b"n" * 10, b"\xff\xc0\xaf\xed\xa0\x80abcd"))'
same_peaks long.pickle
read_back folded x.folded
expect_json '.names | any(startswith("\\xff\\xc0\\xaf\\xed\\xa0\\x80abcd"))'

# ---- output files ----

run_leaks "$acre" export --format memory_viz --json -o new.pickle "$snapshot"
expect_rc 0
expect_json '.schema == "acre-export/1" and .format == "memory_viz" and .input_format == "torch"'
expect_json '.allocations == 5 and .frees == 3 and (.is_damaged | not) and .output == "new.pickle"'
run_leaks "$acre" export --format perfetto oom.trace
expect_rc 0
run_leaks "$acre" export --format folded oom.trace
expect_rc 0
for format in rmm plan; do
    run "$acre" export --format "$format" oom.trace
    expect_rc 0
    expect_no_err
done
# acre replaces what it wrote, if the format shows that; other files only with --force.
run "$acre" export --format memory_viz -o new.pickle "$snapshot"
expect_rc 0
cp "$snapshot" mine.pickle
run "$acre" export --format memory_viz -o mine.pickle oom.trace
expect_rc 2
expect_err 'acre did not write the existing file'
check "the file is as before" cmp "$snapshot" mine.pickle
run "$acre" export --format rmm -o oom.trace oom.trace
expect_rc 2
expect_err 'it is the input'
run "$acre" export --format rmm -o nowhere/x.csv oom.trace
expect_rc 2
expect_err 'cannot write nowhere/x.csv'
run "$acre" export --format rmm -o /dev/full oom.trace
expect_rc 2
expect_err 'cannot write /dev/full'
check "no files are left behind" bash -c '! compgen -G ".acre-*"'

# ---- usage ----

run "$acre" export oom.trace
expect_rc 64
expect_err 'no format given'
run "$acre" export --format svg oom.trace
expect_rc 64
expect_err "there is no format 'svg'"
run "$acre" export --format rmm
expect_rc 64
run "$acre" export --format rmm --at end oom.trace
expect_rc 64
run "$acre" export --format folded --at dawn oom.trace
expect_rc 64
run "$acre" export --format perfetto --blocks many oom.trace
expect_rc 64
run "$acre" export --format rmm --json oom.trace
expect_rc 64

# ---- damaged input ----

# Nothing in a pickle is executed: other opcodes are errors, with their offset.
for name in bad_global:2 bad_reduce:4 bad_none:2 bad_cut:2 bad_stack_global:14 bad_marks:258; do
    run "$acre" export --format folded "$ACRE_SOURCE/tests/fuzz/corpus_pickle/${name%:*}"
    expect_rc 2
    expect_no_out
    expect_err "^acre: .*/${name%:*}: byte ${name#*:}"
done
run "$acre" export --format folded "$ACRE_SOURCE/tests/fuzz/corpus_pickle/bad_global"
expect_err 'opcode 0x63 .* nothing was executed'
# Of all 256 opcodes 22 are known.
if ! is_sanitized; then
    known=0
    for byte in $(seq 0 255); do
        printf '\200\4%b\1\1\1\1\1\1\1\1\1.' "\\x$(printf %x "$byte")" >opcode.pickle
        run "$acre" export --format plan opcode.pickle
        expect_rc 2
        grep -q "byte 2: opcode 0x$(printf %02x "$byte") is none" "$err" || known=$((known + 1))
    done
    check "22 opcodes, not $known" test "$known" -eq 22
fi
for file in "$ACRE_SOURCE"/tests/fuzz/corpus_pickle/*; do
    run "$acre" export --format memory_viz "$file"
    expect_no_crash
    case ${file##*/} in
    bad_*)
        expect_rc 2
        expect_no_out
        expect_err '^acre: '
        ;;
    good_snapshot | good_protocol5) expect_rc 0 ;;
    *) expect_err 'no allocations|not a memory snapshot' ;;
    esac
done
# A cut trace: what comes before is written.
head -c $(($(wc -c <"$corpus/rmm.csv") - 7)) "$corpus/rmm.csv" >cut.csv
run "$acre" export --format plan cut.csv
expect_rc 2
expect_err '^acre: cut.csv:[0-9]+:[0-9]+: '
expect_err 'the output has the [0-9]+ allocations and [0-9]+ frees before the damage'
expect_out '^0,0,[0-9]+,[0-9]+$'
run "$acre" export --format memory_viz --json -o cut.pickle cut.csv
expect_rc 2
expect_json '.is_damaged'
read_back viz cut.pickle
expect_rc 0
expect_json '.entries > 0'
for file in "$corpus"/bad_*; do
    run "$acre" export --format memory_viz "$file"
    expect_no_crash
    check "exit code 0 or 2" bash -c "[ $rc -eq 0 ] || [ $rc -eq 2 ]"
done
finish
