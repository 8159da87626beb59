#!/usr/bin/env bash
# libacre.so has the USDT probes that src/watch/probes.h names, where the build has sys/sdt.h.
set -uo pipefail
library=${ACRE_BUILD:?}/libacre.so
wanted=$(sed -nE 's/.*DTRACE_PROBE[0-9]\(acre, ([a-z_]+).*/\1/p' "${ACRE_SOURCE:?}/src/watch/probes.h" | sort -u)
found=$(readelf -nW "$library" | grep -A1 'Provider: acre$' | sed -n 's/.*Name: //p' | sort -u)
[ -n "$wanted" ] || { echo "src/watch/probes.h names no probes"; exit 1; }
if ! echo '#include <sys/sdt.h>' | ${CC:-cc} -E - >/dev/null 2>&1; then
    [ -z "$found" ] || { echo "probes without sys/sdt.h: $found"; exit 1; }
    echo "sys/sdt.h is not installed: no probes"
    exit 0
fi
[ "$found" = "$wanted" ] || { printf 'probes wanted:\n%s\nfound:\n%s\n' "$wanted" "$found"; exit 1; }
