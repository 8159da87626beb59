# acre_find(NAME HEADER <file> [REQUIRED]): a C library as the target acre::NAME, and
# ACRE_<NAME>_FOUND. pkg-config gives hints; without it the usual folders and CMAKE_PREFIX_PATH do.
find_package(PkgConfig QUIET)

function(acre_find name)
    cmake_parse_arguments(arg "REQUIRED" "HEADER" "" ${ARGN})
    string(TOUPPER ${name} upper)
    if(PkgConfig_FOUND)
        pkg_check_modules(PC_${upper} QUIET ${name})
    endif()
    find_path(ACRE_${upper}_INCLUDE ${arg_HEADER} HINTS ${PC_${upper}_INCLUDEDIR})
    find_library(ACRE_${upper}_LIBRARY ${name} HINTS ${PC_${upper}_LIBDIR})
    if(ACRE_${upper}_INCLUDE AND ACRE_${upper}_LIBRARY)
        add_library(acre::${name} UNKNOWN IMPORTED)
        set_target_properties(acre::${name} PROPERTIES
            IMPORTED_LOCATION ${ACRE_${upper}_LIBRARY}
            INTERFACE_INCLUDE_DIRECTORIES ${ACRE_${upper}_INCLUDE})
        set(ACRE_${upper}_FOUND TRUE PARENT_SCOPE)
        return()
    endif()
    set(ACRE_${upper}_FOUND FALSE PARENT_SCOPE)
    if(arg_REQUIRED)
        message(FATAL_ERROR "lib${name} is not installed: `scripts/deps build test` installs it")
    endif()
endfunction()
