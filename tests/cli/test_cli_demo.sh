#!/usr/bin/env bash
# acre demo: a row for every part, and a page that is well-formed and needs nothing from outside.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

cd "$work" || exit 2
run_leaks "$acre" demo
expect_rc 0
expect_plain
expect_out '^device +ok '
expect_out '^streams and events +ok '
expect_out '^kinds of memory +ok .*all bytes correct, 0 blocks leaked'
expect_out '^copies +ok .* GB/s pinned, .* pageable; back at '
expect_out '^pool +ok .*64 KiB allocated and freed in stream order in [0-9]+ ns, .*; no blocks overlap$'
expect_out '^growing array +ok .*2 MiB to .* 0 B copied, address unchanged; by copying in .* [MG]iB copied$'
expect_out '^plan +ok .* 60 buffers of 24 steps in .*; separately .*: [0-9]+ % saved; no byte was overwritten$'
expect_out "^CUDA's own calls +ok .* all bytes correct; cudaMalloc of 2\^60 bytes: cudaErrorMemoryAllocation$"
expect_out '^limbo and trim +ok .*1 waiting for a retry, 0 after trim'
expect_out 'acre-demo/index.html$'
check "last line says where the page is" sh -c "tail -1 '$out' | grep -q acre-demo/index.html"
page=$work/acre-demo/index.html
check "page exists" test -s "$page"
check "page is well-formed" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$page"
check "page has a drawing" grep -q '<svg ' "$page"
check "page knows light and dark" grep -q 'prefers-color-scheme: dark' "$page"
# The only URLs are names of XML namespaces, and a link to the report; nothing is fetched.
check "page needs nothing from outside" sh -c \
    "! grep -vE '<a href=.report.html.>' '$page' | grep -E '(src|href)=|url[(]|@import|<script|<link'"
if [ -f "$work/acre-demo/report.html" ]; then # the tool was built with uPlot
    expect_out 'acre-demo/report.html$'
    run "$acre" report --json "$work/acre-demo/demo.trace"
    expect_rc 0
    expect_json '(.failed | length) == 1 and ([.by_tag[].name] | index("model/activations") != null)'
fi
# Each drawing is there twice, for wide and for narrow screens.
check "a page for phones" grep -q '@media (max-width: 50rem)' "$page"
check "three narrow drawings" test "$(grep -c '<div class="narrow">' "$page")" -eq 3
check "every speed is drawn" test "$(grep -c ' GB/s</span>' "$page")" -eq 4
check "both arrays are drawn" test "$(grep -c '</title></polyline>' "$page")" -eq 4
check "every event is drawn" test "$(grep -c '<circle' "$page")" -eq 24
check "every wish is drawn" test "$(grep -c '</title></path>' "$page")" -ge 100
for title in 'time since the first call' 'size of the array' 'cumulative time' address; do
    check "an axis is called $title" test "$(grep -c ">$title</text>" "$page")" -ge 2
done
check "the copies have a unit" grep -q 'bandwidth in GB/s' "$page"
today=$(date -u +%Y-%m-%d)
check "the chart has device and date" grep -Eq ">(soft|cuda):0, [^<]*; $today</text>" "$page"
check "the page has device and date" grep -Eq "on (soft|cuda):0, .*; $today</p>" "$page"
picture=$work/acre-demo/plan.svg
check "the picture is well-formed" \
    python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$picture"
check "every wish is drawn there too" test "$(grep -c '</title></path>' "$picture")" -ge 50

run "$no_gpu" "$smaller" "$acre" demo --json --output deep/er/page
expect_rc 0
check "a soft device has no bus id" sh -c "! grep -E '[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}' deep/er/page/index.html"
expect_json '.device.bus_id == null'
expect_json '.schema == "acre-demo/1" and .device.driver == "soft"'
expect_json '[.parts[].part] == ["device", "streams and events", "kinds of memory", "copies",
    "pool", "growing array", "plan", "malloc in a kernel", "sharing", "tags and realloc",
    "limit and report", "CUDA\u0027s own calls", "limbo and trim"]'
