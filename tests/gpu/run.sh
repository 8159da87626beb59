#!/usr/bin/env bash
# Builds acre on a machine with a GPU, runs areas of its tests there and prints a table at the end.
#
#   tests/gpu/run.sh [AREA...]      all areas by default
#
# The script downloads nothing. Development packages that the machine lacks may be unpacked in .sysroot/
# at the root of the tree. Skipped tests count as failures, since this machine must have a GPU.
#
# An area is a function area_<name> below and a word in `areas`. Its time limit is AREA_SECONDS. It calls
# ctest_step, memcheck_step and bench_step; each adds one line to the table.
#
# If TORCH_DIR names a folder with work.py and acre_torch.c, the area pool also compares PyTorch on acre
# with PyTorch on its default allocator. The area torch runs that comparison only. The area plug runs
# tests/gpu/torch_suite.py, with work.py if TORCH_DIR has it; the area run measures PyTorch under acre run with it.
set -uo pipefail

areas=(ground kinds grow pool heap plan suspend cuda run python models cpp)
AREA_SECONDS=360
# Time for the rounds of the PyTorch comparison, and the limit for the whole comparison.
TORCH_SECONDS=280
TORCH_MOST_SECONDS=420
# Limit for one program under compute-sanitizer, far above what any of them needs.
PROGRAM_SECONDS=120

self=$(realpath "$0")
root=$(cd "$(dirname "$self")/../.." && pwd)
build=$root/build/gpu
cd "$root" || exit 2

# Device, streams and events, the driver's results, the tool. Tests of the other areas are excluded.
area_ground() {
    ctest_step "tests" 'unit|conformance|api|fault|model|cli|examples|gpu'
    memcheck_step "memcheck" 'conformance|api|gpu'
}

# Regular expressions that match the names of an area's tests.
about_kinds='mem|copy|copies|kinds|pages|book|staging'
about_grow='vec|extent|chunk|range|steps|vm|share|realloc|grow|space|uses'
about_pool='pool|device_limits|realloc_strategies|tags|oom|ladder'
about_suspend='suspend|spill|sparse|kv_cache'
about_plan='plan(_loop|_misuse|_model|_plants|$)|test_place|test_cli_plan($|_trace)|wishes'

# Memory of every kind, and copies.
area_kinds() {
    ctest_step "tests" 'unit|conformance|api|fault|model|cli|examples|gpu' \
        "$about_kinds|conformance|bench|cli_info|cli_demo"
    memcheck_step "memcheck" 'api|examples|gpu' 'mem|copy|copies|kinds'
    bench_step copy
    bench_step pin
    bench_step ground
}

# Memory that grows in place: spaces, vecs, realloc, sharing, memory by hand.
area_grow() {
    ctest_step "tests" 'unit|conformance|api|fault|model|cli|examples|gpu' "$about_grow"
    memcheck_step "memcheck" 'api|examples|gpu' "$about_grow"
    bench_step grow --chart "$build/bench-grow.svg"
    [ -z "${OUT:-}" ] || cp "$build/bench-grow.svg" "$OUT/"
}

# Memory in stream order. The benchmark runs all cases, including those that need a GPU.
area_pool() {
    ctest_step "tests" 'unit|conformance|api|fault|model|cli|examples|gpu' \
        "$about_pool|bench|cli_demo|cli_replay"
    memcheck_step "memcheck" 'api|examples|gpu' "$about_pool"
    bench_step pool
    [ ! -d "${TORCH_DIR:-}" ] || torch_step "torch"
}

# Only PyTorch on acre's pool. This area does not run by default, since the area pool includes it.
area_torch() {
    torch_step "torch"
}

# acre.torch and acre.saver with the installed PyTorch. Does not run by default: not every machine has it.
area_plug() {
    suite_step "torch suite"
}

# Programs of libraries over PyTorch and JAX, on acre. Does not run by default: not every machine has them.
area_libraries() {
    script_step "programs" python3 tests/gpu/library_suite.py "$build" --output "${OUT:-$build}/libraries.json"
}

