#!/usr/bin/env bash
# acre bench: the suites, the table with its ratios, the JSON that every suite shares.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

run "$acre" bench --help
expect_rc 0
expect_out '^Suites:'
for suite in ground copy pin grow range suspend pool heap plan; do
    expect_out "^  $suite "
done

# All suites have the same output format; a quick run measures small sizes only. One run measures
# all suites, and the test checks it suite by suite, since the leak check takes as long for one as
# for all. Under a sanitizer this run and the refused commands are enough.
suites=(copy ground grow heap pin plan pool range suspend)
is_sanitized && suites=(copy ground grow pin plan pool range suspend) # other tests cover the heap under sanitizers
run_leaks "$no_gpu" "$acre" bench "${suites[@]}" --device soft --quick --json --chart "$work/growth.svg"
expect_rc 0
expect_json 'keys == ["command", "commit", "date", "device", "host", "results", "schema", "version"]'
expect_json '(.date | test("^20[0-9-]{8}$")) and (.commit | test("^([0-9a-f]{7,}(-dirty)?|unknown)$"))'
expect_json '(.host | test("^[0-9]+ cores [(]")) and (.command | startswith("acre bench"))'
expect_json '.schema == "acre-bench/1" and .device.driver == "soft"'
expect_json 'all(.results[]; keys == ["case", "suite", "unit", "value", "who"])'
expect_json "[.results | group_by(.suite)[][0].suite] | join(\" \") == \"${suites[*]}\""
mv "$out" "$work/all.json"
mv "$err" "$work/all.err"

# of_suite NAME: sets $out and $err as if only that suite had run. What want_json collects is expected at once.
of_suite() {
    last="bench --quick, of which suite $1" wanted=()
    jq --arg suite "$1" '.results |= map(select(.suite == $suite))' "$work/all.json" >"$out"
    grep "^acre: suite $1[: ]" "$work/all.err" >"$err"
}

want_json() { wanted+=("$@"); }

# expect_in_one_run EXPRESSION COMMAND...: of times that are in $out already, or in one of ten runs of the command. A
# call that waits does so in every run; a machine that is busy delays some.
expect_in_one_run() {
    local expression=$1 i
    shift
    for ((i = 0; i < 10; i++)); do
        ! jq -e "$expression" "$out" >/dev/null || break
        run "$@"
    done
    expect_json "$expression"
}

of_suite ground
expect_no_err
want_json 'all(.results[]; .value > 0)'
want_json '(.results | map(select(.who == "acre") | .case) | unique)
    == (.results | map(.case) | unique)'
expect_json "${wanted[@]}"

run "$no_gpu" "$acre" bench ground
expect_rc 0
expect_plain
expect_out '^SUITE +CASE +WHO'
# The last column says faster or slower, whatever the unit.
expect_out ' driver .*[0-9]x (faster|slower)$| driver .*as fast$'

of_suite copy
expect_no_err
want_json 'all(.results[]; .value > 0 and (.who | IN("acre", "driver", "floor")))'
for way in 'h2d pageable' 'd2h pageable' 'h2d pinned' 'd2h pinned' d2d; do
    for size in 4KiB 64KiB 256KiB; do
        want_json "[.results[] | select(.case == \"$way $size\") | .unit] | unique == [\"us\"]"
    done
    for size in 1MiB 4MiB; do
        want_json "[.results[] | select(.case == \"$way $size\") | .unit] | unique == [\"GB/s\"]"
    done
done
for way in h2d d2h; do
    want_json "[.results[] | select(.case == \"$way pageable first 4MiB\") | .who] == [\"acre\", \"driver\", \"floor\"]"
done
want_json '[.results[] | select(.case == "d2h pageable untouched 4MiB") | .who]
    == ["acre", "driver", "floor"]'
# Each case has acre and the driver; cases with pageable memory also have a floor.
want_json '.results | group_by(.case) | all(([.[].who] | sort) == (if .[0].case | test("pageable")
    then ["acre", "driver", "floor"] else ["acre", "driver"] end))'
expect_json "${wanted[@]}"

of_suite pin
want_json 'all(.results[]; .value > 0)'
want_json '.results | group_by(.case)
    | all(([.[].who] | sort) == ["acre", "driver", "floor"] and ([.[].unit] | unique == ["us"]))'
