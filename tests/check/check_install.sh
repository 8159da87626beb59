#!/usr/bin/env bash
# Installs the build into an empty folder and uses it as a user would: C and C++ programs through
# pkg-config and find_package, the static library, and the tool. check_subproject.sh tests projects
# that contain acre as a folder.
set -euo pipefail

: "${ACRE_BUILD:?}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
prefix=$tmp/prefix

# Uses the same compiler and CMake that built the library.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$ACRE_BUILD/CMakeCache.txt"; }
cmake=$(cached CMAKE_COMMAND)
cc=$(cached CMAKE_C_COMPILER)

quietly() { "$@" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }; }

DESTDIR='' quietly "$cmake" --install "$ACRE_BUILD" --prefix "$prefix"

cat >"$tmp/stranger.c" <<'C'
#include <acre.h>
#include <stdio.h>
int main(void) {
    acre_device *device = NULL;
    acre_status status = acre_open("soft", NULL, &device);
    if (status == ACRE_OK)
        status = acre_close(device);
    printf("%s: %s\n", acre_version(), acre_status_text(status));
    return status == ACRE_OK ? 0 : 1;
}
C
# The header is included twice, with strict flags: a public header must not warn.
{ echo '#include <acre.h>'; cat "$tmp/stranger.c"; } >"$tmp/stranger.cpp"

echo "pkg-config:"
pc_file=$(find "$prefix" -name acre.pc)
[ -n "$pc_file" ] || { echo "no acre.pc was installed"; exit 1; }
pc_dir=$(dirname "$pc_file")
# Replaces the search path, so that pkg-config finds no other acre on this machine.
read -ra cflags < <(PKG_CONFIG_LIBDIR=$pc_dir PKG_CONFIG_SYSROOT_DIR='' pkg-config --cflags acre)
read -ra libs < <(PKG_CONFIG_LIBDIR=$pc_dir PKG_CONFIG_SYSROOT_DIR='' pkg-config --libs acre)
lib_dir=$(PKG_CONFIG_LIBDIR=$pc_dir PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=libdir acre)
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror "${cflags[@]}" "$tmp/stranger.c" "${libs[@]}" \
    -o "$tmp/by_pkg_config"
LD_LIBRARY_PATH=$lib_dir "$tmp/by_pkg_config"

echo "static library:"
"$cc" "${cflags[@]}" "$tmp/stranger.c" "$lib_dir/libacre.a" -pthread -o "$tmp/by_archive"
"$tmp/by_archive"

echo "C++:"
c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror "${cflags[@]}" "$tmp/stranger.cpp" "${libs[@]}" \
    -o "$tmp/by_cpp"
LD_LIBRARY_PATH=$lib_dir "$tmp/by_cpp"

echo "each header by itself:"
for header in "$prefix"/include/*.h "$prefix"/include/acre/*.h; do
    "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c "$header"
    c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ "$header"
done

echo "find_package:"
version=$(PKG_CONFIG_LIBDIR=$pc_dir pkg-config --modversion acre)
cat >"$tmp/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.22)
project(stranger LANGUAGES C CXX)
find_package(acre $version REQUIRED)
foreach(language c cpp)
    foreach(library acre acre_static)
        add_executable(\${language}_\${library} stranger.\${language})
        target_link_libraries(\${language}_\${library} PRIVATE acre::\${library})
    endforeach()
endforeach()
CMAKE
quietly "$cmake" -S "$tmp" -B "$tmp/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc"
quietly "$cmake" --build "$tmp/build"
for program in c_acre c_acre_static cpp_acre cpp_acre_static; do
    "$tmp/build/$program"
done

# Only the tool and the runtime stand-in, whose driver is beside it, have a library path. The tool
# has none if the dynamic linker finds the library anyway.
echo "paths to libraries:"
# paths ROOT: the files below ROOT that have a RUNPATH or an RPATH.
paths() {
    local file
    find "$1" -type f \( -name 'lib*.so*' -o -path '*/bin/*' \) | sort | while read -r file; do
        readelf -d "$file" | sed -n "s:.*(\(R.*PATH\)).*\[\(.*\)\]:$(basename "$file") \1 \2:p"
    done
}
same() { diff <([ $# -lt 2 ] || printf '%s\n' "${@:2}") <(paths "$1") || { echo "in $1"; exit 1; }; }
to_libraries=$(realpath -m --relative-to="$prefix/bin" "$lib_dir")
runtime="libcudart.so.13 RPATH \$ORIGIN"
tool=$prefix/bin/acre # ACRE_TOOL=OFF skips the tool, ACRE_STANDINS=OFF the stand-ins
[ -d "$lib_dir/acre/soft" ] || runtime=
[ ! -x "$tool" ] || same "$prefix" "acre RUNPATH \$ORIGIN/$to_libraries" ${runtime:+"$runtime"}
DESTDIR=$tmp/root quietly "$cmake" --install "$ACRE_BUILD" --prefix /usr
same "$tmp/root" ${runtime:+"$runtime"}
echo "no path of the tool with the prefix /usr"

if [ ! -x "$tool" ]; then
    echo "this build has no tool"
    exit 0
fi
echo "tool:"
env -u LD_LIBRARY_PATH "$tool" --version

if [ -z "$runtime" ]; then
    echo "this build has no stand-ins"
    exit 0
fi
echo "stand-ins:"
cat >"$tmp/asks.c" <<'C'
int cuInit(unsigned);
int cuDeviceGetCount(int *);
int main(void) {
    int count = 0;
    return cuInit(0) || cuDeviceGetCount(&count) || count != 3;
}
C
"$cc" "$tmp/asks.c" -L "$lib_dir/acre/soft" -lcuda -o "$tmp/asks"
env -u LD_LIBRARY_PATH -u ACRE_SOFT_LIBRARIES ACRE_SOFT_DEVICES=3 \
    "$tool" run --device soft --stats -- "$tmp/asks"

echo "CUDA's calls:"
cat >"$tmp/stranger_cuda.c" <<'C'
#include <cuda_runtime.h>
#include <stdio.h>
int main(void) {
    void *p;
    cudaError_t error = cudaMalloc(&p, 1000);
    if (error == cudaSuccess)
        error = cudaFree(p);
    printf("%s\n", cudaGetErrorName(error));
    return error != cudaSuccess;
}
C
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$prefix/include/acre/soft" \
    "$tmp/stranger_cuda.c" -L"$lib_dir/acre/soft" -Wl,-rpath-link="$lib_dir/acre/soft" -lcudart \
    -o "$tmp/by_run"
env -u LD_LIBRARY_PATH "$tool" run --device soft --leaks -- "$tmp/by_run"