# Malloc and free inside kernels. Unit tests are left out: they run on the soft device, where all kernels
# of test_gpu_heap run too. memcheck does not see memory that is mapped after a kernel began, so it does
# not run programs whose kernels wait for such memory. It runs one form of the kernels: with all three, and
# with the tests that only compile, six minutes are not enough.
area_heap() {
    ctest_step "tests" 'api|cli|examples|gpu' 'heap'
    program_step "cupy" python3 examples/heap_cupy.py "$build/libacre.so" "$build/include/acre_heap_rtc.h"
    bench_step heap --chart "$build/bench-heap.svg"
    [ -z "${OUT:-}" ] || cp "$build/bench-heap.svg" "$OUT/"
    memcheck_step "memcheck" 'api|examples|gpu' \
        'test_gpu_heap(_room)?$|test_heap_(debug|dropin|limits|misuse)$|heap_(linked_list|.*dropin)_gpu$'
    ACRE_TEST_ONLY='heap_groups*' sanitizer_step racecheck "racecheck" gpu 'test_gpu_heap$'
    ACRE_TEST_ONLY='heap_lanes*' sanitizer_step synccheck "synccheck" gpu 'test_gpu_heap$'
}

# Memory planned in advance. The placer itself needs no device and is tested on the build machine.
# The problem instances in ../shared are not on this machine; they need no GPU.
area_plan() {
    ctest_step "tests" 'unit|api|fault|model|cli|examples|gpu' "$about_plan"
    memcheck_step "memcheck" 'api|examples|gpu' "$about_plan"
    bench_step plan
}

# Memory that leaves the device and comes back, sparse ranges, and `acre suspend` of other programs.
area_suspend() {
    ctest_step "tests" 'unit|api|fault|model|examples|gpu' "$about_suspend"
    memcheck_step "memcheck" 'api|examples|gpu' 'test_(gpu_)?suspend$|test_spill|test_sparse|suspend$|kv_cache'
    bench_step suspend
    bench_step range
    script_step "programs" python3 tests/gpu/suspend_programs.py "$build"
}

# CUDA's own calls, in three parts. The stand-in libraries, which need no GPU. The stand-ins' tests on
# NVIDIA's libraries, which must pass there too. The programs of examples/cuda on NVIDIA's libraries,
# which must print what they print on the stand-ins, without leaks.
area_cuda() {
    ctest_step "stand-ins" 'standin|conformance'
    native_step "native"
    programs_step "programs"
    programs_step "memcheck" "$memcheck" --tool memcheck --leak-check full --error-exitcode 9 \
        --report-api-errors no --target-processes all --log-file "$build/programs-memcheck.log"
}

# Programs that cannot be changed, under `acre run`.
area_run() {
    script_step "programs" bash tests/gpu/run_programs.sh "$build"
}

# Python: CuPy, Numba and JAX on acre, and arrays that they and PyTorch share with it.
area_python() {
    script_step "frameworks" python3 tests/gpu/python_suite.py "$build"
    script_step "arrays" python3 tests/gpu/python_arrays.py "$build"
}

# Models of PyTorch with each allocator. Not in the area python: together they may exceed its time limit.
area_models() {
    script_step "models" python3 tests/gpu/models/models_compare.py "$build"
}

# The C++ API: its tests and examples, and Thrust and kernels on the GPU, with figures.
area_cpp() {
    ctest_step "tests" 'cpp|examples' 'cpp'
    script_step "programs" bash tests/gpu/cpp/cpp_programs.sh "$build"
}

# ---- steps ---------------------------------------------------------------------------------------

# row WHAT PASSED FAILED SKIPPED SECONDS: one line of the table, for the current area.
row() { printf '%-10s %-12s %7s %7s %8s %8s\n' "$area" "$@" >>"$ROWS"; }

