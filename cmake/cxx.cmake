# The language C++, which only tests and examples use: the library and projects that include this one
# need a C compiler alone. Afterwards CMAKE_CXX_COMPILER is empty if there is none.
#
# The C++ compiler matches the C compiler: sanitizers of different vendors do not mix.
include_guard(DIRECTORY)
include(CheckLanguage)
if(CMAKE_C_COMPILER_ID STREQUAL "Clang" AND NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
    cmake_path(GET CMAKE_C_COMPILER PARENT_PATH folder)
    find_program(ACRE_CLANGXX clang++ HINTS ${folder})
    if(ACRE_CLANGXX)
        set(CMAKE_CXX_COMPILER ${ACRE_CLANGXX} CACHE FILEPATH "C++ compiler")
    endif()
endif()
check_language(CXX)
if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    check_pie_supported(LANGUAGES CXX)
else()
    message(STATUS "No C++ compiler found: the tests and examples in C++ are skipped")
endif()
