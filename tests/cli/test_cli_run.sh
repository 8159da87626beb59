#!/usr/bin/env bash
# acre run: programs on the soft device keep their exit codes; its messages at exit and at a fault;
# how it finds the libraries; and usage errors.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

cases=$ACRE_BUILD/tests/standin/run_cases
# A sanitizer's library may load after the stand-ins, and leaves faults to the program.
export ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0:handle_segv=0"
export TSAN_OPTIONS="${TSAN_OPTIONS:-}:handle_segv=0:atexit_sleep_ms=0"

soft() { run "$acre" run --device soft "$@"; }

# ---- exit codes and messages ----

soft -- "$cases" clean
expect_rc 0
expect_no_out
expect_no_err
soft "$cases" clean 3
expect_rc 3
expect_no_err

soft --stats --leaks --bytes 64MiB -- "$cases" clean
expect_rc 0
expect_no_out
expect_plain
expect_err '^acre: allocations: 3, 2 MiB in all; freed: 3; refused: 0; at most 2 MiB at a time; copied: 1 MiB$'
expect_err '^  memory +made +freed +refused +at most +left$'
expect_err '^  device +1 +1 +0 +1 MiB +0 bytes$'
expect_err '^  pinned +1 +1 +0 +1 MiB +0 bytes$'
expect_err '^  managed +1 +1 +0 +4 KiB +0 bytes$'
expect_err '^acre: everything was freed$'
check "five lines and one more" test "$(wc -l <"$err")" -eq 6

# With --leaks, leaks change exit code 0 to 1, and no other code.
soft --leaks -- "$cases" leak
expect_rc 1
expect_err '^acre: not freed: 6$'
expect_err '^ +2\.9 KiB +3  device +cudaMalloc +0x[0-9a-f]+ +run_cases\+0x[0-9a-f]+ \([a-z_]+ at run_cases\.c:[0-9]+\)$'
expect_err '^ +4\.9 KiB +1  pinned +cudaMallocHost +0x[0-9a-f]+ +run_cases\+0x[0-9a-f]+ \([a-z_]+ at run_cases\.c:[0-9]+\)$'
expect_err '^ +8 MiB +1  addresses +cuMemAddressReserve +0x[0-9a-f]+ +run_cases\+0x[0-9a-f]+ \([a-z_]+ at run_cases\.c:[0-9]+\)$'
expect_err '^ +2 MiB +1  mapped +cuMemMap +0x[0-9a-f]+ +run_cases\+0x[0-9a-f]+ \([a-z_]+ at run_cases\.c:[0-9]+\)$'
check "largest first" test "$(awk '/run_cases/ { print $(NF - 5) }' "$err" | paste -sd' ')" = \
    'cuMemAddressReserve cuMemMap cudaMallocHost cudaMalloc'
if command -v addr2line >/dev/null && ! is_sanitized; then
    at=$(sed -n 's/.*cudaMalloc .*run_cases+//p' "$err")
    check "the address is the line" grep -q cudaMalloc \
        <(sed -n "$(addr2line -e "$cases" "$at" | sed 's/.*:\([0-9]*\).*/\1/')p" \
            "$ACRE_SOURCE/tests/standin/run_cases.c")
fi
soft --leaks -- "$cases" leak 3
expect_rc 3
expect_err '^acre: not freed: 6$'
soft --stats -- "$cases" leak
expect_rc 0
expect_err '^  chunks +1 +0 +0 +2 MiB +2 MiB$'
soft -- "$cases" leak
expect_rc 0
expect_no_err