# Prints the area's time limit, which is longer if the area includes the PyTorch comparison.
area_seconds() {
    case $area in
    torch) echo "$TORCH_MOST_SECONDS" ;;
    pool) [ -d "${TORCH_DIR:-}" ] && echo $((AREA_SECONDS + TORCH_MOST_SECONDS)) || echo "$AREA_SECONDS" ;;
    run) [ -d "${TORCH_DIR:-}" ] && echo $((AREA_SECONDS + 150)) || echo "$AREA_SECONDS" ;;
    *) echo "$AREA_SECONDS" ;;
    esac
}

# Prints a pattern of the tests that the area excludes. Names of heap tests match other areas' patterns by
# chance (oom in room, grow in grows), so only the area heap runs them and a failure is reported once. The
# area ground runs all tests that no other area runs; with more it would exceed its time limit. The area
# pool excludes the longest tests that use the soft device only, the area suspend one that takes four minutes
# on a GPU.
left_out() {
    case $area in
    heap) echo '^$' ;;
    ground) echo "heap|plan|bench|cli_demo|cli_replay|$about_kinds|$about_grow|$about_pool|$about_plan|$about_suspend" ;;
    pool) echo 'heap|model|plants|counted|sandbox|races' ;;
    suspend) echo 'heap|counted_spill' ;;
    *) echo heap ;;
    esac
}

# ctest_step WHAT LABELS [NAMES]: runs all tests that match one of the labels and one of the names
# (regular expressions).
ctest_step() {
    local what=$1 labels=$2 names=${3:-.} begin=$SECONDS rc=0 report=$build/junit-$area-$1.xml
    rm -f "$report"
    ctest --test-dir "$build" -L "^($labels)\$" -R "$names" -E "$(left_out)" -j "$(nproc)" --output-junit "$report" \
        --output-on-failure --no-label-summary --no-tests=error || rc=$?
    local tests failed skipped
    tests=$(count "$report" tests)
    failed=$(count "$report" failures)
    skipped=$(($(count "$report" skipped) + $(count "$report" disabled)))
    # A missing report, or an error of ctest itself, is a failure too.
    [ $rc -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
    local passed=$((tests - failed - skipped))
    row "$what" $((passed > 0 ? passed : 0)) "$failed" "$skipped" $((SECONDS - begin))
}

# count REPORT ATTRIBUTE: prints a number from ctest's report, or 0 if the report lacks it.
count() {
    local number
    number=$(grep -o "$2=\"[0-9]*\"" "$1" 2>/dev/null | head -n 1 | tr -dc 0-9)
    echo "${number:-0}"
}

# memcheck_step WHAT LABELS [NAMES]: runs the programs of these tests again, under compute-sanitizer.
memcheck_step() { sanitizer_step memcheck "$@"; }

# sanitizer_step TOOL WHAT LABELS [NAMES]: as memcheck_step, with the given tool of compute-sanitizer.
# memcheck does not report failed API calls, since the tests provoke them. Tests that provoke a device
# fault have the label "devicefault" and do not run here.
sanitizer_step() {
    local tool=$1 what=$2 labels=$3 names=${4:-.} begin=$SECONDS
    local passed=0 failed=0 skipped=0 name words rc began log=$build/$1.log
    local -a options=(--tool "$tool" --error-exitcode 9 --target-processes all)
    [ "$tool" != memcheck ] || options+=(--report-api-errors no)
    if [ -z "$memcheck" ]; then
        echo "compute-sanitizer is neither on the PATH nor in /usr/local/cuda/bin"
        row "$what" 0 1 0 0
        return
    fi
    while IFS=$'\t' read -r name words; do
        local -a variables=() command=()
        eval "$words"
        rc=0
        began=$SECONDS
        timeout -k 10 "$PROGRAM_SECONDS" env "${variables[@]}" \
            ACRE_TEST_MEMCHECK=1 "$memcheck" "${options[@]}" --require-cuda-init no \
            "${command[@]}" </dev/null >"$log" 2>&1 || rc=$?
        case $rc in
        0) passed=$((passed + 1)) ;;
        77) skipped=$((skipped + 1)) ;;
        *)
            failed=$((failed + 1))
            tail -n 60 "$log"
            ;;
        esac
        echo "$tool $name: exit code $rc after $((SECONDS - began)) s"
    done < <(test_commands "$labels" devicefault "$names")
    [ $((passed + failed + skipped)) -gt 0 ] || failed=1
    row "$what" "$passed" "$failed" "$skipped" $((SECONDS - begin))
}

