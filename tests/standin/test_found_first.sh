#!/usr/bin/env bash
# The programs of this folder and the runtime stand-in load the stand-ins, not libraries of the same
# names in LD_LIBRARY_PATH. On many machines with a GPU that variable leads to NVIDIA's.
set -euo pipefail

: "${ACRE_BUILD:?the build folder, set by ctest}"
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$ACRE_BUILD/CMakeCache.txt")
programs=$ACRE_BUILD/tests/standin
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# No program can start with these libraries.
echo 'int other;' >"$tmp/other.c"
for name in libcuda.so.1 libcudart.so.13; do
    "$cc" -shared -fPIC "-Wl,-soname,$name" "$tmp/other.c" -o "$tmp/$name"
done
export LD_LIBRARY_PATH=$tmp${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

rc=0
for program in test_runtime_error test_driver_find; do
    "$programs/$program" >"$tmp/log" 2>&1 || {
        echo "found_first: $program exited with $?"
        tail -n 5 "$tmp/log"
        rc=1
    }
done

# A program linked only with the runtime: the runtime finds the driver.
cat >"$tmp/asks.c" <<'end'
int cudaGetDeviceCount(int *count);
int main(void) {
    int count = 0;
    return cudaGetDeviceCount(&count) || count != 1;
}
end
if ! grep -q '^ACRE_SANITIZE:[A-Z]*=.' "$ACRE_BUILD/CMakeCache.txt"; then
    "$cc" "$tmp/asks.c" "$ACRE_BUILD/soft/libcudart.so.13" -o "$tmp/asks" -Wl,--as-needed \
        -Wl,--allow-shlib-undefined "-Wl,--disable-new-dtags,-rpath,$ACRE_BUILD/soft"
    "$tmp/asks" || {
        echo "found_first: a program linked only with the runtime exited with $?"
        rc=1
    }
fi
exit "$rc"
