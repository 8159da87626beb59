#!/usr/bin/env bash
# Output files: no command destroys an input or a file that acre did not write, unless it is forced;
# '-' is standard input and output. test_cli_demo.sh and test_cli_trace.sh test demo and trace.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

printf 'id,lower,upper,size\na,0,2,4\nb,1,3,4\n' >b.csv
cp b.csv original.csv
ln b.csv hard.csv
ln -s b.csv soft.csv
mkdir -p folder
ln -s ../b.csv folder/deep.csv
how='choose another file, or replace it with --force$'

# ---- plan ----

# The input under every name, also in another folder.
for option in --out --svg --output; do
    for name in b.csv ./b.csv "$work/b.csv" folder/../b.csv hard.csv soft.csv folder/deep.csv; do
        run "$acre" plan b.csv "$option" "$name"
        expect_rc 2
        expect_no_out
        expect_err "^acre: cannot write $name: it is the input b.csv; $how"
        check "the input is unchanged" cmp b.csv original.csv
    done
done
# The offsets of --check are an input, too.
printf 'id,offset\na,0\nb,4\n' >offsets.csv
run "$acre" plan b.csv --check offsets.csv --svg offsets.csv
expect_rc 2
expect_err "^acre: cannot write offsets.csv: it is the input offsets.csv; $how"
# An input that looks like an earlier output is an input.
printf 'id,offset,lower,upper,size\na,,0,2,4\n' >looks.csv
run "$acre" plan looks.csv --out looks.csv
expect_rc 2
expect_err "^acre: cannot write looks.csv: it is the input looks.csv; $how"

# A file that acre did not write.
echo 'dear reader' >letter
gzip -c letter >letter.gz
printf 'id,offset,comment\n' >table.csv
for name in letter letter.gz table.csv; do
    cp "$name" kept
    for option in --out --svg; do
        run "$acre" plan b.csv "$option" "$name"
        expect_rc 2
        expect_no_out
        expect_err "^acre: cannot write $name: acre did not write the existing file; $how"
        check "$name is unchanged" cmp "$name" kept
    done
done
# One output that is refused: the other is not written.
run "$acre" plan b.csv --out fresh.csv --svg letter
expect_rc 2
check "no other output" test ! -e fresh.csv

# acre's own output of the same kind, an empty file, and a new one are written without a question.
: >empty.csv
for name in fresh.csv fresh.csv empty.csv; do
    run "$acre" plan b.csv --out "$name"
    expect_rc 0
    check "the plan is written" grep -q '^b,' "$name"
done
for _ in 1 2; do
    run "$acre" plan b.csv --svg fresh.svg
    expect_rc 0
done
run "$acre" plan b.csv --svg fresh.csv
expect_rc 2
expect_err "^acre: cannot write fresh.csv: acre did not write the existing file; $how"

# A replaced file keeps its mode, a link stays a link, and no temporary file is left.
chmod 640 fresh.csv
ln -s fresh.csv to_fresh.csv
run "$acre" plan b.csv --out to_fresh.csv
expect_rc 0
check "still a link" test -L to_fresh.csv
check "the mode is kept" test "$(stat -c %a fresh.csv)" = 640
check "no temporary file" sh -c '! ls | grep -E "[.][A-Za-z0-9]{6}$"'
# A new file has the mode that the umask gives.
(umask 027 && "$acre" plan b.csv --out umask.csv >/dev/null)
check "the umask counts" test "$(stat -c %a umask.csv)" = 640

# A failed write leaves the earlier file. The limit is one block of 512 bytes.
printf 'id,lower,upper,size\n' >many.csv
seq 200 | sed 's/.*/buffer&,0,1,1/' >>many.csv
run "$acre" plan many.csv --out many.out
expect_rc 0
cp many.out kept
if ! is_sanitized; then # whose runtime needs files of its own
    # shellcheck disable=SC2016 # for the inner shell
    run bash -c 'trap "" XFSZ; ulimit -f 1; exec "$0" plan many.csv --out many.out >/dev/full' "$acre"
    expect_rc 2
    expect_err '^acre: cannot write many.out: File too large$'
