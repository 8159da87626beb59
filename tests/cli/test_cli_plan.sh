#!/usr/bin/env bash
# acre plan: files of lifetimes, every option, plans from other solvers, the picture, and damaged
# files.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

lives=id,lower,upper,size
plans=$ACRE_SOURCE/tests/data/plans

plan() { run "$no_gpu" "$acre" plan "$@"; }

# ---- valid files ----

cp "$plans/input.12.csv" five.csv
run_leaks "$no_gpu" "$acre" plan five.csv --json --out offsets.csv --svg five.svg
expect_rc 0
expect_no_err
expect_json 'keys == ["results", "schema", "version"] and .schema == "acre-plan/1"'
expect_json '.results | length == 1'
expect_json '.results[0] | keys == ["align_bytes", "buffers", "bytes", "file", "fits", "format",
    "interrupted", "lower_bound_bytes", "nodes", "optimal", "ratio", "time_ns"]'
expect_json '.results[0] | .file == "five.csv" and .format == "lifetimes" and .buffers == 5
    and .bytes == 12 and .lower_bound_bytes == 12 and .ratio == 1 and .align_bytes == 1'
expect_json '.results[0] | .optimal and .fits and (.interrupted | not) and .time_ns > 0'
check "offsets have a header" test "$(head -n 1 offsets.csv)" = id,offset
check "an offset for each" test "$(tail -n +2 offsets.csv | cut -d, -f1 | paste -sd' ')" = 'b1 b2 b3 b4 b5'
plan five.csv --check offsets.csv
expect_rc 0

plan five.csv
expect_rc 0
expect_no_err
expect_plain
expect_out '^FILE +BUFFERS +BYTES +LOWER BOUND +RATIO +NODES +TIME +RESULT$'
expect_out '^five.csv +5 +12 +12 +1\.0000 +[0-9]+ +[0-9.]+ [num]?s +optimal$'

# Compressed, with other column orders and line endings, through a pipe, and several files at once.
gzip -c five.csv >packed
printf '%s\r\n' size,id,upper,lower 4,b1,3,0 4,b2,9,3 4,b3,9,0 4,b4,21,9 4,b5,21,0 >order.csv
head -c -1 five.csv >no_end.csv
plan five.csv packed order.csv no_end.csv --json
expect_rc 0
expect_json '[.results[].file] == ["five.csv", "packed", "order.csv", "no_end.csv"]'
expect_json '[.results[] | [.buffers, .bytes, .lower_bound_bytes]] | unique == [[5, 12, 12]]'
# shellcheck disable=SC2016 # $0 is the inner shell's
run "$no_gpu" bash -c 'gzip -c five.csv | "$0" plan /dev/stdin' "$acre"
expect_rc 0
expect_out '^/dev/stdin +5 +12 '

# Blank lines are skipped, at the end and elsewhere, with any line ending.
{ cat five.csv && printf '\n\r\n'; } >blank.csv
sed 's/^b3/\n&/' five.csv >blank_inside.csv
plan blank.csv blank_inside.csv --json
expect_rc 0
expect_no_err
expect_json '[.results[] | [.buffers, .bytes]] | unique == [[5, 12]]'
printf '%s\nb1,1,3,x\n' "$(cat blank_inside.csv)" >blank_bad.csv
plan blank_bad.csv
expect_rc 2
expect_err '^acre: blank_bad.csv:8:8: size is not a number'

# An empty file needs no memory.
echo "$lives" >none.csv
plan none.csv --svg none.svg --out none.out --json
expect_rc 0
expect_json '.results[0] | .buffers == 0 and .bytes == 0 and .ratio == 1 and .fits'
check "no offsets" test "$(cat none.out)" = id,offset
check "well-formed" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' none.svg

# ---- alignment ----

printf '%s\n' "$lives,alignment" a,0,9,10,1 b,0,9,10,64 c,0,9,10,16 >aligned.csv
plan aligned.csv --out offsets.csv --json
expect_rc 0
# shellcheck disable=SC2016 # $2 is awk's
offset_of() { awk -F, -v id="$1" '$1 == id {print $2}' offsets.csv; }
check "the column is kept" test $(($(offset_of b) % 64 + $(offset_of c) % 16)) -eq 0
plan aligned.csv --align 32 --out offsets.csv --json
expect_rc 0
expect_json '.results[0].align_bytes == 32'
check "the option is kept too" test \
    $(($(offset_of a) % 32 + $(offset_of b) % 64 + $(offset_of c) % 32)) -eq 0