soft --leaks --stats -- "$cases" chunks
expect_rc 0
expect_err '^acre: everything was freed$'
expect_err '^  chunks +3 +3 +0 +2 MiB +0 bytes$'
expect_err '^  mapped +3 +3 +0 +2 MiB +0 bytes$'
expect_err '^  addresses +1 +1 +0 +8 MiB +0 bytes$'
soft --leaks --stats -- "$cases" ordered
expect_rc 1
expect_err '^  in stream order +3 +2 +0 +1 MiB +4\.9 KiB$'
expect_err '^  pools +2 +1 +0 +0 bytes +0 bytes$'
expect_err '^acre: not freed: 2$'
expect_err '^ +4\.9 KiB +1  in stream order +cudaMallocFromPoolAsync +0x'
expect_err '^ +0 bytes +1  pools +cudaMemPoolCreate +0x'
soft --leaks -- "$cases" exit-handler
expect_rc 0
expect_err '^acre: everything was freed$'
soft --leaks --stats -- "$cases" wrong-free
expect_rc 1
expect_err '^acre: not freed: 1$'
expect_err '^  device +1 +0 +1 +4 KiB +4 KiB$'
soft --leaks -- "$cases" reset
expect_rc 1
expect_err '^acre: not freed: 2$'
expect_err 'cudaMalloc .*run_cases\+0x[0-9a-f]+ \([a-z_]+ at run_cases\.c:[0-9]+\) \(until its context ended\)$'
expect_err 'cudaMemPoolCreate .*run_cases\+0x[0-9a-f]+ \([a-z_]+ at run_cases\.c:[0-9]+\) \(until its context ended\)$'
soft --leaks --stats -- "$cases" threads
expect_rc 0
expect_err '^acre: everything was freed$'

soft --leaks -- "$cases" free-twice
expect_rc 0
expect_err '^acre: everything was freed$'

soft --leaks -- "$cases" graph
expect_rc 0
expect_err '^acre: everything was freed$'
soft --leaks -- "$cases" no-bytes
expect_rc 0
expect_err '^acre: everything was freed$'
soft -- "$cases" other-names
expect_rc 0
soft -- "$cases" cancel
expect_rc 0

# A trace names the program's own code, not the runtime that calls the driver for it. It comes from the
# shim, which cannot be loaded with a sanitizer.
if ! is_sanitized; then
    soft --trace names.acre -- "$cases" leak
    run "$acre" trace names.acre
    expect_out 'run_cases\+0x[0-9a-f]+'
    check "the runtime is no owner" test "$(grep -c libcudart "$out")" -eq 0
fi
# A trace that cannot be written is refused before the program runs.
echo text >foreign.txt
for file in nofolder/x.acre foreign.txt . -; do
    soft --trace "$file" -- touch ran
    check "refused: $file, $rc" test "$rc" -eq 2 -o "$file" = - -a "$rc" -eq 64
done
mkfifo pipe
for file in /dev/null pipe ''; do
    soft --trace "$file" -- touch ran
    check "refused: $file, $rc" test "$rc" -eq 2 -o -z "$file" -a "$rc" -eq 64
done
check "nothing ran" test ! -e ran
check "the file is unchanged" test "$(cat foreign.txt)" = text
soft --force --trace foreign.txt -- ./no-such-program
expect_rc 127
check "the file is unchanged" test "$(cat foreign.txt)" = text
if ! is_sanitized; then
    soft --force --trace foreign.txt -- "$cases" leak
    run "$acre" trace foreign.txt
    expect_rc 0
fi
for options in --watch "--device cuda"; do
    # shellcheck disable=SC2086 # options are words
    run "$acre" run $options -- touch ran
    if [ -e /dev/nvidiactl ]; then continue; fi
    expect_rc 2
    expect_err "^acre: $options needs a GPU, and NVIDIA's driver has no device here "
    check "nothing ran" test ! -e ran
done

soft --leaks --stats -- "$cases" nothing
expect_rc 0
expect_err '^acre: run_cases has not used CUDA$'
soft -- "$cases" nothing
expect_err '^acre: run_cases has not used CUDA$'
if ! is_sanitized; then # sanitizer libraries cannot load late into a program without them
    soft -- bash -c "'$cases' nothing; true" # the shell may run programs that use CUDA
    expect_no_err
fi

# ---- features that the soft device does not have ----