# program_step WHAT COMMAND...: runs a program that exits with 0 if all is well.
program_step() {
    local what=$1 begin=$SECONDS failed=0
    shift
    timeout "$PROGRAM_SECONDS" "$@" </dev/null || failed=1
    row "$what" $((1 - failed)) "$failed" 0 $((SECONDS - begin))
}

# script_step WHAT COMMAND...: runs a program whose last line is "passed P failed F skipped S". What it prints also
# goes to build/gpu/AREA-WHAT.log and, if OUT names a folder, there too: it may have figures.
script_step() {
    local what=$1 begin=$SECONDS log rc=0
    shift
    log=$build/$area-${what// /_}.log
    "$@" 2>&1 | tee "$log" ${OUT:+"$OUT/${log##*/}"} || rc=$?
    counted_row "$what" "$log" "$rc" $((SECONDS - begin))
}

# counted_row WHAT LOG EXIT-STATUS SECONDS: a row with the counts at the end of LOG. A program that fails without
# counting a failure, for example at its exit, counts as one.
counted_row() {
    local passed failed skipped
    read -r passed failed skipped < <(sed -n 's/^passed \([0-9]*\) failed \([0-9]*\) skipped \([0-9]*\)$/\1 \2 \3/p' "$2" | tail -n 1)
    case $3 in
    0 | 77) ;;
    *) [ "${failed:-0}" -gt 0 ] || failed=1 ;;
    esac
    row "$1" "${passed:-0}" "${failed:-1}" "${skipped:-0}" "$4"
}

# native_step WHAT: runs the stand-ins' tests, compiled with the toolkit's headers and linked with its
# libraries. It leaves out test_runtime_faults, since only a stand-in can inject faults. Cases that only a
# stand-in can pass skip themselves (tests/standin/on_standin.h).
native_step() {
    local what=$1 begin=$SECONDS passed=0 failed=0 source name program rc
    local cmocka_include cmocka_library
    cmocka_include=$(sed -n 's/^ACRE_CMOCKA_INCLUDE:PATH=//p' "$build/CMakeCache.txt")
    cmocka_library=$(sed -n 's/^ACRE_CMOCKA_LIBRARY:FILEPATH=//p' "$build/CMakeCache.txt")
    local -a flags=(-O2 -D_GNU_SOURCE -Wno-deprecated-declarations -I tests -I "$cmocka_include"
        -isystem "$toolkit/include")
    local -a libraries=("-Wl,-rpath,$toolkit/lib64" -L "$toolkit/lib64" -lcudart
        -L "$toolkit/lib64/stubs" -lcuda "$cmocka_library" -pthread)
    mkdir -p "$build/native"
    for source in tests/standin/test_runtime_*.c tests/standin/test_driver_*.c; do
        name=$(basename "$source" .c)
        [ "$name" != test_runtime_faults ] || continue
        program=$build/native/$name
        rc=0
        cc "${flags[@]}" -o "$program" "$source" "${libraries[@]}" &&
            timeout -k 10 "$PROGRAM_SECONDS" "$program" </dev/null >"$program.out" 2>&1 || rc=$?
        echo "$what $name: exit code $rc"
        if [ $rc -eq 0 ]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            tail -n 60 "$program.out"
        fi
    done
    row "$what" "$passed" "$failed" 0 $((SECONDS - begin))
}