for size in 4KiB 64KiB 1MiB; do
    want_json "[.results[].case] | index(\"alloc $size\") and index(\"free $size\")"
done
expect_json "${wanted[@]}"

of_suite range
expect_no_err
want_json 'all(.results[]; .value > 0 and .unit == "us")'
for name in 'commit still mapped' decommit 'commit mapped' 'unmapped by trim' 'commit moved' 'commit new'; do
    want_json "[.results[] | select(.case == \"$name 2MiB\") | .who] == [\"acre\", \"floor\"]"
done
expect_json "${wanted[@]}"
run "$no_gpu" ACRE_VMM=no "$acre" bench range --device soft --quick --json
expect_rc 0
expect_json '.results == []'
expect_err 'suite range skipped: .*cannot map device memory'

# Suspend and resume: nothing is copied of what is unchanged, and the contents are right.
of_suite suspend
expect_no_err
want_json 'all(.results[]; .value > 0 or .unit == "bytes")'
for name in 'first suspend' resume 'later suspend' 'suspend unchanged' 'vec dropped' 'vec back' \
    'pool dropped' 'pool back'; do
    want_json "[.results[] | select(.case == \"$name 4MiB\") | .who] == [\"acre\", \"floor\"]"
done
want_json '[.results[] | select(.case == "copied if unchanged 4MiB") | .value] == [0]'
want_json '[.results[] | select(.case == "host bytes / kept 4MiB") | .value | . >= 1 and . < 1.6] == [true]'
expect_json "${wanted[@]}"