soft -- "$cases" kernel
expect_rc 0
expect_err '^acre: cuModuleGetFunction: kernels need a GPU'
check "said once" test "$(grep -c 'cuModuleGetFunction' "$err")" -eq 1
soft -- "$cases" ipc
expect_rc 0
expect_err '^acre: the soft device does not have cuIpcOpenMemHandle; share memory with cuMemExportToShareableHandle$'
soft -- "$cases" others
expect_rc 2 # all its calls were refused, one of which it needs
check "each said once" test "$(wc -l <"$err")" -eq 4
expect_err '^acre: run_cases could not use CUDA$'
expect_err '^acre: the soft device does not have cuGraphCreate$'
expect_err '^acre: .* -cudart shared'
expect_err '^acre: cuMemFree without a suffix .* cuMemFree_v2'

# NVIDIA's runtime, if installed, cannot work with the driver stand-in.
include=$(sed -n 's/^ACRE_CUDA_INCLUDE:[A-Z]*=//p' "$ACRE_BUILD/CMakeCache.txt")
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$ACRE_BUILD/CMakeCache.txt")
static=$(find -L "$include/../lib64" "$include/../lib" -maxdepth 1 -name libcudart_static.a 2>/dev/null |
    head -n 1)
if [ -n "$static" ] && ! is_sanitized; then
    printf '%s\n' 'int cudaFree(void *);' 'int main(void) { return cudaFree(0) != 0; }' >static.c
    check "a program" "$cc" static.c "$static" -o static -ldl -lrt -lpthread -lstdc++
    soft -- ./static
    expect_rc 1
    check "said once" test "$(wc -l <"$err")" -eq 2
    expect_err '^acre: static could not use CUDA$'
    expect_err '^acre: the program contains its own CUDA runtime .* -cudart shared'
fi

# A statically linked program gets no libraries, but programs that it starts do.
printf '%s\n' '#include <stdio.h>' 'int main(void) { return puts("ran") < 0; }' >plain.c
for flags in -static -static-pie; do
    if ! "$cc" plain.c "$flags" -o plain 2>/dev/null; then
        continue # no libc for this option
    fi
    for program in ./plain plain; do
        run PATH="$work:$PATH" "$acre" run --device soft -- "$program"
        expect_rc 0
        expect_out '^ran$'
        expect_err "^acre: $program is linked statically: .*; link it dynamically$"
    done
    for bytes in 0 4 20 63 64 100 200 400; do
        head -c "$bytes" plain >part # not executable, so that it is only parsed
        soft -- ./part
        check "not run" test "$rc" -eq 126 -o "$rc" -eq 2
    done
done
mkfifo pipe && chmod +x pipe
soft -- ./pipe
expect_rc 126
if ! is_sanitized; then # sanitizer libraries cannot load late into a program without them
    for flags in -no-pie -pie; do
        check "a program" "$cc" plain.c "$flags" -o plain
        run PATH="$work:$PATH" "$acre" run --device soft -- plain
        expect_rc 0
        expect_out '^ran$'
    done
    loader=$(readelf -lW plain | sed -n 's/.*program interpreter: \(.*\)]/\1/p')
    soft -- "$loader" "$work/plain"
    expect_rc 0
    expect_out '^ran$'
fi

# ---- faults ----

soft --stats -- "$cases" fault-device
expect_rc 139
expect_out '^now$'
expect_err '^acre: the host touched 0x[0-9a-f]+, which is device memory: byte 16 of 4096 from cudaMalloc, called at run_cases\+0x[0-9a-f]+$'
# The message has no line, as a signal handler prints it: acre symbolize finds the line.
cp "$err" fault.txt
run bash -c 'cd "$(dirname "$0")" && exec "$1" symbolize "$2"' "$cases" "$acre" "$work/fault.txt"
expect_out ', called at do_fault_device at .*run_cases\.c:[0-9]+$'
soft -- "$cases" fault-reserved
expect_rc 139
expect_err 'an address with no memory mapped to it: byte 4096 of 8388608 from cuMemAddressReserve, '
soft -- "$cases" fault-freed
expect_rc 139
expect_err '^acre: the host touched 0x[0-9a-f]+, which was freed by cudaFreeHost, called at run_cases\+0x[0-9a-f]+: byte 16 of 4096 from cudaMallocHost, called at run_cases\+0x[0-9a-f]+$'
soft -- "$cases" fault-reset
expect_rc 139
expect_err ', which was freed with its context: byte 16 of 4096 from cudaMallocHost, called at run_cases\+0x[0-9a-f]+$'
soft -- "$cases" fault-mapped
expect_rc 139
expect_out '^mapped$'
soft -- "$cases" fault-other
expect_rc 139
check "nothing about other faults" test "$(grep -c '^acre:' "$err")" -eq 0