# programs_step WHAT [PREFIX...]: builds the programs of examples/cuda with nvcc and the shared runtime,
# runs them on the GPU with PREFIX before the command, and compares their output with tests/data/cuda.
programs_step() {
    local what=$1 begin=$SECONDS passed=0 failed=0 source name program
    local -a flags
    shift
    mkdir -p "$build/native"
    for source in examples/cuda/*.c examples/cuda/*.cpp; do
        name=$(basename "${source%.*}")
        program=$build/native/$name
        flags=(-O2 -cudart shared -L "$toolkit/lib64/stubs" -Xlinker "-rpath=$toolkit/lib64")
        [ "${source##*.}" = c ] || flags+=(-std=c++17)
        if { [ "$program" -nt "$source" ] || nvcc "${flags[@]}" -o "$program" "$source" -lcuda; } &&
            timeout -k 10 "$PROGRAM_SECONDS" "$@" "$program" >"$program.out" </dev/null &&
            diff "tests/data/cuda/$name.txt" "$program.out"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "$what $name: failed"
            [ $# -eq 0 ] || tail -n 40 "$build/programs-memcheck.log"
        fi
    done
    row "$what" "$passed" "$failed" 0 $((SECONDS - begin))
}

# torch_step WHAT: compares PyTorch on its default allocator and on acre (tests/gpu/torch_compare.py) and
# prints a table. The JSON goes to build/gpu/torch.json and, if OUT names a folder, there too.
torch_step() {
    local what=$1 begin=$SECONDS rc=0 folder=${TORCH_DIR:-} file=$build/torch.json
    echo
    if [ ! -f "$folder/work.py" ] || [ ! -f "$folder/acre_torch.c" ]; then
        echo "torch: TORCH_DIR ('$folder') is not a folder with work.py and acre_torch.c"
        row "$what" 0 1 0 0
        return
    fi
    cc -O2 -shared -fPIC -I include -o "$build/libplug.so" "$folder/acre_torch.c" -L "$build" -lacre \
        "-Wl,-rpath,$build" -pthread &&
        timeout -k 10 "$TORCH_MOST_SECONDS" python3 tests/gpu/torch_compare.py "$folder" \
            "$build/libplug.so" --seconds "$TORCH_SECONDS" --output "$file" || rc=$?
    [ -z "${OUT:-}" ] || [ ! -f "$file" ] || cp "$file" "$OUT/"
    case $rc in
    0) row "$what" 1 0 0 $((SECONDS - begin)) ;;
    77) row "$what" 0 0 1 $((SECONDS - begin)) ;;
    *) row "$what" 0 1 0 $((SECONDS - begin)) ;;
    esac
}

# suite_step WHAT: tests/gpu/torch_suite.py, whose last line has its counts. The JSON goes to
# build/gpu/torch-suite.json and, if OUT names a folder, there too.
suite_step() {
    local what=$1 begin=$SECONDS log=$build/torch_suite.log file=$build/torch-suite.json rc=0
    local -a options=("$build" --output "$file")
    if [ -n "${TORCH_DIR:-}" ]; then
        if [ ! -f "$TORCH_DIR/work.py" ]; then
            echo "$what: TORCH_DIR ('$TORCH_DIR') is not a folder with work.py"
            row "$what" 0 1 0 0
            return
        fi
        options+=(--work "$TORCH_DIR")
    fi
    python3 tests/gpu/torch_suite.py "${options[@]}" 2>&1 | tee "$log" || rc=$?
    [ -z "${OUT:-}" ] || [ ! -f "$file" ] || cp "$file" "$OUT/"
    counted_row "$what" "$log" "$rc" $((SECONDS - begin))
}

# bench_step SUITE [OPTION...]: runs a benchmark suite and prints its figures. The JSON goes to
# build/gpu/bench-SUITE.json and, if OUT names a folder, there too.
bench_step() {
    local suite=$1 begin=$SECONDS file=$build/bench-$1.json
    shift
    echo
    if timeout -k 10 "$AREA_SECONDS" "$build/acre" bench "$suite" --device cuda --output "$file" "$@"; then
        [ -z "${OUT:-}" ] || cp "$file" "$OUT/"
        row "bench $suite" 1 0 0 $((SECONDS - begin))
    else
        row "bench $suite" 0 1 0 $((SECONDS - begin))
    fi
}

# test_commands LABELS NOT-LABELS NAMES: prints a line for each test: its name, a tab, and shell
# assignments of two arrays, variables and command.
test_commands() {
    ctest --test-dir "$build" -L "^($1)\$" -LE "^($2)\$" -R "$3" -E "$(left_out)" --show-only=json-v1 | python3 -c '
import json, shlex, sys
for test in json.load(sys.stdin)["tests"]:
    properties = {p["name"]: p["value"] for p in test["properties"]}
    variables = shlex.join(properties.get("ENVIRONMENT", []))
    command = shlex.join(test["command"])
    print(test["name"], f"variables=({variables}) command=({command})", sep="\t")
'
}

# ---- machine -------------------------------------------------------------------------------------

# Adds .sysroot to the search paths of pkg-config, CMake, the shell and the dynamic linker.
use_sysroot() {
    local sysroot=$root/.sysroot arch
    [ -d "$sysroot" ] || return 0
    arch=$(cc -dumpmachine)
    export PKG_CONFIG_SYSROOT_DIR=$sysroot
    export PKG_CONFIG_LIBDIR=$sysroot/usr/lib/$arch/pkgconfig:$sysroot/usr/share/pkgconfig
    export CMAKE_PREFIX_PATH=$sysroot/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
    export LD_LIBRARY_PATH=$sysroot/usr/lib/$arch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    # For libraries that the linker scripts of others name.
    export LIBRARY_PATH=$sysroot/usr/lib/$arch${LIBRARY_PATH:+:$LIBRARY_PATH}
    export PATH=$PATH:$sysroot/usr/bin
}

build_all() {
    local generator="Unix Makefiles"
    if command -v ninja >/dev/null; then generator=Ninja; fi
    # CMake cannot reuse a build folder of another generator.
    if ! grep -qx "CMAKE_GENERATOR:INTERNAL=$generator" "$build/CMakeCache.txt" 2>/dev/null; then
        rm -rf "$build"
    fi
    # Builds kernels for this GPU only, which takes a third of the time.
    local arch
    arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -dc 0-9)
    cmake -S "$root" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        ${arch:+-DACRE_CUDA_ARCHS=$arch} -DACRE_WERROR=ON -DACRE_TESTS=ON -DACRE_GPU_TESTS=ON &&
        cmake --build "$build" --parallel "$(nproc)"
}

export PATH=$PATH:/usr/local/cuda/bin
memcheck=$(command -v compute-sanitizer)
toolkit=$(dirname "$(dirname "$(realpath "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")
# A test that finds no GPU fails instead of skipping.
export ACRE_REQUIRE_CUDA=1

if [ "${1:-}" = --inside ]; then
    area=$2
    "area_$area"
    exit 0
fi

for area in "$@"; do
    if ! declare -F "area_$area" >/dev/null; then
        echo "usage: tests/gpu/run.sh [area...]; the areas are: ${areas[*]}" >&2
        exit 64
    fi
done
[ $# -eq 0 ] || areas=("$@")

use_sysroot
mkdir -p "$build"
ROWS=$(mktemp)
export ROWS
trap 'rm -f "$ROWS"' EXIT

area=build
begin=$SECONDS
if build_all; then
    row all 1 0 0 $((SECONDS - begin))
    for area in "${areas[@]}"; do
        begin=$SECONDS
        rc=0
        # A separate process, so that the time limit ends everything it started.
        timeout -k 10 "$(area_seconds)" bash "$self" --inside "$area" || rc=$?
        [ $rc -eq 0 ] || row "stopped ($rc)" 0 1 0 $((SECONDS - begin))
    done
else
    row all 0 1 0 $((SECONDS - begin))
fi

printf '\n%-10s %-12s %7s %7s %8s %8s\n' area what passed failed skipped seconds
cat "$ROWS"
# Columns are counted from the right, because "what" may contain blanks.
awk '$(NF - 2) + $(NF - 1) > 0 { bad = 1 } END { exit bad }' "$ROWS"
