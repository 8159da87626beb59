#!/usr/bin/env bash
# Exports and dependencies of the stand-ins. libcuda.so.1 has every name of NVIDIA's libcuda: where
# the toolkit is installed, all names of its stub and of its typedef headers, each from its version
# on.
set -euo pipefail

: "${ACRE_BUILD:?}" "${ACRE_SOURCE:?}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
rc=0
fail() {
    echo "check_standin: $1"
    rc=1
}
cuda=$ACRE_BUILD/soft/libcuda.so.1
cudart=$ACRE_BUILD/soft/libcudart.so.13

exports() { nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sort -u; }
dynamic() { readelf -d "$1" | sed -n "s/.*($2).*\[\(.*\)\]/\1/p"; }

# ---- libcuda.so.1: only private symbols have a version; libcudart.so.13: one version for all ----

exports "$cuda" >"$tmp/cuda"
grep -v '^cu[A-Z][A-Za-z0-9_]*$' "$tmp/cuda" >"$tmp/private" || true
printf 'acre_ledger_%s@@ACRE_PRIVATE\n' at_exit closed enter leaked leave opened say_once wrong | diff - "$tmp/private" ||
    fail "libcuda.so.1 does not export exactly cu* and its private symbols"
exports "$cudart" >"$tmp/cudart"
! grep -v '^_*cuda[A-Za-z0-9_]*@@libcudart\.so\.13$' "$tmp/cudart" ||
    fail "libcudart.so.13 exports symbols that are not cuda* of its version"
[ -s "$tmp/cudart" ] || fail "libcudart.so.13 exports nothing"

[ "$(dynamic "$cuda" SONAME)" = libcuda.so.1 ] || fail "the SONAME of libcuda.so.1 is wrong"
[ "$(dynamic "$cudart" SONAME)" = libcudart.so.13 ] || fail "the SONAME of libcudart.so.13 is wrong"
[ "$(dynamic "$cudart" RPATH)" = "\$ORIGIN" ] || fail "the RPATH of libcudart.so.13 is wrong"
dynamic "$cudart" NEEDED | grep -x libcuda.so.1 >/dev/null || fail "libcudart.so.13 does not need libcuda.so.1"
for library in "$cuda" "$cudart"; do
    ! dynamic "$library" NEEDED | grep -Ev '^(libc|libm|ld-linux.*|libcuda)\.so' ||
        fail "$library needs more than libc"
    readelf -d "$library" | grep NODELETE >/dev/null || fail "$library is not linked with -z nodelete"
done

# ---- NVIDIA's names ----

include=$(sed -n 's/^ACRE_CUDA_INCLUDE:[A-Z]*=//p' "$ACRE_BUILD/CMakeCache.txt")
for stub in "$include"/../lib64/stubs/libcuda.so "$include"/../lib/stubs/libcuda.so; do
    [ -f "$stub" ] || continue
    exports "$stub" | comm -23 - "$tmp/cuda" >"$tmp/missing"
    [ ! -s "$tmp/missing" ] || fail "libcuda.so.1 lacks $(paste -sd' ' "$tmp/missing")"
done

if [ -f "$include/cudaTypedefs.h" ]; then
    # Each version of a function is found at its version; just before it, another one or none is.
    cat "$include"/cuda*Typedefs.h | grep -o 'PFN_cu[A-Za-z0-9]*_v[0-9]*\(_pt[ds][sz]\)\?)' | sort -u |
        sed -n 's/PFN_\(.*\)_v\([0-9]*\)\(_pt..\)\{0,1\})/ROW("\1", \2, "\3")/p' |
        grep -v cuWGL >"$tmp/rows"
    cat >"$tmp/rows.c" <<'C'
#include <stdint.h>
#include <stdio.h>
int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status);
static int wrong(const char *name, int version, const char *suffix) {
    void *at = 0, *before = 0;
    int status = 9, flags = *suffix ? 2 : 1;
    if (version > 13000)
        return 0;
    int code = cuGetProcAddress_v2(name, &at, version, (uint64_t)flags, &status);
    cuGetProcAddress_v2(name, &before, version - 10, (uint64_t)flags, 0);
    if (code == 0 && status == 0 && at && at != before)
        return 0;
    printf("%s of %d%s: %d, %d\n", name, version, suffix, code, status);
    return 1;
}
int main(void) {
    int count = 0;
#define ROW(name, version, suffix) count += wrong(name, version, suffix);
#include "rows"
    return count != 0;
}
C
    [ "$(wc -l <"$tmp/rows")" -gt 500 ] || fail "the toolkit's list of types cannot be read"
    cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$ACRE_BUILD/CMakeCache.txt")
    "$cc" "$tmp/rows.c" -I "$tmp" "$cuda" "-Wl,-rpath,$ACRE_BUILD/soft" -o "$tmp/rows_program"
    "$tmp/rows_program" || fail "the functions above have wrong versions"
fi

echo "check_standin: $(wc -l <"$tmp/cuda") names of the driver, $(wc -l <"$tmp/cudart") of the runtime"
exit $rc