# Growing arrays.
of_suite grow
want_json 'all(.results[]; .value > 0 or ((.unit | IN("bytes", "moves")) and .value == 0))'
for course in 'doubling to 32MiB' 'doubling growth to 2MiB' 'doubling growth to 16MiB' \
    'steps to 8MiB' 'steps growth to 2MiB' 'steps growth to 8MiB'; do
    want_json "[.results[] | select(.case == \"$course\") | .who] | sort
        == [\"acre\", \"acre ahead\", \"acre no reserve\", \"cudaMalloc+copy\",
            \"cudaMallocAsync+copy\", \"floor\", \"managed+prefetch\"]"
done
# acre copies nothing and does not move; the copying variants copy the whole array each time.
want_json '[.results[] | select(.unit == "bytes" and (.who | startswith("acre"))) | .value]
    | length == 6 and all(. == 0)'
want_json '[.results[] | select(.unit == "moves" and .who == "acre") | .value] == [0, 0]'
want_json '[.results[] | select(.unit == "moves" and .who == "acre ahead") | .value] == [0, 0]'
want_json '[.results[] | select(.unit == "bytes" and .who == "cudaMalloc+copy") | .value]
    == [31457280, 12582912]'
want_json '.results[] | select(.case == "fill" and .who == "acre") | .value >= 0.98 and .value <= 1'
want_json '.results[] | select(.case == "fill" and .who == "cudaMalloc+copy")
    | .value > 0.45 and .value <= 0.51'
want_json '[.results[] | select(.case == "grow 2MiB with grow-ahead") | .who]
    == ["acre", "acre no ahead", "floor"]'
want_json '[.results[] | select(.case == "append 1MiB") | .who] == ["acre", "full-size block"]'
expect_json "${wanted[@]}"
check "the chart is well-formed" python3 -c \
    'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$work/growth.svg"
check "every way has a curve in both panels" test \
    "$(grep -c '</title></polyline>' "$work/growth.svg")" -eq 14
check "the chart needs nothing from outside" sh -c \
    "! grep -E '(src|href)=|url[(]|@import|<script|<link' '$work/growth.svg'"
# No call of acre waits for the 50 ms of another stream; the driver's free does.
expect_in_one_run '[.results[] | select(.case == "busy, longest call")] | map({(.who): .value}) | add
    | .acre < 45 and ."cudaMalloc+copy" > 25' "$no_gpu" "$acre" bench grow --device soft --quick --json
if ! is_sanitized; then
    run "$no_gpu" "$acre" bench grow --device soft --quick
    expect_rc 0
    expect_out '^grow +doubling to 32MiB +acre '
    expect_out '^grow +fill +cudaMalloc.copy +0\.[45][0-9]* +share *$'
    check "single growths are in the JSON alone" sh -c "! grep -q 'growth to' '$out'"
    # A small device: the copied array fills it.
    run "$no_gpu" ACRE_VMM=no ACRE_SOFT_BYTES=128MiB "$acre" bench grow --device soft --quick --json
    expect_rc 0
    expect_json '.results[] | select(.case == "doubling copied to 32MiB" and .who == "acre") | .value > 0'
fi
run "$no_gpu" ACRE_SOFT_BYTES=16MiB "$acre" bench heap --device soft --quick --chart /dev/full
expect_rc 2
expect_err '^acre: cannot write /dev/full: No space left'
run "$acre" bench copy --chart "$work/none.svg"
expect_rc 64
expect_err '--chart needs the suite grow or heap'
for call in cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemAlloc cuMemcpyDtoDAsync \
    cuLaunchHostFunc cuMemAddressReserve; do
    run "$no_gpu" "ACRE_FAULT=$call:1:from:999" "$acre" bench grow --quick
    expect_rc 2
    expect_no_out
    expect_err 'suite grow could not be measured'
done

# Pools: alloc/free pairs of each allocator, and derived figures.
of_suite pool
expect_err 'suite pool: driver skipped: the soft device emulates its behaviour, not its speed'
want_json 'all(.results[]; .value > 0 and (.who | IN("acre", "driver", "malloc", "floor")))'
for case in 'pair 256' 'pair 65536' 'pair 2097152' 'pair 67108864' 'random 256B..2MiB 1000 live' \
    'cross-thread free' 'live 1e3' 'live 1e4'; do
    want_json "[.results[] | select(.case == \"$case\" and .unit == \"ns/pair\") | .who]
        == [\"acre\", \"malloc\"]"
done
for case in cross-stream 'pair 65536, legacy stream' 'pair 65536, stream may be captured'; do
    want_json "[.results[] | select(.case == \"$case\" and .unit == \"ns/pair\") | .who] == [\"acre\"]"
done
# Threads: powers of two up to the number of cores, each compared with the scaling of malloc.
threads=1
while [ "$threads" -le "$(nproc)" ] && [ "$threads" -le 16 ]; do
    want_json "[.results[] | select(.case == \"threads $threads\" and .unit == \"M pairs/s\")
        | .who] == [\"acre\", \"malloc\"]"
    [ "$threads" -eq 1 ] || want_json "[.results[]
        | select(.case == \"threads $threads / 1, by malloc's\") | .who] == [\"acre\"]"
    threads=$((threads * 2))
done
# shellcheck disable=SC2016 # $v is jq's
want_json '(.results | map({(.case + " " + .who): .value}) | add) as $v
    | ($v["pair 65536 acre"] / $v["pair 65536 malloc"] - $v["pair 65536 / malloc'"'"'s pair acre"])
    | fabs < 1e-6'
want_json '[.results[] | select(.case == "live 1e4 / live 1e3") | .who] == ["acre", "malloc"]'
want_json '[.results[] | select(.case == "handover 8 + 8 threads" and .unit == "M blocks/s") | .who]
    == ["acre", "malloc", "floor"]'
# Memory held while little is live; with few blocks, so that each size class has one chunk.
for case in 'idle, 16 threads x 16 streams: held' 'idle, 64 threads x 16 streams: held' \
    'survivors: live' 'survivors: held at first' 'survivors: held after 80 turnovers' \
    'drift, synchronised, 16MiB live: held'; do
    want_json "[.results[] | select(.case == \"$case\") | .who, .unit] == [\"acre\", \"MiB\"]"
done
want_json '[.results[] | select(.case | startswith("idle, ")) | .value] | length == 2 and all(. < 256)'
# shellcheck disable=SC2016 # $v is jq's
want_json '(.results | map({(.case): .value}) | add) as $v
    | $v["survivors: held at first"] >= $v["survivors: live"]
    and $v["survivors: held after 80 turnovers"] <= $v["survivors: held at first"]'
for what in '64 streams' '16 pools'; do
    want_json "[.results[] | select(.case | startswith(\"pair 65536, $what in turn\")) | .unit][:2]
        == [\"ns/pair\", \"times\"]"
done
want_json '[.results[] | select(.case == "trim of 80000 blocks") | .who, .unit] == ["acre", "s"]'
expect_json "${wanted[@]}"
# No call of acre waits for the 50 ms of another stream.
expect_in_one_run '[.results[] | select(.case == "busy") | .who, .unit, .value < 45] == ["acre", "ms", true]' \
    "$no_gpu" ACRE_SOFT_BYTES=64MiB "$acre" bench pool --device soft --quick --json
if ! is_sanitized; then
    run "$no_gpu" "$acre" bench pool --device soft --quick
    expect_rc 0
    expect_out '^pool +pair 65536 +malloc .* ns/pair .*[0-9]x (faster|slower)$| as fast$'
    # Selected cases. The long-tailed mix takes as much as fits on the device and is the same each
    # time.
    run "$no_gpu" ACRE_SOFT_BYTES=3GiB "$acre" bench pool --case frag --device soft --json
    expect_rc 0
    expect_err 'suite pool: frag limited to 1.5 GiB live, not 40 GiB: the device has 3 GiB free'
    expect_json '[.results[] | [.suite, .case, .who, .unit]]
        == [["pool", "frag", "acre", "ratio"], ["pool", "frag", "acre", "ns/op"],
            ["pool", "frag, lag 1000", "acre", "ratio"], ["pool", "frag, lag 1000", "acre", "ns/op"]]'
    expect_json '.results[0].value >= 1 and .results[0].value < 2.01 and .results[1].value > 0'
    ratio=$(jq '.results[0].value' "$out")
    run "$no_gpu" ACRE_SOFT_BYTES=3GiB "$acre" bench pool --case frag --case cross-stream --json
    expect_rc 0
    expect_json "[.results[] | select(.case == \"frag\") | .value][0] == $ratio"
    expect_json '[.results[].case] == ["cross-stream", "frag", "frag", "frag, lag 1000", "frag, lag 1000"]'
    run "$no_gpu" ACRE_SOFT_BYTES=1GiB "$acre" bench pool --case drift --device soft --json
    expect_rc 0
    expect_err 'suite pool: drift skipped: it needs 24 GiB of free device memory'
    run "$no_gpu" ACRE_SOFT_BYTES=30GiB "$acre" bench pool --case drift --quick --device soft --json
    expect_rc 0
    expect_json '[.results[].case] | unique
        == ["drift", "drift, lag 1000", "drift, lag 100000", "drift, synchronised, 16MiB live: held"]'
    run "$no_gpu" ACRE_SOFT_BYTES=1GiB "$acre" bench pool --case frag --json
    expect_rc 0
    expect_err 'suite pool: frag skipped: it needs 2 GiB of free device memory'
    expect_json '.results == []'
    run "$no_gpu" "$acre" bench pool --case use --device soft --json
    expect_rc 0
    expect_err 'suite pool: use skipped: it needs a GPU'
    expect_json '.results == []'
    # Each other case by name, with its own results only.
    while read -r name pattern; do
        run "$no_gpu" "$acre" bench pool --case "$name" --device soft --quick --json
        expect_rc 0
        expect_json ".results | length > 0 and all(.case | test(\"$pattern\"))"
    done <<'END'
idle ^idle,
survivors ^survivors:
streams ^(pair.[0-9]+,.)?[0-9]+.(streams|pools).in.turn
trim ^trim.of.
handover ^handover.
END
fi
run "$acre" bench pool --case nothing
expect_rc 64
expect_err "the suite pool has no case 'nothing'"
for words in '--case frag' 'copy --case frag' 'copy pool --case frag'; do
    # shellcheck disable=SC2086 # the words of a command
    run "$acre" bench $words
    expect_rc 64
    expect_err '--case needs exactly one suite'
done

# Little memory: cases that need more are skipped, with a message.
run "$no_gpu" ACRE_SOFT_BYTES=64MiB "$acre" bench pool --quick --json
expect_rc 0
expect_err 'suite pool: pair 67108864 skipped: it needs 128 MiB of free device memory'
expect_err 'suite pool: random 256B..2MiB 1000 live skipped'
expect_err 'suite pool: idle skipped: it needs 512 MiB of free device memory'
expect_json '[.results[].case] | index("pair 2097152") and index("live 1e4") and index("busy")'
run "$no_gpu" ACRE_SOFT_BYTES=16MiB "$acre" bench pool --quick
expect_rc 2
expect_err "suite pool could not be measured: .* bytes requested, .* are free"
if ! is_sanitized; then # without virtual memory mapping
    run "$no_gpu" ACRE_VMM=no "$acre" bench pool --quick --json
    expect_rc 0
fi
for call in cuMemCreate cuStreamGetId cuLaunchHostFunc; do
    run "$no_gpu" "ACRE_FAULT=$call:1:from:999" "$acre" bench pool --quick
    expect_rc 2
    expect_no_out
    expect_err 'suite pool could not be measured'
done

# Blocks inside kernels: every size for each allocator, cold and warm.
if ! is_sanitized; then
    of_suite heap
    expect_err 'suite heap: driver skipped: a soft device has no device-side malloc'
    want_json 'all(.results[]; (.value > 0 or .who == "bump")
        and (.who | IN("acre", "floor", "bump", "malloc", "acre made large")))'
    for size in 16B 64B 256B 1KiB 4KiB 8KiB mixed; do
        want_json "[.results[] | select(.case == \"alloc $size 2^8\" and .unit == \"us\") | .who]
            == [\"acre\", \"floor\", \"bump\"]"
        for step in 'alloc cold' free 'free cold'; do
            want_json "[.results[] | select(.case == \"$step $size 2^8\" and .unit == \"us\") | .who]
                == [\"acre\", \"floor\"]"
        done
        # shellcheck disable=SC2016 # $v is jq's
        want_json '(.results | map({(.case + " " + .who): .value}) | add) as $v
            | ($v["alloc '"$size"' 2^8 acre"] / $v["alloc '"$size"' 2^8 bump"]
                - $v["alloc / bump '"$size"' 2^8 acre"]) | fabs < 1e-6'
    done
    for size in 64B 1KiB mixed; do
        want_json "[.results[] | select(.case == \"churn $size 2^8\" and .unit == \"M pairs/s\") | .who]
            == [\"acre\", \"floor\"]"
    done
    # A heap can be filled, emptied and filled again; a bump pointer only once.
    for size in 1KiB 8KiB; do
        want_json "[.results[] | select(.case == \"fill share $size\" and .unit == \"share\")
            | [.who, .value > 0.9]] == [[\"acre\", true], [\"bump\", true]]"
        want_json "[.results[] | select(.case == \"fill again share $size\")
            | [.who, .value > 0.9]] == [[\"acre\", true], [\"bump\", false]]"
        want_json "[.results[] | select(.case == \"NULL when full $size 2^8\") | .who, .unit]
            == [\"acre\", \"ms\"]"
        want_json "[.results[] | select(.case == \"longest NULL $size 2^8\") | .who, .value > 0]
            == [\"acre\", true]"
    done
    want_json '[.results[] | select(.case == "fill again share mixed") | .who, .value > 0.5]
        == ["acre", true]'
    # Memory freed between live blocks is reused.
    want_json '[.results[] | select(.case == "rounds live share 1KiB") | [.who, .value > 0.8]]
        == [["acre", true], ["bump", false]]'
    want_json '[.results[] | select(.case == "grow 8MiB to 16MiB" and .unit == "ms") | .who]
        == ["acre", "acre made large", "floor"]'
    want_json '.results[] | select(.unit == "growths") | .value >= 1'
    want_json '[.results[] | select(.case == "threads 1 mixed" and .unit == "M pairs/s") | .who]
        == ["acre", "malloc", "floor"]'
    expect_json "${wanted[@]}"
fi
expect_heap_chart() {
    check "the chart is well-formed" python3 -c \
        'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$work/heap.svg"
    check "malloc has five curves, free four" test \
        "$(grep -c '</title></polyline>' "$work/heap.svg")" -eq 9
    rm -f "$work/heap.svg"
}
if ! is_sanitized; then
    run "$no_gpu" "$acre" bench heap --case alloc --device soft --quick --chart "$work/heap.svg"
    expect_rc 0
    expect_heap_chart
    check "nothing is skipped" sh -c "! grep 'skipped' '$err'"
    expect_out '^heap +alloc 16B 2\^8 +bump .* us .*[0-9]x (faster|slower)$| as fast$'
    run "$no_gpu" "$acre" bench heap --case driver --device soft --quick --json
    expect_rc 0
    expect_json '.results == []'
    for words in churn rounds; do # with warps of one lane
        run "$no_gpu" ACRE_SOFT_WARP=1 "$acre" bench heap --case "$words" --device soft --quick --json
        expect_rc 0
        expect_json ".results | length > 0 and all(.case | startswith(\"$words \"))"
    done
    run "$no_gpu" "$acre" bench heap --case rounds --case grow --device soft --quick --json
    expect_rc 0
    check "nothing is skipped" sh -c "! grep 'skipped' '$err'"
    expect_json '[.results[].case | split(" ")[0]] | unique == ["grow", "rounds"]'
    # A failed check is reported, and all figures are present.
    run "$no_gpu" ACRE_CHUNK_LIMIT_BYTES=52MiB "$acre" bench heap --case grow --device soft --quick --json
    expect_rc 1
    expect_err 'suite heap: grow 8MiB to 16MiB, acre: [0-9]+ requests got NULL'
    expect_json '[.results[] | select(.unit == "ms") | .who] == ["acre", "acre made large", "floor"]'
fi
run "$acre" bench heap --case frag
expect_rc 64
expect_err "the suite heap has no case 'frag'"
run "$acre" bench pool heap --case alloc
expect_rc 64
expect_err '--case needs exactly one suite'
run "$no_gpu" ACRE_VMM=no "$acre" bench heap --device soft --quick --json
expect_rc 0
expect_err 'suite heap skipped: soft:0 has no virtual memory management for device memory'
expect_json '.results == []'
if ! is_sanitized; then
    run "$no_gpu" ACRE_SOFT_BYTES=28MiB "$acre" bench heap --device soft --case alloc --quick --json \
        --chart "$work/heap.svg"
    expect_rc 0
    expect_heap_chart
    expect_err 'suite heap: alloc 8KiB 2.8 skipped: it needs .* of free device memory'
    expect_json '[.results[].case] | index("alloc 1KiB 2^8") and (index("alloc 8KiB 2^8") | not)'
fi
run "$no_gpu" ACRE_SOFT_BYTES=16MiB "$acre" bench heap --device soft --quick --json
expect_rc 0
for name in 'churn mixed 2.8' 'fill 1KiB' 'rounds 1KiB' 'grow 8MiB to 16MiB' threads; do
    expect_err "suite heap: $name skipped: it needs .* of free device memory"
done
for call in cuMemCreate cuStreamCreate cuEventCreate cuMemsetD8Async; do
    run "$no_gpu" "ACRE_FAULT=$call:1:from:999" "$acre" bench heap --quick
    expect_rc 2
    expect_no_out
    expect_err 'suite heap could not be measured'
done

# Plans: placing, loops and requests.
of_suite plan
expect_no_err
want_json 'all(.results[]; .value > 0 or .unit == "nodes")'
for case in 'tight 150' 'training 2000' 'graph 2000'; do
    for unit in s ratio; do
        want_json "[.results[] | select(.case == \"place $case\" and .unit == \"$unit\") | .who]
            == [\"acre\", \"first fit\", \"best fit\"]"
    done
    # No placement is below the lower bound, and acre needs no more than the others.
    want_json "[.results[] | select(.case == \"place $case\" and .unit == \"ratio\") | .value]
        | .[0] >= 1 and .[0] <= .[1] and .[0] <= .[2]"
    # shellcheck disable=SC2016 # $all and $floor are jq's
    want_json '[.results[] | select(.case == "place '"$case"'")] as $all
        | ($all[] | select(.who == "floor" and .unit == "bytes") | .value) as $floor
        | [$all[] | select(.unit == "ratio") | .value * $floor | round]
            == [$all[] | select(.unit == "bytes" and .who != "floor") | .value]'
done
for case in pairs layers; do
    want_json "[.results[] | select(.case == \"loop $case\" and .unit == \"ns/pair\") | .who]
        == [\"acre\", \"pool\", \"malloc\", \"floor\"]"
    want_json "[.results[] | select(.case == \"loop $case, begin + end\") | .who, .unit]
        == [\"acre\", \"ns/op\"]"
done
want_json '[.results[] | select(.case == "want 1000") | .who]
    == ["acre", "acre at once", "malloc", "floor"]'
want_json '[.results[] | select(.case == "commit 1000" and .unit == "ms") | .who]
    == ["acre", "floor"]'
expect_json "${wanted[@]}"
# Instances and their plans are the same each time.
if ! is_sanitized; then
    plans=$(jq -c '[.results[] | select(.unit | IN("bytes", "nodes")) | .value]' "$out")
    run "$no_gpu" "$acre" bench plan --case place --device soft --quick --json
    expect_rc 0
    expect_json "[.results[] | select(.unit | IN(\"bytes\", \"nodes\")) | .value] == $plans"
    expect_json 'all(.results[]; .case | startswith("place "))'
    run "$no_gpu" "$acre" bench plan --case loop --case want --device soft --quick
    expect_rc 0
    expect_out '^plan +loop pairs +malloc .* ns/pair .*[0-9]x (faster|slower)$| as fast$'
fi
run "$acre" bench plan --case frag
expect_rc 64
expect_err "the suite plan has no case 'frag'; its cases are: place, loop, want$"
run "$no_gpu" ACRE_VMM=no "$acre" bench plan --device soft --quick --json
expect_rc 0
run "$no_gpu" ACRE_SOFT_BYTES=16MiB "$acre" bench plan --device soft --quick --json
expect_rc 0
for name in 'loop pairs' 'loop layers' 'want 1000' 'commit 1000'; do
    expect_err "suite plan: $name skipped: it needs 64 MiB of free device memory"
done
expect_json '.results | length > 0 and all(.case | startswith("place "))'
for call in cuMemCreate cuStreamCreate; do
    run "$no_gpu" "ACRE_FAULT=$call:1:from:999" "$acre" bench plan --quick
    expect_rc 2
    expect_no_out
    expect_err 'suite plan could not be measured'
done

# Little memory: sizes are limited, with a message.
run "$no_gpu" ACRE_SOFT_BYTES=8MiB "$acre" bench copy --quick --json
expect_rc 0
expect_err 'suite copy: sizes limited to 2 MiB: there is not enough memory for more'
expect_json '[.results[].case] | index("h2d pageable 2MiB") and (index("h2d pageable 4MiB") | not)'

# One run writes JSON to a file and the table to stdout.
run "$no_gpu" "$acre" bench pin --quick --output "$work/pin.json"
expect_rc 0
expect_out '^pin +alloc 4KiB +acre '
check_json "the file has the figures" '.schema == "acre-bench/1" and (.results | length == 18)' "$work/pin.json"
run "$no_gpu" "$acre" bench ground --quick --output /nonexistent/file
expect_rc 2
expect_err '^acre: cannot write /nonexistent/file: '
run "$no_gpu" "$acre" bench ground --quick --output /dev/full
expect_rc 2
expect_err '^acre: cannot write /dev/full: No space left'

run "$acre" bench nothing
expect_rc 64
expect_err "there is no suite 'nothing'; the suites are: ground, copy, pin, grow, range, suspend, pool, heap, plan$"

run "$acre" bench --device moon
expect_rc 2
expect_err 'cannot open'

run "$no_gpu" ACRE_FAULT='cuEventRecord:3:from:999' "$acre" bench ground
expect_rc 2
expect_err 'suite ground could not be measured'
for call in cuMemHostAlloc cuMemcpyDtoHAsync cuMemHostRegister cuMemCreate; do
    run "$no_gpu" "ACRE_FAULT=$call:1:from:999" "$acre" bench copy --quick
    expect_rc 2
    expect_no_out
    expect_err 'suite copy could not be measured'
done
run "$no_gpu" ACRE_FAULT='cuMemFreeHost:1:from:999' "$acre" bench pin --quick
expect_rc 2
expect_err 'suite pin could not be measured'

finish