plan aligned.csv --align 1KiB --json
expect_rc 0
expect_json '.results[0] | .align_bytes == 1024 and .bytes >= 2058 and .bytes <= 3072'

# ---- fixed offsets ----

# A buffer with an offset stays there; for an empty field the placer chooses.
printf '%s\n' "$lives,offset" a,0,5,10, b,3,8,20,100 c,5,9,10, >fixed.csv
plan fixed.csv --out offsets.csv --json
expect_rc 0
expect_json '.results[0] | .bytes == 120 and .lower_bound_bytes == 120 and .optimal'
check "it stays" test "$(offset_of b)" = 100
plan fixed.csv --capacity 119
expect_rc 1
expect_err '^acre: fixed.csv: no plan fits into 119 bytes: at least 120 are needed$'
# A complete plan as the input: all offsets are fixed, and nothing moves.
printf '%s\n' "$lives,offset" a,0,5,10,40 b,3,8,20,7 c,5,9,10,60 >whole.csv
plan whole.csv --out offsets.csv --json
expect_rc 0
expect_json '.results[0] | .bytes == 70 and .optimal'
check "all stay" test "$(offset_of a) $(offset_of b) $(offset_of c)" = '40 7 60'
plan five.csv --out five_offsets.csv
paste -d, five.csv <(cut -d, -f2 five_offsets.csv) >five_placed.csv
plan five_placed.csv --out offsets.csv --json
expect_rc 0
expect_json '.results[0] | .bytes == 12 and .optimal'
check "the same plan" cmp five_offsets.csv offsets.csv
# --align applies only to buffers that the placer places.
plan fixed.csv --align 64 --out offsets.csv
expect_rc 0
check "fixed stays, others are aligned" test "$(offset_of b) $(($(offset_of a) % 64))" = '100 0'
# Any other offset for a fixed buffer is an error.
printf '%s\n' id,offset a,0 b,10 c,0 >moved.csv
plan fixed.csv --check moved.csv
expect_rc 1
expect_err "^acre: moved.csv: 'b' is fixed at 100, not at 10$"
printf '%s\n' "$lives,offset" a,0,5,10,0 b,3,8,20,9 >clash.csv
plan clash.csv
expect_rc 2
expect_err "^acre: clash.csv:3:1: 'b' \\(bytes 9 to 29, live 3 to 8\\) overlaps 'a' \\(bytes 0 to 10, live 0 to 5\\), and both are fixed$"

# ---- capacity ----

plan five.csv --capacity 12 --json
expect_rc 0
expect_json '.results[0] | .fits and .capacity_bytes == 12'
plan five.csv --capacity 1KiB
expect_rc 0
plan five.csv --capacity 11 --out not_there.csv --svg misfit.svg
expect_rc 1
expect_out '^five.csv .* does not fit$'
expect_err '^acre: five.csv: no plan fits into 11 bytes: at least 12 are needed$'
expect_err '^acre: misfit.svg: nothing to draw: nothing was placed$'
check "no offsets that do not fit" test ! -e not_there.csv
check "no picture of no plan" test ! -e misfit.svg
plan --capacity 11 five.csv none.csv --json
expect_rc 1
expect_json '[.results[].fits] == [false, true]'

# ---- budget ----

# Equal budgets give equal plans; a larger budget gives no larger plan.
plan "$plans/A.1048576.csv" --budget 1 --out one.csv --json
expect_rc 0
cp "$out" one.json
plan "$plans/A.1048576.csv" --budget 1 --out again.csv --json
expect_rc 0
check "the same plan" cmp one.csv again.csv
plan "$plans/A.1048576.csv" --budget 0x100 --json
expect_rc 0
# shellcheck disable=SC2016 # $one is jq's
check_json "no larger plan" '.results[0].bytes <= $one[0].results[0].bytes' "$out" --slurpfile one one.json

# ---- plans of other solvers ----

printf '%s\n' "$lives" a,0,5,10 b,3,8,20 c,5,9,10 >three.csv

