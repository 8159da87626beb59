#!/usr/bin/env bash
# Installs the build into an empty folder and uses it as a user would: C and C++ programs through
# pkg-config and find_package with their components, the static library, and the tool.
# check_subproject.sh tests projects that contain acre as a folder.
set -euo pipefail

: "${ACRE_BUILD:?}" "${ACRE_SOURCE:?}"
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
# The component cpp has the C++ API, and asks for C++17.
{
    echo 'static_assert(__cplusplus >= 201703L, "C++17");'
    cat "$ACRE_SOURCE/examples/cpp/tour.cpp"
} >"$tmp/modern.cpp"
# The component heap: kernels on the soft device, in C.
cp "$ACRE_SOURCE/examples/heap_per_thread.c" "$tmp/kernels.c"
{ echo '#include <acre_heap.hpp>'; cat "$tmp/stranger.c"; } >"$tmp/kernels.cpp"

echo "pkg-config:"
pc_file=$(find "$prefix" -name acre.pc)
[ -n "$pc_file" ] || { echo "no acre.pc was installed"; exit 1; }
pc_dir=$(dirname "$pc_file")
# Replaces the search path, so that pkg-config finds no other acre on this machine.
ask() { PKG_CONFIG_LIBDIR=$pc_dir PKG_CONFIG_SYSROOT_DIR='' pkg-config "$@"; }
read -ra cflags < <(ask --cflags acre)
read -ra libs < <(ask --libs acre)
lib_dir=$(ask --variable=libdir acre)
strict=(-Wall -Wextra -Wpedantic -Werror)
# build NAME MODULE SOURCE COMPILER FLAG...: a program with the flags of a pkg-config module, and runs it.
build() {
    local name=$1 module=$2 source=$3 flags
    shift 3
    echo "$module, $(basename "$source"):"
    read -ra flags < <(ask --cflags --libs "$module")
    "$@" "${strict[@]}" "$source" "${flags[@]}" -o "$tmp/$name"
    LD_LIBRARY_PATH=$lib_dir quietly "$tmp/$name"
    tail -n 1 "$tmp/log"
}
build by_acre acre "$tmp/stranger.c" "$cc" -std=c11
build by_cpp acre-cpp "$tmp/modern.cpp" c++ -std=c++17
build by_heap acre-heap "$tmp/kernels.c" "$cc" -std=c11
build by_heap_cpp acre-heap "$tmp/kernels.cpp" c++ -std=c++17

echo "static library:"
"$cc" "${cflags[@]}" "$tmp/stranger.c" "$lib_dir/libacre.a" -pthread -o "$tmp/by_archive"
"$tmp/by_archive"
# A program without any shared library. glibc's linker warns about dlopen. Nothing but the option of
# acre.pc refers to the words for `acre suspend`.
read -ra static_flags < <(ask --static --cflags --libs acre-cpp)
quietly "$cc" -static "$tmp/stranger.c" "${static_flags[@]}" -o "$tmp/all_static"
"$tmp/all_static"
nm "$tmp/all_static" | grep ' acre__suspend_words$' >/dev/null ||
    { echo "pkg-config --static omits the option for acre suspend"; exit 1; }

echo "C++ with the flags of acre:"
c++ -std=c++17 "${strict[@]}" "${cflags[@]}" "$tmp/stranger.cpp" "${libs[@]}" -o "$tmp/plain_cpp"
LD_LIBRARY_PATH=$lib_dir "$tmp/plain_cpp"

echo "each header by itself:"
headers=("$prefix"/include/*.h "$prefix"/include/acre/*.h)
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c "${headers[@]}"
c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ "${headers[@]}"

echo "find_package:"
version=$(ask --modversion acre)
cat >"$tmp/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.22)
project(stranger LANGUAGES C CXX)
# acre::cpp and acre::heap raise them.
set(CMAKE_C_STANDARD 99)
set(CMAKE_CXX_STANDARD 11)
# A component that acre does not have: required it fails with a reason, optional it is not found.
find_package(acre $version QUIET COMPONENTS cpp wheels)
if(acre_FOUND OR TARGET acre::acre)
    message(FATAL_ERROR "find_package(acre COMPONENTS wheels) succeeds")
endif()
if(NOT acre_NOT_FOUND_MESSAGE MATCHES "no component \"wheels\"; it has cpp and heap")
    message(FATAL_ERROR "find_package(acre COMPONENTS wheels) gives no reason: \${acre_NOT_FOUND_MESSAGE}")
endif()
find_package(acre $version REQUIRED COMPONENTS cpp heap OPTIONAL_COMPONENTS wheels)
if(NOT acre_FOUND OR NOT acre_cpp_FOUND OR NOT acre_heap_FOUND OR acre_wheels_FOUND)
    message(FATAL_ERROR "components: \${acre_FOUND} \${acre_cpp_FOUND} \${acre_heap_FOUND} \${acre_wheels_FOUND}")
endif()
foreach(language c cpp)
    foreach(library acre acre_static)
        add_executable(\${language}_\${library} stranger.\${language})
        target_link_libraries(\${language}_\${library} PRIVATE acre::\${library})
    endforeach()
    add_executable(\${language}_heap kernels.\${language})
    target_link_libraries(\${language}_heap PRIVATE acre::heap)
endforeach()
add_executable(cpp_cpp modern.cpp)
target_link_libraries(cpp_cpp PRIVATE acre::cpp)
CMAKE
quietly "$cmake" -S "$tmp" -B "$tmp/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc"
quietly "$cmake" --build "$tmp/build" --parallel "$(nproc)"
for program in c_acre c_acre_static cpp_acre cpp_acre_static cpp_cpp cpp_heap; do
    "$tmp/build/$program"
done
quietly "$tmp/build/c_heap"
tail -n 1 "$tmp/log"
printf 'find_package(acre REQUIRED COMPONENTS wheels)\n' >"$tmp/refused.cmake"
! "$cmake" "-Dacre_DIR=$lib_dir/cmake/acre" -P "$tmp/refused.cmake" >"$tmp/log" 2>&1 ||
    { echo "find_package(acre REQUIRED COMPONENTS wheels) succeeds"; exit 1; }
tr -s ' \n' '  ' <"$tmp/log" | grep 'acre has no component "wheels"' >/dev/null ||
    { cat "$tmp/log"; echo "find_package(acre REQUIRED COMPONENTS wheels) gives no reason"; exit 1; }

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