expect_json 'all(.parts[]; .ok and (.time_ns > 0 or (.text | startswith("skipped"))) and (.text | length > 0))'
expect_json '.measured | .unit == "GB/s" and .pinned_h2d > 0 and .pinned_d2h > 0 and .d2d > 0
    and .pageable_h2d > 0 and .pageable_d2h > 0'
expect_json '.growth | (.sizes | length > 1 and . == sort and .[0] == 2097152)
    and (.sizes | length) == (.in_place.ns | length) and (.in_place.ns | . == sort and all(. > 0))
    and .in_place.copied_bytes == 0 and .in_place.moves == 0
    and .copying.copied_bytes > 0 and .copying.moves > 0'
expect_json '.plan | .wishes == 60 and .bytes >= .lower_bound_bytes and .bytes < .wanted_bytes / 2
    and .picture == "deep/er/page/plan.svg"'
expect_json '.page == "deep/er/page/index.html"'
check "page in a folder of its own" test -s deep/er/page/index.html

# An existing folder is used, and an old page is replaced.
run "$no_gpu" "$small" "$acre" demo --output deep/er/page
expect_rc 0

# A page or a picture that acre did not write is replaced only with --force. Nothing runs before
# the refusal.
for file in index.html plan.svg; do
    mkdir -p site
    echo '<html><title>my page</title></html>' >"site/$file"
    run "$no_gpu" "$small" "$acre" demo -o site
    expect_rc 2
    expect_no_out
    expect_err "^acre: cannot write site/$file: acre did not write the existing file; choose another file, or replace it with --force$"
    check "the file is unchanged" grep -q 'my page' "site/$file"
    check "no other file is written" test "$(ls site)" = "$file"
    run "$no_gpu" "$small" "$acre" demo -o site --force
    expect_rc 0
    check "the file is replaced" sh -c "! grep -q 'my page' site/$file"
    rm -r site
done

# '-' writes the page to standard output.
run "$no_gpu" "$small" "$acre" demo --output -
expect_rc 0
check "it is the page" grep -q '<title>acre demo</title>' "$out"
check "and nothing else" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$out"
check "no folder" test ! -e ./-
run "$acre" demo --output - --json
expect_rc 64
expect_err '--json and --output - both write to standard output: choose one'

# expect_no_page FOLDER MESSAGE: no page can be written there.
expect_no_page() {
    run "$no_gpu" "$small" "$acre" demo --output "$1"
    expect_rc 2
    expect_err "$2"
}
mkdir -p taken/index.html full taken_too/plan.svg
ln -s /dev/full full/index.html
expect_no_page /dev/null/page '^acre: cannot create the folder '
expect_no_page taken '^acre: cannot write taken/index.html: '
expect_no_page '' '^acre: '
expect_no_page full '^acre: cannot write full/index.html: No space left'
expect_no_page taken_too '^acre: cannot write taken_too/plan.svg: '

# Also with the seeded scheduler.
run "$no_gpu" "$smaller" ACRE_SOFT_SEED=7 "$acre" demo --output seeded
expect_rc 0
expect_out '^pool +ok '
expect_out '^streams and events +ok '
expect_out '^kinds of memory +ok '
expect_out '^copies +ok '

# Also on a device with little memory.
run "$no_gpu" "$small" "$acre" demo --output small
expect_rc 0
expect_out '^copies +ok .* 4 MiB to the device'
expect_out '^pool +ok '

# Without virtual memory mapping, arrays grow by copying.
run "$no_gpu" "$smaller" ACRE_VMM=no "$acre" demo --output plain
expect_rc 0
expect_out '^growing array +ok .*2 MiB to '
expect_out '^pool +ok '

# A refused allocation is reported.
run "$no_gpu" ACRE_FAULT='cuMemHostRegister:2:from:2' "$acre" demo --output refused
expect_rc 2
expect_err '^acre: cannot allocate mapped memory for auto: out of host memory'

finish