# judge CODE LINE...: checks the plan of these lines, after its header.
judge() {
    local code=$1
    shift
    printf '%s\n' "$@" >somebody.csv
    plan three.csv --check somebody.csv --json
    expect_rc "$code"
}
judge 0 id,offset a,0 b,10 c,0
expect_no_err
expect_json '.results[0] | .bytes == 30 and .lower_bound_bytes == 30 and .ratio == 1 and .fits'
expect_json '.results[0].check == {"file": "somebody.csv", "right": true}'
expect_json '.results[0] | has("nodes") == false and has("time_ns") == false'
# Other columns, another order, and the complete file of another solver.
judge 0 offset,who,id 0,me,c 0,me,a 90,you,b
expect_json '.results[0] | .bytes == 110 and (.ratio * 3 * 10 | round) == 110'
judge 0 "$lives,offset" a,0,5,10,0 b,3,8,20,10 c,5,9,10,0
plan three.csv --check somebody.csv
expect_rc 0
expect_out '^three.csv +3 +30 +30 +1\.0000 +- +- +valid$'
plan somebody.csv --check somebody.csv --svg checked.svg
expect_rc 0
check "it is drawn" grep -q 'b: 20 bytes (20 B) at 10, live 3 to 8' checked.svg
{ printf '\357\273\277' && cat three.csv; } >marked.csv # with a byte order mark, as spreadsheets write it
plan marked.csv --check somebody.csv
expect_rc 0
gzip -c somebody.csv >somebody.gz
plan three.csv --check somebody.gz
expect_rc 0

judge 1 id,offset a,0 b,9 c,0
expect_err "^acre: somebody.csv: 'a' \\(bytes 0 to 10, live 0 to 5\\) and 'b' \\(bytes 9 to 29, live 3 to 8\\) overlap$"
expect_json '.results[0].check | (.right | not) and (.buffers | sort) == ["a", "b"]
    and (.wrong | test("overlap"))'
plan three.csv --check somebody.csv
expect_rc 1
expect_out ' invalid$'
plan three.csv --check somebody.csv --svg wrong.svg
expect_rc 1
check "what overlaps can be seen" grep -q 'b: 20 bytes (20 B) at 9, live 3 to 8' wrong.svg
judge 1 id,offset a,0 b,10
expect_err "^acre: somebody.csv: 'c' has no offset$"
expect_json '.results[0].check.buffers == ["c"]'
expect_json '.results[0].lower_bound_bytes == 30'
plan three.csv --check somebody.csv --svg none_of_it.svg
expect_rc 1
expect_err "none_of_it.svg: nothing to draw: not every buffer has a valid offset$"
check "nothing is written" test ! -e none_of_it.svg
judge 1 id,offset a,0 b,18446744073709551600 c,0
expect_err "^acre: somebody.csv: 'b' at 18446744073709551600 ends beyond 64 bits$"
judge 0 id,offset a,0 b,16 c,0
plan three.csv --check somebody.csv --align 16
expect_rc 0
judge 0 id,offset a,0 b,17 c,0
plan three.csv --check somebody.csv --align 16
expect_rc 1
expect_err "^acre: somebody.csv: 'b' \\(bytes 17 to 37, live 3 to 8\\) is not at a multiple of 16$"
plan three.csv --check somebody.csv --capacity 36 --json
expect_rc 1
expect_err "^acre: somebody.csv: 'b' .* ends beyond the capacity of 36 bytes$"
expect_json '.results[0] | .fits == false and .check.buffers == ["b"]'
plan three.csv --check somebody.csv --capacity 37
expect_rc 0

# Offsets that are malformed or belong to other buffers.
refuse_offsets() {
    local where=$1 what=$2
    shift 2
    judge 2 "$@"
    expect_json '.results == []'
    expect_err "^acre: somebody.csv:$where: $what"
    check "one line says it" test "$(wc -l <"$err")" -eq 1
}
refuse_offsets 1:8 'the line ends here, without the column offset' id,size a,0
refuse_offsets 1:7 'the line ends here, without the column id' offset 0
refuse_offsets 1:11 'duplicate column id' id,offset,id a,0,a
refuse_offsets 3:1 "unknown id 'z'" id,offset a,0 z,0
refuse_offsets 4:1 "duplicate id 'a', first in line 2" id,offset a,0 b,10 a,0
refuse_offsets 2:3 'offset is negative' id,offset a,-1
refuse_offsets 2:4 "offset is not a number: it contains 'x'" id,offset a,1x
refuse_offsets 2:3 'offset does not fit into 64 bits' id,offset a,18446744073709551616
refuse_offsets 2:1 'id is empty' id,offset ,1
refuse_offsets 2:2 'the line ends here, without the column offset' id,offset a
refuse_offsets 2:4 'there are more than 2 columns' id,offset a,1,1
plan three.csv --check no_such_file.csv
expect_rc 2
expect_err '^acre: cannot read no_such_file.csv: No such file'

# ---- the picture ----

cp "$plans/C.1048576.csv" hard.csv
plan hard.csv --svg hard.svg --capacity 2MiB
expect_rc 0
for picture in five.svg hard.svg; do
    check "$picture is well-formed" \
        python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$picture"
    check "$picture needs nothing from outside" sh -c \
        "! grep -E '(src|href)=|url[(]|@import|<script|<link' '$picture'"
    check "$picture knows light and dark" grep -q 'prefers-color-scheme: dark' "$picture"
