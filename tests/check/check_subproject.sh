#!/usr/bin/env bash
# acre inside another project, with add_subdirectory and with FetchContent: C and C++ programs link
# acre::acre, acre::acre_static, acre::heap, and C++ programs acre::cpp. acre changes no target or variable of the project, and builds
# only the library. Then `make install` and `make uninstall` from that build, with PREFIX, LIBDIR
# and DESTDIR; and a configuration without jansson.
set -euo pipefail

: "${ACRE_BUILD:?}" "${ACRE_SOURCE:?}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Uses the same compiler and CMake that built the library.
cached() { sed -n "s/^$1:[A-Z]*=//p" "${2:-$ACRE_BUILD}/CMakeCache.txt"; }
cmake=$(cached CMAKE_COMMAND)
launcher=$(cached CMAKE_C_COMPILER_LAUNCHER)
PATH=$(dirname "$cmake"):$PATH
options=(-G "$(cached CMAKE_GENERATOR)" "-DCMAKE_C_COMPILER=$(cached CMAKE_C_COMPILER)"
    ${launcher:+"-DCMAKE_C_COMPILER_LAUNCHER=$launcher"})

fail() {
    echo "check_subproject: $1"
    exit 1
}
quietly() { "$@" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; fail "$*"; }; }
# Variables of the caller's environment must not affect the test.
unset DESTDIR PREFIX LIBDIR TOOL MAKEFLAGS MAKELEVEL

# ---- a project with targets, variables and modules whose names acre might use --------------------

mkdir -p "$tmp/project/modules"
cd "$tmp/project"
for module in flags find cuda tool standin examples_cuda install tests; do
    echo "message(FATAL_ERROR \"acre included the project's ${module}.cmake\")" >modules/$module.cmake
done
cat >program.c <<'C'
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
cp program.c program.cpp
{
    echo 'static_assert(__cplusplus >= 201703L, "C++17");'
    cat "$ACRE_SOURCE/examples/cpp/tour.cpp"
} >modern.cpp
cp "$ACRE_SOURCE/examples/heap_per_thread.c" kernels.c
# acre_heap_rtc.h is for NVRTC and has to exist only.
{
    printf '#include <acre_heap.hpp>\n#if !__has_include(<acre_heap_rtc.h>)\n#error no acre_heap_rtc.h\n#endif\n'
    cat program.c
} >kernels.cpp
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(project VERSION 7.1 LANGUAGES C CXX)
include(GNUInstallDirs)
set(CMAKE_MODULE_PATH ${CMAKE_CURRENT_SOURCE_DIR}/modules)
# acre::cpp and acre::heap raise them.
set(CMAKE_C_STANDARD 99)
set(CMAKE_CXX_STANDARD 11)
foreach(target man examples product tool tests bench demo objects flags coverage abi uninstall)
    add_custom_target(${target})
endforeach()
foreach(target test_pool example_wishes conformance run_cases)
    add_executable(${target} EXCLUDE_FROM_ALL program.c)
endforeach()

function(remember list)
    get_cmake_property(names VARIABLES)
    list(FILTER names INCLUDE REGEX "^(CMAKE_|BUILD_|PROJECT_)")
    set(values "")
    foreach(name IN LISTS names)
        if(NOT name MATCHES "^CMAKE_(CURRENT_FUNCTION.*|MATCH_.*)$")
            string(REPLACE ";" " " value "${${name}}")
            list(APPEND values "${name}=${value}")
        endif()
    endforeach()
    set(${list} "${values}" PARENT_SCOPE)
endfunction()
get_cmake_property(cache_before CACHE_VARIABLES)
remember(before)
if(FETCH)
    include(FetchContent)
    FetchContent_Declare(acre SOURCE_DIR ${ACRE_DIR})
    FetchContent_MakeAvailable(acre)
else()
    add_subdirectory(${ACRE_DIR} acre)
    remember(after)
    list(REMOVE_ITEM after ${before})
    list(FILTER after EXCLUDE REGEX "^CMAKE_C_LINK.*PIE_SUPPORTED=")
    if(after)
        message(FATAL_ERROR "acre changed variables of the project: ${after}")
    endif()