# ---- several processes ----

soft --stats --leaks -- "$cases" fork-after
expect_rc 0
check "the child says nothing" test "$(grep -c '^acre: ' "$err")" -eq 2
expect_err '^acre: everything was freed$'
soft --leaks -- "$cases" fork-before
expect_rc 0
expect_err '^acre: process [0-9]+, run_cases:$'
check "both say so" test "$(grep -c '^acre: everything was freed$' "$err")" -eq 2

# ---- refused calls, one after another ----

n=0
while n=$((n + 1)) && [ $n -lt 100 ]; do
    run ACRE_FAULT="*:$n" "$acre" run --device soft --leaks -- "$cases" careful
    expect_no_crash
    ! grep -qx "done" "$out" || break
done
check "a run without a refusal ($n)" grep -qx "done" "$out"
expect_rc 0
check "some were refused" test "$n" -gt 5
run ACRE_FAULT=nonsense "$acre" run --device soft -- "$cases" careful
expect_rc 0
expect_err '^acre: ACRE_FAULT is ignored: .*nonsense'

# ---- settings ----

soft --bytes 4MiB -- "$cases" leak
expect_rc 0
soft --bytes 2MiB -- "$cases" leak
expect_rc 9
expect_out 'cuMemCreate.*: 2$'
run ACRE_SOFT_BYTES=what "$acre" run --device soft -- "$cases" clean
expect_rc 9
expect_err '^acre: the soft device did not start: .*ACRE_SOFT_BYTES'
run ACRE_SOFT_BYTES=what "$acre" run --device soft --bytes 64M -- "$cases" clean
expect_rc 0
soft --device soft:0 -- "$cases" clean
expect_rc 0

# libacre finds the stand-in as it finds the driver.
soft --leaks -- "$acre" info --device cuda --json
expect_rc 0
expect_json '.devices[0].driver == "cuda" and .devices[0].name == "acre soft device"'
expect_err '^acre: everything was freed$'

# ---- finding the libraries ----

run ACRE_SOFT_LIBRARIES="$ACRE_BUILD/soft" "$acre" run --device soft -- "$cases" clean
expect_rc 0
run ACRE_SOFT_LIBRARIES=/nonexistent "$acre" run --device soft -- "$cases" clean
expect_rc 2
expect_err '^acre: ACRE_SOFT_LIBRARIES=/nonexistent: there is no libcuda\.so\.1$'
# Paths that LD_PRELOAD would split.
for name in 'a b' 'a:b' "a\$LIB"; do
    ln -s "$ACRE_BUILD/soft" "$name"
    mkdir -p "in $name"
    cp -L "$ACRE_BUILD"/soft/lib*.so.* "in $name"
    run ACRE_SOFT_LIBRARIES="$name" "$acre" run --device soft -- "$cases" clean
    expect_rc 0
    expect_no_err
    run ACRE_SOFT_LIBRARIES="in $name" "$acre" run --device soft --leaks -- "$cases" clean
    expect_rc 0
    expect_err '^acre: everything was freed$'