done
check "every buffer is drawn and told" test "$(grep -c '<title>b[1-5]: 4 bytes' five.svg)" -eq 5
check "every buffer has its name" test "$(grep -c '>b[1-5]</text>' five.svg)" -eq 5
check "axes have units" grep -q '>12 B</text>' five.svg
check "the peak is said" grep -q '>peak</text><text[^>]*>12 B</text>' five.svg
check "the lower bound is said" grep -q '>lower bound</text>\|plan, lower bound' hard.svg
# Names are escaped.
printf '%s\n' "$lives" '<b>&"x",0,5,10' "$(printf '\033[31m\377'),5,9,10" >names.csv
plan names.csv --svg names.svg --out names.out
expect_rc 0
expect_plain
check "names are well-formed" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' names.svg
plan names.csv --check names.out
expect_rc 0
# Times of 63 bits are drawn at the right place.
printf '%s\n' "$lives" a,9223372036854775800,9223372036854775803,5 b,9223372036854775803,9223372036854775807,5 >late.csv
plan late.csv --svg late.svg
expect_rc 0
check "both are drawn" test "$(grep -c '</title></path>' late.svg)" -eq 2
check "marks have all digits" grep -q '>9223372036854775805</text>' late.svg
# The picture of tens of thousands of buffers is as small as that of hundreds.
many=20000
is_sanitized && many=2000
awk -v many=$many 'BEGIN {print "id,lower,upper,size"; for (i = 0; i < many; i++)
    print i "," i "," i + 1 + i * 7919 % 400 "," 1 + i * 104729 % 5000}' >many.csv
plan many.csv --svg many.svg --budget 1
expect_rc 0
check "many are well-formed" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' many.svg
check "less than 1 MB" test "$(wc -c <many.svg)" -lt 1000000

# ---- on a terminal: progress, and Ctrl-C prints the best plan so far ----

# Sizes and alignments that leave gaps, so that no search can soon prove the plan optimal.
awk 'BEGIN {print "id,lower,upper,size,alignment"; for (i = 0; i < 90; i++)
    print i "," i % 30 "," 31 + i * 7 % 29 "," 3 + i * i % 61 "," (i % 3 ? 1 : 64)}' >knotty.csv
cat >terminal.py <<'END'
"""Runs a command on a terminal, presses Ctrl-C at the first sign of progress, prints all it wrote."""
import os, pty, select, sys

pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen, pressed = b"", False
while True:
    ready, _, _ = select.select([terminal], [], [], 60)
    try:
        read = os.read(terminal, 65536) if ready else b""
    except OSError:  # the other end is closed
        read = b""
    if not read:
        break
    seen += read
    if not pressed and b" nodes, best " in seen:
        os.write(terminal, b"\x03")
        pressed = True
os.close(terminal)  # ends a program that still runs
_, status = os.waitpid(pid, 0)
sys.stdout.write(seen.decode(errors="replace"))
sys.exit(os.waitstatus_to_exitcode(status))
END
if has_terminals; then
    run "$no_gpu" NO_COLOR=1 TERM=xterm python3 terminal.py "$acre" plan knotty.csv --budget 1000000000000
    expect_rc 0
    expect_out 'best [0-9]+ bytes, lower bound [0-9]+; Ctrl-C accepts it'
    expect_out 'knotty.csv +90 .* best found, interrupted'
else
    without_terminals
fi

# ---- damaged files ----