endif()
get_cmake_property(cache_after CACHE_VARIABLES)
list(REMOVE_ITEM cache_after ${cache_before})
list(FILTER cache_after EXCLUDE REGEX "^(ACRE_|acre_|FETCHCONTENT_)")
list(FILTER cache_after EXCLUDE REGEX "^CMAKE_C_LINK.*PIE_SUPPORTED$") # result of CMake's own check
if(cache_after AND NOT ACRE_TOOL) # the tool searches for libraries with pkg-config
    message(FATAL_ERROR "acre has cache variables without its name: ${cache_after}")
endif()
if(CMAKE_BUILD_TYPE)
    message(FATAL_ERROR "acre set CMAKE_BUILD_TYPE to ${CMAKE_BUILD_TYPE}")
endif()

get_property(targets DIRECTORY ${ACRE_DIR} PROPERTY BUILDSYSTEM_TARGETS)
if(ACRE_TOOL)
    list(FILTER targets EXCLUDE REGEX "^acre_")
else()
    list(FILTER targets EXCLUDE REGEX "^acre_(objects|pure_objects|shared|static|cpp|heap|flags|product|examples)$")
endif()
get_property(tests DIRECTORY ${ACRE_DIR} PROPERTY TESTS)
if(targets OR tests)
    message(FATAL_ERROR "acre defines more than its library: ${targets} ${tests}")
endif()

foreach(language c cpp)
    add_library(compiles_${language} OBJECT EXCLUDE_FROM_ALL program.${language})
    target_link_libraries(compiles_${language} PRIVATE acre::acre)
    add_executable(${language}_heap kernels.${language})
    target_link_libraries(${language}_heap PRIVATE acre::heap)
    foreach(library acre acre_static)
        add_executable(${language}_${library} program.${language})
        target_link_libraries(${language}_${library} PRIVATE acre::${library})
    endforeach()
endforeach()
add_executable(cpp_cpp modern.cpp)
target_link_libraries(cpp_cpp PRIVATE acre::cpp)
add_library(compiles_components OBJECT EXCLUDE_FROM_ALL modern.cpp)
target_link_libraries(compiles_components PRIVATE acre::cpp acre::heap)
CMAKE

echo "FetchContent:"
quietly "$cmake" -S . -B "$tmp/fetch" "${options[@]}" "-DACRE_DIR=$ACRE_SOURCE" -DFETCH=ON \
    -DFETCHCONTENT_FULLY_DISCONNECTED=ON
# Compiled, not linked: the library is built once, below.
quietly "$cmake" --build "$tmp/fetch" --target compiles_c compiles_cpp compiles_components
echo "add_subdirectory:"
quietly "$cmake" -S . -B "$tmp/all" "${options[@]}" "-DACRE_DIR=$ACRE_SOURCE" -DACRE_TOOL=AUTO \
    -DACRE_STANDINS=ON -DACRE_KERNELS=ON -DACRE_INSTALL=ON
quietly "$cmake" -S . -B "$tmp/build" "${options[@]}" "-DACRE_DIR=$ACRE_SOURCE" -DACRE_INSTALL=ON
quietly "$cmake" --build "$tmp/build" --parallel "$(nproc)"
for program in c_acre c_acre_static cpp_acre cpp_acre_static cpp_cpp cpp_heap; do
    "$tmp/build/$program"
done
quietly "$tmp/build/c_heap"
! readelf -d "$tmp/build/c_acre_static" | grep 'libacre' >/dev/null || fail "acre::acre_static links libacre.so"

# ---- make install, make uninstall ----------------------------------------------------------------