fi
check "the earlier plan is unchanged" cmp many.out kept
check "no temporary file" sh -c '! ls | grep -E "^many[.]out[.]"'

# --force replaces the input: it has been read by then.
cp b.csv forced.csv
for option in --force -f; do
    cp b.csv forced.csv
    run "$acre" plan forced.csv --out forced.csv "$option"
    expect_rc 0
    check "the plan is written" grep -q '^id,offset$' forced.csv
done
run "$acre" plan b.csv --svg letter --force
expect_rc 0
check "the picture is written" grep -q '^<svg class="pl"' letter

# Two outputs in one file.
run "$acre" plan b.csv --out same --svg same
expect_rc 64
expect_err '--out and --svg name the same file'
check "nothing is written" test ! -e same

# Standard input and output.
"$acre" plan - <b.csv >"$out"
expect_out '^standard input '
"$acre" plan - --json <b.csv >"$out"
expect_json '.results[0].file == "standard input"'
run "$acre" plan b.csv --out -
expect_rc 0
expect_no_err
check "only the offsets" cmp "$out" fresh.csv
run "$acre" plan b.csv --svg -
expect_rc 0
check "only the picture" cmp "$out" fresh.svg
"$acre" plan b.csv --check - <fresh.csv >"$out"
expect_out ' valid$'
printf 'id,lower,upper,size\na,0,x,4\n' | "$acre" plan - >"$out" 2>"$err"
expect_err '^acre: standard input:2:5: '
"$acre" plan b.csv --check - <original.csv >"$out" 2>"$err"
expect_err '^acre: standard input:1:'
check "no file is called -" test ! -e ./-
run "$acre" plan b.csv --out - --json
expect_rc 64
expect_err "--json and '-' both write to standard output: choose one"
run "$acre" plan - --check -
expect_rc 64
expect_err 'FILE and --check cannot both be standard input'

# ---- replay ----

"$acre" replay --device soft --json - <b.csv >"$out" 2>"$err"
expect_json '.results[0].file == "standard input" and .results[0].format == "lifetimes"'
run "$acre" replay --device soft -
expect_rc 2
expect_err '^acre: standard input:1:1: the file is empty$'

# ---- bench ----

bench() { run "$no_gpu" "$small" "$acre" bench --device soft --quick "$@"; }
echo 'dear reader' >letter
echo '{"schema": "other/1"}' >other.json
for words in 'ground --output letter' 'ground --output other.json' 'grow --chart letter'; do
    # shellcheck disable=SC2086 # the words of a command
    bench $words
    expect_rc 2
    expect_no_out
    expect_err "^acre: cannot write ${words##* }: acre did not write the existing file; $how"
done
check "the letter is unchanged" grep -q 'dear reader' letter
for _ in 1 2; do
    bench ground --output figures.json
    expect_rc 0
    expect_out '^SUITE '
done
check_json "the figures are written" '.schema == "acre-bench/1"' figures.json
bench ground --output letter --force
expect_rc 0
check_json "the letter is replaced" '.schema == "acre-bench/1"' letter
bench ground --output -
expect_rc 0
expect_json '.schema == "acre-bench/1" and (.results | length > 0)'
for _ in 1 2; do
    bench grow --chart grow.svg
    expect_rc 0
done
bench grow --chart -
expect_rc 0
check "it is the chart" grep -q '^<svg class="ch"' "$out"
check "and nothing else" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$out"
bench grow --chart same --output same
expect_rc 64
expect_err '--chart and --output name the same file'
bench grow --chart - --json
expect_rc 64
expect_err "--json and '-' both write to standard output: choose one"

# A chart has a background, titles of both axes, the device and the date.
check "a background" grep -q '<rect class="bg" x="0.0" y="0.0"' grow.svg
check "... in both schemes" test "$(grep -c -e '--bg: #ffffff' -e '--bg: #1c2225' grow.svg)" -eq 2
for title in 'size of the array' 'cumulative time'; do
    check "an axis is called $title" test "$(grep -o ">$title</text>" grow.svg | wc -l)" -eq 2
done
check "device and date" grep -q ">soft:0, acre soft device; $(date -u +%Y-%m-%d)</text>" grow.svg

finish