refuse() {
    plan bad.csv
    expect_rc 2
    expect_no_out
    expect_err "^acre: bad.csv:$1: $2"
    check "one line says it" test "$(wc -l <"$err")" -eq 1
}
# bad WHERE WHAT LINE...
bad() {
    local where=$1 what=$2
    shift 2
    printf '%s\n' "$@" >bad.csv
    refuse "$where" "$what"
}
bad 2:5 'upper must be greater than lower' "$lives" a,7,3,100
bad 2:5 'upper must be greater than lower' "$lives" a,7,7,100
bad 2:7 'size is 0' "$lives" a,1,3,0
bad 2:7 'size is negative' "$lives" a,1,3,-5
bad 2:8 "size is not a number: it contains 'K'" "$lives" a,1,3,1KiB
bad 2:7 'size does not fit into 64 bits' "$lives" a,1,3,18446744073709551616
bad 2:7 'size is empty' "$lives" a,1,3,
bad 2:3 'lower is negative' "$lives" a,-1,3,100
bad 2:3 'lower does not fit into 63 bits' "$lives" a,9223372036854775808,9223372036854775809,1
bad 3:1 "duplicate id 'a', first in line 2" "$lives" a,1,3,100 a,4,5,100
bad 2:1 'id is empty' "$lives" ,1,3,100
bad 2:6 'the line ends here, without the column size' "$lives" a,1,3
bad 2:10 'there are more than 4 columns' "$lives" a,1,3,100,7
bad 2:9 'alignment is not a power of two' "$lives,alignment" a,1,3,7,3
bad 2:9 'alignment is not a power of two' "$lives,alignment" a,1,3,7,0
bad 2:9 'alignment is empty' "$lives,alignment" a,1,3,7,
bad 2:9 'offset is negative' "$lives,offset" a,1,3,7,-1
bad 2:12 'offset is not a multiple of the alignment' "$lives,alignment,offset" a,1,3,7,16,8
bad 1:15 'the line ends here, without the column size' id,lower,upper a,1,2
bad 1:21 "unknown column 'gaps': expected id, lower, upper, size, alignment and offset" "$lives,gaps"
bad 1:21 'duplicate column size' "$lives,size" a,1,2,3,4
bad 1:33 'there are more than 16 columns' id,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q
bad 1:1 'this is not a trace' hello
: >bad.csv
refuse 1:1 'the file is empty'
printf '%s\na,1,\0003,4\n' "$lives" >bad.csv
refuse 2:5 'the line contains a NUL byte'
{
    echo "$lives"
    head -c 5000 /dev/zero | tr '\0' x
} >bad.csv
refuse 2:4097 'the line has more than 4096 bytes'
gzip -c many.csv | head -c 5000 >bad.csv
refuse '[0-9]+:[0-9]+' 'the file is truncated'
gzip -c many.csv | tr '\0' '\1' >bad.csv
refuse '[0-9]+:[0-9]+' 'the (gzip data is damaged|file is truncated)'
# Messages print no control characters to the terminal.
printf '%s\n\033[31mred,1,2,3\n\033[31mred,1,2,3\n' "$lives" >bad.csv
refuse 3:1 "duplicate id '[?].31mred'"
printf '%s\n' "$lives" a,0,9,18446744073709551615 >bad.csv
refuse 2:1 'with this buffer the sizes exceed the limit of 2\^62 bytes'
printf '%s\n' "$lives" a,0,9,4611686018427387900 b,0,9,3 c,0,9,1 >bad.csv
refuse 4:1 'with this buffer the sizes exceed the limit of 2\^62 bytes'
printf '%s\n' "$lives,offset" a,0,9,1, b,0,9,3,18446744073709551615 >bad.csv
refuse 3:1 'with this buffer the sizes exceed the limit of 2\^62 bytes'
printf '%s\n' "$lives" a,0,9,4611686018427387900 b,0,9,3 >huge.csv
plan huge.csv --align 16
expect_rc 2
expect_err '^acre: huge.csv:2:1: with this buffer the sizes exceed the limit of 2\^62 bytes$'
plan no_such_file.csv
expect_rc 2
expect_err '^acre: cannot read no_such_file.csv: No such file'
plan .
expect_rc 2
expect_err '^acre: cannot read .: Is a directory'
# All files are read; the worst result sets the exit code.
plan no_such_file.csv five.csv --json
expect_rc 2
expect_json '[.results[].file] == ["five.csv"]'

# ---- output that cannot be written ----

for option in --out --svg; do
    plan five.csv "$option" no/such/folder
    expect_rc 2
    expect_err '^acre: cannot write no/such/folder: No such file'
    plan five.csv "$option" /dev/full
    expect_rc 2
    expect_err '^acre: cannot write /dev/full: No space left'
done

# ---- usage errors ----

for words in '' '--no-such-option x' '--capacity 0 x' '--capacity -1 x' '--capacity many x' \
    '--align 3 x' '--align 0 x' '--budget 0 x' '--budget 1M x' '--budget -1 x' '--out o x y' \
    '--svg s x y' '--check c x y' '--check c --out o x' '--check c --budget 5 x' '--capacity' \
    '--capacity 99999999999999999999 x'; do
    # shellcheck disable=SC2086 # the words of a command
    plan $words
    expect_rc 64
    expect_no_out
done
plan --help
expect_rc 0
expect_out '^Examples:'
for option in json capacity=BYTES budget=NODES align=BYTES out=FILE svg=FILE check=OFFSETS device=NAME; do
    expect_out "--$option"
done

finish
