# The tests of the C++ API, in tests/cpp: each test_*.cpp is a program that links libacre.so, in C++17.
# Three have rules of their own:
#   test_cpp_plain     compiled with -fno-exceptions
#   test_cpp_edges     links cpp_without.cpp, compiled with -fno-exceptions, and cpp_without_rtti.cpp, compiled
#                      with -fno-rtti, first
#   test_cpp_faults    links the library with test points, and cpp_fault.c, to fail driver calls
# And the programs of examples/cpp, which must exit with 0.
include(cmake/cxx.cmake)
if(NOT CMAKE_CXX_COMPILER OR ACRE_SANITIZE STREQUAL "tsan") # they have one thread
    return()
endif()

set(cpp_warnings $<$<COMPILE_LANGUAGE:CXX>:-Wpedantic> $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)

file(GLOB cpp_tests CONFIGURE_DEPENDS tests/cpp/test_cpp_*.cpp)
list(FILTER cpp_tests EXCLUDE REGEX "/test_cpp_mr_")
foreach(source IN LISTS cpp_tests)
    cmake_path(GET source STEM name)
    add_executable(${name} ${source})
    set_target_properties(${name} PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
        CXX_EXTENSIONS OFF RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/cpp)
    target_compile_options(${name} PRIVATE ${cpp_warnings})
    if(name STREQUAL "test_cpp_plain")
        target_compile_options(${name} PRIVATE -fno-exceptions)
    endif()
    if(name STREQUAL "test_cpp_edges")
        foreach(without IN ITEMS cpp_without cpp_without_rtti)
            add_library(${without} OBJECT tests/cpp/${without}.cpp)
            set_target_properties(${without} PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
            target_link_libraries(${without} PRIVATE acre_shared acre_test_flags)
            # Before the others: the linker keeps the first copy of a function.
            target_link_options(${name} PRIVATE $<TARGET_OBJECTS:${without}>)
            add_dependencies(${name} ${without})
        endforeach()
        target_compile_options(cpp_without PRIVATE -fno-exceptions -O0)
        target_compile_options(cpp_without_rtti PRIVATE -fno-rtti -O0)
        if(ACRE_SANITIZE STREQUAL "asan") # its check of the class of an object needs RTTI
            # Of the sources, since these options come last.
            set_source_files_properties(tests/cpp/cpp_without_rtti.cpp ${source} PROPERTIES
                COMPILE_OPTIONS -fno-sanitize=vptr)
        endif()
    endif()
    if(name STREQUAL "test_cpp_faults")
        target_sources(${name} PRIVATE tests/cpp/cpp_fault.c)
        target_link_libraries(${name} PRIVATE acre_test acre_test_flags)
    else()
        target_link_libraries(${name} PRIVATE acre_shared acre_test_flags)
    endif()
    acre_test_run(${name} cpp $<TARGET_FILE:${name}>)
endforeach()

# Examples are compiled as a user would: no definitions, only the public headers.
file(GLOB cpp_examples CONFIGURE_DEPENDS examples/cpp/*.cpp)
foreach(source IN LISTS cpp_examples)
    cmake_path(GET source STEM stem)
    file(STRINGS ${source} foreign REGEX "^#include <(cuda|thrust|cub|rmm)")
    if(foreign) # needs headers that not every machine has
        continue()
    endif()
    add_executable(example_cpp_${stem} ${source})
    set_target_properties(example_cpp_${stem} PROPERTIES OUTPUT_NAME ${stem}
        CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples/cpp)
    target_compile_options(example_cpp_${stem} PRIVATE -O0 -U_FORTIFY_SOURCE) # a third of the time
    target_link_libraries(example_cpp_${stem} PRIVATE acre_flags acre_shared)
    add_dependencies(acre_examples example_cpp_${stem})
    acre_test_run(example_cpp_${stem} examples $<TARGET_FILE:example_cpp_${stem}>)
endforeach()
