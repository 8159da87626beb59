#!/usr/bin/env bash
# acre report: the figures, the page as a file, other formats, damaged and hostile files, comparison.
# What the page shows in a browser is tested in tests/page.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2
corpus=$ACRE_SOURCE/tests/fuzz/corpus

run "$no_gpu" ACRE_TRACE=program.trace ACRE_STACKS=8 "$ACRE_BUILD/examples/oom_report"
expect_rc 0
"$acre" trace --json program.trace >trace.json

# The figures are those of acre trace.
run_leaks "$acre" report --json program.trace
expect_rc 0
expect_no_err
expect_json '.schema == "acre-report/1" and .format == "acre" and .damage == []'
expect_json '.lead | test("^Peak [0-9.]+ MiB at [0-9.]+ [mu]?s; [0-9]+ % of it held by model/[a-z]+; [0-9.]+ MiB reserved; [1-9][0-9]* allocation")'
cp "$out" report.json
fields='peak_bytes peak_real_bytes peak_ns live_bytes live_blocks events duration_ns created_bytes released_bytes moved_bytes threads unknown_frees missing_frees pid kinds'
for field in $fields; do
    check "$field is that of acre trace" jq -n -e --slurpfile a report.json --slurpfile b trace.json \
        "\$a[0].$field == \$b[0].$field and \$a[0].$field != null"
done
for table in by_tag by_pool by_stack; do
    check "$table is that of acre trace" jq -n -e --slurpfile a report.json --slurpfile b trace.json "
        def rows: map({id, peak_bytes, at_peak_bytes, at_peak_blocks, live_bytes, live_blocks, allocations});
        (\$a[0].$table | rows) == (\$b[0].$table | rows)"
done
check_json "all of the peak has a holder" '([.holders[][2]] | add) == .peak_bytes' report.json
check_json "sizes sum up" '([.by_size[].allocations] | add) == .kinds.alloc' report.json
check_json "a plan needs at least the peak" '.plan.bytes >= .plan.lower_bound_bytes and .plan.lower_bound_bytes >= .peak_bytes' report.json

# Without uPlot there is no page, but a message that says what to do.
run "$acre" report program.trace
if [ "$rc" -eq 2 ]; then
    expect_err 'run scripts/deps page in the source folder, then make'
    finish
fi
expect_rc 0
expect_no_out
expect_err '^acre: report.html: [0-9.]+ [KM]iB, with [0-9]+ events; open it in a browser$'
check "it is a page" grep -q '^<!doctype html>' report.html
check "nothing is loaded" bash -c '! grep -Eq "(src|href)=\"(https?:)?//" report.html'
check "no marker is left" bash -c '! grep -q "acre:" report.html'

# The page is replaced, other files are not.
run "$acre" report program.trace
expect_rc 0
echo mine >mine.html
run "$acre" report program.trace -o mine.html
expect_rc 2
expect_err 'cannot write mine.html: acre did not write the existing file'
run "$acre" report program.trace --output program.trace
expect_rc 2
expect_err 'it is the input program.trace'
run "$acre" report program.trace --output mine.html --force
expect_rc 0
run "$acre" report - -o - <program.trace
expect_rc 2 # standard input is empty here
"$acre" report - -o - <program.trace >piped.html 2>messages
check "standard output" grep -q '^<!doctype html>' piped.html

# Comparison: both reports are in the page.
run "$acre" report program.trace --against "$corpus/acre.trace" -o change.html
expect_rc 0
check "the other report" grep -q '"against":{"schema":"acre-report/1"' change.html
run "$acre" report program.trace --against missing -o change.html
expect_rc 2
expect_err 'missing: No such file'

# Other formats.
run "$acre" report --json "$corpus/rmm.csv"
expect_rc 0
expect_json '.format == "rmm" and .peak_bytes > 0 and .by_tag[0].name == null'
run "$acre" report --json "$corpus/lifetimes.csv.gz"
expect_rc 0
expect_json '.format == "lifetimes" and (.lead | test("at step [0-9]+"))'

for file in "$ACRE_SOURCE"/tests/fuzz/corpus_pickle/*; do # snapshots of PyTorch, good and bad
    run "$acre" report --json "$file"
    expect_no_crash
    check "exit code 0, 1 or 2" test "$rc" -le 2
done

# Hostile names cannot leave the data.
python3 "$ACRE_SOURCE/tests/page/gen_trace.py" hostile.trace || exit 2
run_leaks "$acre" report hostile.trace -o hostile.html
expect_rc 0
script_ends() { grep -o '</script>' "$1" | wc -l; }
has_control() { grep -q "$(printf '[\001-\010\033]')" "$1"; }
check "no name ends the script" test "$(script_ends hostile.html)" -eq "$(script_ends report.html)"
check "no control characters" test "$(has_control hostile.html && echo some)" = ""
check "no marks of direction" bash -c '! LC_ALL=C.UTF-8 grep -Pq "[\x{202a}-\x{202e}\x{2066}-\x{2069}]" hostile.html'
check "a long name is cut" test "$(stat -c %s hostile.html)" -lt 300000

# A release of a chunk may lack its bytes.
run "$acre" report --json hostile.trace
expect_rc 0
expect_json '.reserved_bytes == 64 * 1048576 and .reserved_peak_bytes == 72 * 1048576 and .waits == 1'

# Levels of detail: each has the peak, and areas sum up to what is live.
python3 "$ACRE_SOURCE/tests/page/gen_trace.py" many.trace 8000 || exit 2
run "$acre" report many.trace -o many.html
expect_rc 0
check "levels of detail" python3 "$ACRE_SOURCE/tests/page/check_levels.py" many.html 3
check "a short trace needs one" python3 "$ACRE_SOURCE/tests/page/check_levels.py" hostile.html 1

# A cut trace: what can be read is shown.
head -c $((4096 + 65536 + 64 + 200)) hostile.trace >cut.trace
run "$acre" report cut.trace -o cut.html
expect_rc 2
expect_err '^acre: cut.trace: byte 69896: .*; the report has the [0-9]+ events before the damage$'
check "the page says so" grep -q '"damage":\[{"byte":69896,"what":"[^"]*"}\]' cut.html
gzip -c program.trace >whole.gz
head -c $(($(stat -c %s whole.gz) / 2)) whole.gz >cut.gz
run "$acre" report --json cut.gz
check "exit code 1 or 2" test "$rc" -ge 1 -a "$rc" -le 2
expect_err 'cut.gz: byte [0-9]+: '
printf 'Thread,Time,Action,Pointer,Size,Stream\n1,00:00:00.000001,allocate,0x100,64,0\n1,00:00:0' >cut.csv
run "$acre" report --json cut.csv
expect_rc 2
expect_json '.peak_bytes == 64 and (.damage[0].what | test("^line 3, column"))'

# Every stored input, damaged ones too.
for file in "$corpus"/*; do
    run "$acre" report "$file" -o each.html --force
    expect_no_crash
    check "exit code 0, 1 or 2" test "$rc" -le 2
done
run "$acre" report
expect_rc 64
run "$acre" report --json --against program.trace program.trace
expect_rc 64
finish
