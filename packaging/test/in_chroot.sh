#!/usr/bin/env bash
# Runs inside the chroot of scripts/test-packages: installs the packages of /srv/debs with apt, uses
# them as users would, and purges them. /srv/test has the programs. Changes the system it runs in.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
[ -e /srv/test/in_chroot.sh ] || { echo "in_chroot.sh: run scripts/test-packages" >&2; exit 64; }
work=$(mktemp -d)
cd "$work"

fail() {
    echo "test-packages: $1"
    exit 1
}
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "$*"; }; }
step() { echo "== $*"; }
# says PATTERN COMMAND...: the command succeeds, and prints a line with the pattern.
says() {
    local pattern=$1
    shift
    quietly "$@"
    grep -qE -- "$pattern" "$work/log" || { cat "$work/log"; fail "$*: no \"$pattern\""; }
}

library=$(cd /srv/debs && echo libacre[0-9]*.deb)
library=${library%%_*}
packages=("$library" libacre-dev acre-tools python3-acre)

step "install"
install() { apt-get install -y --no-install-recommends /srv/debs/*.deb; }
# The chroot may be older than the archive, which then has other versions.
install >"$work/log" 2>&1 || { quietly apt-get update && quietly install; }
for package in "${packages[@]}"; do
    quietly dpkg --verify "$package"
    [ ! -s "$work/log" ] || { cat "$work/log"; fail "$package: files differ from the package"; }
done
dpkg -L "${packages[@]}" | sort -u >"$work/files"

step "C, pkg-config"
read -ra flags < <(pkg-config --cflags --libs acre)
cc /srv/test/package_program.c "${flags[@]}" -o by_pkg_config
says ': success$' ./by_pkg_config
readelf -d by_pkg_config | grep "NEEDED.*libacre\.so\.${library#libacre}]" >/dev/null || fail "by_pkg_config does not need the library"
step "C, static"
read -ra flags < <(pkg-config --static --cflags --libs acre)
quietly cc -static /srv/test/package_program.c "${flags[@]}" -o all_static
says ': success$' ./all_static
step "C++, pkg-config"
read -ra flags < <(pkg-config --cflags --libs acre-cpp)
c++ -std=c++17 /usr/share/doc/libacre-dev/examples/cpp/tour.cpp "${flags[@]}" -o by_cpp
says 'the buffer still has' ./by_cpp
step "C and C++, find_package"
quietly cmake -S /srv/test -B "$work/build"
quietly cmake --build "$work/build"
for program in c_shared c_static; do
    says ': success$' "build/$program"
done
says 'the buffer still has' build/cpp
says 'aligned, separate and freed' build/heap

step "acre doctor, demo, report"
says '^acre [0-9.]+$' acre --version
says 'configuration' acre doctor
quietly acre demo --device soft --output "$work/demo"
[ -s "$work/demo/index.html" ] || fail "acre demo wrote no page"
quietly env ACRE_TRACE="$work/run.trace" ./by_pkg_config
quietly acre report --output "$work/report.html" "$work/run.trace"
grep -q 'uPlot' "$work/report.html" || fail "acre report wrote no page with uPlot"

step "acre run, on the stand-ins"
libraries=$(pkg-config --variable=libdir acre)/acre/soft
cc -I/usr/include/acre/soft /srv/test/package_cuda.c -L"$libraries" -Wl,-rpath-link="$libraries" -lcudart -o cuda
says '^cudaSuccess$' acre run --device soft -- ./cuda
! acre run --device soft --leaks -- ./cuda >"$work/log" 2>&1 || fail "acre run --leaks finds no leak"
grep -q 'not freed: 1' "$work/log" || { cat "$work/log"; fail "acre run --leaks does not report the leak"; }

step "Python"
cat >use.py <<'PYTHON'
import ctypes
import importlib.metadata
import acre
with acre.open("soft", soft_bytes=64 << 20) as device:
    a = device.zeros((16, 16), "float32")
    v = device.vec("float32")
    v.append(a)
    assert len(v) == 256
    for name in ("libacre_python.so", "libacre_torch.so", "libacre_cupy.so"):
        ctypes.CDLL(acre._library.beside(name)[0])
    assert acre.heap_header().endswith("acre_heap_rtc.h")
print("acre", importlib.metadata.version("acre"))
PYTHON
says '^acre [0-9.]+$' python3 use.py
says '^acre [0-9.]+$' python3 -m acre --version

step "man"
says 'acre run' man acre
says 'acre_pool_alloc' man 3 acre
says 'leaks' man acre-run

step "remove and purge"
quietly apt-get purge -y "${packages[@]}"
while read -r path; do
    [ -d "$path" ] || [ ! -e "$path" ] || dpkg -S "$path" >/dev/null 2>&1 || fail "left: $path"
done <"$work/files"
# /tmp and man's pages are of the programs that ran above, not of the packages.
left=$(find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /srv -o -path /tmp -o -path /var/cache/apt \
    -o -path /var/cache/man \) -prune -o -iname '*acre*' -print)
[ -z "$left" ] || fail "left: $left"
rm -rf "$work"