done
if ! is_sanitized; then
    # A tool without its libraries, and one with them beside it.
    mkdir tool
    cp "$acre" tool/
    run LD_LIBRARY_PATH="$ACRE_BUILD" tool/acre run --device soft -- "$cases" clean
    expect_rc 2
    expect_err '^acre: libcuda.so.1 and libcudart.so.13 are neither in .*/tool/soft nor in .*; set ACRE_SOFT_LIBRARIES'
    mkdir -p tool/soft
    cp -L "$ACRE_BUILD"/soft/lib*.so.* tool/soft/
    run LD_LIBRARY_PATH="$ACRE_BUILD" tool/acre run --device soft -- "$cases" clean
    expect_rc 0

    # Libraries that were preloaded before stay, and programs without CUDA are not affected.
    # shellcheck disable=SC2016 # for the inner shell
    run LD_PRELOAD=libc.so.6 "$acre" run --device soft -- \
        bash -c 'echo "$LD_PRELOAD"; kill -SEGV $$'
    expect_out "^libc.so.6:.*(/soft|/proc/self/fd/[0-9]+)/libcuda.so.1:.*/libcudart.so.13$"
    expect_rc 139
    soft --stats -- bash -c "'$cases' clean; exit 5"
    expect_rc 5
    expect_err '^acre: process [0-9]+, run_cases:$'

    # An RPATH to another library of that name does not take precedence.
    mkdir other
    echo 'int cudaGetDeviceCount(int *n) { *n = 77; return 0; }' >other.c
    printf '%s\n' 'int cudaGetDeviceCount(int *n);' \
        'int main(void) { int n = 0; cudaGetDeviceCount(&n); return n; }' >asks.c
    check "a library" "$cc" -shared -fPIC -Wl,-soname,libcudart.so.13 other.c -o other/libcudart.so.13
    check "a program" "$cc" asks.c other/libcudart.so.13 -o asks \
        "-Wl,--disable-new-dtags,-rpath,$work/other"
    run ./asks
    expect_rc 77
    soft -- ./asks
    expect_rc 1
fi

# Libraries with these names in LD_LIBRARY_PATH, as on machines with a GPU, do not take precedence
# either: neither for linked libraries nor for dlopen.
mkdir gpu
echo 'int gpu;' >gpu.c
for name in libcuda.so.1 libcudart.so.13; do
    check "a library" "$cc" -shared -fPIC "-Wl,-soname,$name" gpu.c -o "gpu/$name"
    ln -s "$name" "gpu/${name%.so.*}.so"
done
run LD_LIBRARY_PATH="$work/gpu" "$cases" clean
check "found by itself" grep -q "$work/gpu/libcudart.so.13" "$err"
for case in clean other-names; do
    run LD_LIBRARY_PATH="$work/gpu" "$acre" run --device soft -- "$cases" "$case"
    expect_rc 0
    expect_no_err
done

# ---- usage errors ----

run "$acre" run --device soft --help
expect_rc 0
expect_out '^Usage: acre run '
expect_out '--leaks'
expect_out '^  It does not check host code'
expect_out "'acre symbolize ./program\+0x11d8'"
check "no other tool is needed" test "$(grep -c addr2line "$out")" -eq 0
expect_out 'Examples:'
for device in gpu cuda:1 soft:1 ''; do
    run "$acre" run --device "$device" -- "$cases" clean
    expect_rc 2
    expect_no_out
    expect_err '^acre: --device .* is not supported: use cuda, for all GPUs that the program sees, or soft$'
done
run "$acre" run --device auto --device soft -- "$cases" clean # the last one counts
expect_rc 0
expect_no_err
soft
expect_rc 64
expect_err 'no program given'
soft --
expect_rc 64
for bytes in 0 1 what -1 32TiB; do
    soft --bytes "$bytes" -- "$cases" clean
    expect_rc 64
    expect_err '--bytes takes a size'
done
soft --no-such-option -- "$cases" clean
expect_rc 64
soft -- ./nonexistent
expect_rc 127
expect_err '^acre: cannot run ./nonexistent: No such file'
soft -- "$ACRE_SOURCE/README.md"
expect_rc 126

finish