echo "make install:"
# install_as PREFIX LIBDIR: installs below $tmp/target and prints the folder of the libraries.
install_as() {
    quietly make -C "$ACRE_SOURCE" BUILD="$tmp/build" install PREFIX="$1" ${2:+LIBDIR="$2"} \
        DESTDIR="$tmp/target"
    (cd "$tmp/target" && dirname "$(find . -name libacre.a)" | sed 's:^\.::')
}
remove_from() {
    quietly make -C "$ACRE_SOURCE" BUILD="$tmp/build" uninstall PREFIX="$1" DESTDIR="$tmp/target"
    grep -q '^Removed from .* files' "$tmp/log" || fail "make uninstall prints no summary"
    [ ! -e "$tmp/target" ] || { find "$tmp/target"; fail "make uninstall left the files above"; }
}
# expect WANTED PREFIX [LIBDIR]
expect() {
    local got
    got=$(install_as "$2" "${3:-}")
    [ "$got" = "$1" ] || fail "PREFIX=$2 LIBDIR=${3:-} put libraries into $got instead of $1"
    remove_from "$2"
}
# The folder that CMake chooses for a prefix, from a separate project.
cat >"$tmp/ask.cmake" <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(ask C)
include(GNUInstallDirs)
message(STATUS "LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR}")
CMAKE
mkdir "$tmp/ask"
mv "$tmp/ask.cmake" "$tmp/ask/CMakeLists.txt"
for prefix in /usr /opt/acre; do
    wanted=$("$cmake" -S "$tmp/ask" -B "$tmp/ask$prefix" "${options[@]}" \
        "-DCMAKE_INSTALL_PREFIX=$prefix" | sed -n 's/^-- LIBDIR //p')
    [ -n "$wanted" ] || fail "CMake printed no library folder"
    expect "$wanted" $prefix
    usr_wanted=${usr_wanted:-$wanted}
done
expect /usr/lib /usr lib # lib is the default of the previous prefix
expect /usr/lib/deep/er /usr/ /usr/lib/deep/er
expect "$usr_wanted" /usr # LIBDIR of an earlier call is not kept

echo "make uninstall:"
install_as /prefix/one >/dev/null
install_as /prefix/two >/dev/null
one=$tmp/target/prefix/one
mkdir -p "$one/share/doc/acre"
touch "$one/include/others.h" "$one/share/doc/acre/notes"
rm "$one/include/acre.h"
quietly make -C "$ACRE_SOURCE" BUILD="$tmp/build" uninstall PREFIX=/prefix/one DESTDIR="$tmp/target"
grep -q "^-- Not there: $one/include/acre.h" "$tmp/log" || fail "make uninstall does not report a missing file"
grep -q "^-- Left, not empty: $one/include" "$tmp/log" || fail "make uninstall does not report the folders it left"
left=$(cd "$one" && find . -not -type d | sort | paste -sd ' ')
[ "$left" = "./include/others.h ./share/doc/acre/notes" ] || fail "make uninstall left $left"
[ -f "$tmp/target/prefix/two/include/acre.h" ] || fail "make uninstall removed files of another prefix"
! make -C "$ACRE_SOURCE" BUILD="$tmp/build" uninstall PREFIX=/prefix/one DESTDIR="$tmp/target" \
    >"$tmp/log" 2>&1 || fail "make uninstall succeeds without an installation"
grep -q "no record of an installation in $one" "$tmp/log" || fail "make uninstall does not say why it removed nothing"
quietly make -C "$ACRE_SOURCE" BUILD="$tmp/build" uninstall PREFIX=/prefix/two DESTDIR="$tmp/target"
[ ! -e "$tmp/target/prefix/two" ] || fail "make uninstall left files of the second prefix"

# ---- jansson and zlib ----------------------------------------------------------------------------

echo "without jansson:"
# A variable that is set but empty counts as not found.
without=("${options[@]}" -DACRE_TESTS=OFF -DACRE_JANSSON_LIBRARY= -DACRE_Z_INCLUDE=)
quietly "$cmake" -S "$ACRE_SOURCE" -B "$tmp/without" "${without[@]}"
grep -q 'tool acre is not built: jansson (libjansson-dev) and zlib (zlib1g-dev) not found' "$tmp/log" ||
    fail "CMake does not say why the tool is not built"
! "$cmake" --build "$tmp/without" --target help | grep acre_cli >/dev/null || fail "the tool has a target although it cannot be built"
! "$cmake" -S "$ACRE_SOURCE" -B "$tmp/on" "${without[@]}" -DACRE_TOOL=ON >"$tmp/log" 2>&1 ||
    fail "ACRE_TOOL=ON succeeds without jansson"
grep -q 'libjansson is not installed' "$tmp/log" || fail "CMake does not say what the tool lacks"
quietly "$cmake" -S "$ACRE_SOURCE" -B "$tmp/off" "${without[@]}" -DACRE_TOOL=OFF
! grep -q jansson "$tmp/log" || fail "ACRE_TOOL=OFF looks for jansson"
