# acre_flags: warnings, hardening and sanitizer flags for every target of the project. Only
# tests and examples use C++ (cmake/cxx.cmake).
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

add_library(acre_flags INTERFACE)
target_compile_options(acre_flags INTERFACE
    -Wall -Wextra -Wshadow -Wconversion -pthread
    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes -Wstrict-prototypes>)
# Constants are members of unnamed enums; clang 19 warns of those in sums with doubles.
target_compile_options(acre_flags INTERFACE $<$<C_COMPILER_ID:Clang>:-Wno-enum-float-conversion>)
target_link_options(acre_flags INTERFACE -pthread LINKER:-z,relro LINKER:-z,now)
if(ACRE_WERROR)
    target_compile_options(acre_flags INTERFACE -Werror)
endif()
# Frame pointers, except in functions that call nothing: ACRE_STACKS=8:fp and profilers walk them through
# the library. The hot path of pools is the same code with and without.
check_c_compiler_flag(-momit-leaf-frame-pointer ACRE_HAS_LEAF_FLAG)
target_compile_options(acre_flags INTERFACE -fno-omit-frame-pointer
    $<$<BOOL:${ACRE_HAS_LEAF_FLAG}>:-momit-leaf-frame-pointer>)
if(ACRE_DEBUG)
    target_compile_definitions(acre_flags INTERFACE ACRE_DEBUG=1)
endif()
if(ACRE_COVERAGE)
    # Atomic counters: the library has threads.
    target_compile_options(acre_flags INTERFACE --coverage -fprofile-update=atomic)
    target_compile_definitions(acre_flags INTERFACE ACRE_COVERAGE=1)
    target_link_options(acre_flags INTERFACE --coverage)
endif()

if(ACRE_SANITIZE STREQUAL "")
    # _FORTIFY_SOURCE needs an optimised build. A level in the user's flags, for example a
    # distribution's, stays; a compiler's default level is replaced.
    if(NOT CMAKE_C_FLAGS MATCHES "_FORTIFY_SOURCE")
        target_compile_options(acre_flags INTERFACE
            "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
    endif()
    foreach(flag stack-protector-strong stack-clash-protection)
        string(MAKE_C_IDENTIFIER "ACRE_HAVE_${flag}" have)
        # With -Werror, clang rejects a flag that it would otherwise report as unused.
        set(CMAKE_REQUIRED_FLAGS -Werror)
        check_c_compiler_flag(-f${flag} ${have})
        unset(CMAKE_REQUIRED_FLAGS)
        if(${have})
            target_compile_options(acre_flags INTERFACE -f${flag})
        endif()
    endforeach()
else()
    set(sanitizer_asan address,undefined)
    set(sanitizer_tsan thread)
    if(NOT DEFINED sanitizer_${ACRE_SANITIZE})
        message(FATAL_ERROR "ACRE_SANITIZE is ${ACRE_SANITIZE}: use asan, tsan or the empty string")
    endif()
    set(flag -fsanitize=${sanitizer_${ACRE_SANITIZE}})
    target_compile_definitions(acre_flags INTERFACE ACRE_SANITIZE_${ACRE_SANITIZE}=1)
    # A sanitizer's runtime is in every one of 300 programs; lld links one in half the time.
    find_program(ACRE_LLD ld.lld)
    if(ACRE_LLD AND CMAKE_C_COMPILER_ID STREQUAL "Clang")
        target_link_options(acre_flags INTERFACE -fuse-ld=lld)
    endif()
    target_compile_options(acre_flags INTERFACE
        ${flag} -fno-sanitize-recover=all)
    target_link_options(acre_flags INTERFACE ${flag})
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # The checks that gcc inserts cause false positives of these warnings.
        target_compile_options(acre_flags INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow)
    endif()
endif()
