# acre_find(NAME HEADER <file> PACKAGE <package> [REQUIRED]): defines the target acre::NAME for a C
# library, and ACRE_<NAME>_FOUND. Uses hints of pkg-config, or else the usual folders and
# CMAKE_PREFIX_PATH. PACKAGE is the Debian package, for the message.
function(acre_find name)
    cmake_parse_arguments(arg "REQUIRED" "HEADER;PACKAGE" "" ${ARGN})
    string(TOUPPER ${name} upper)
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
        pkg_check_modules(ACRE_PC_${upper} QUIET ${name})
    endif()
    find_path(ACRE_${upper}_INCLUDE ${arg_HEADER} HINTS ${ACRE_PC_${upper}_INCLUDEDIR})
    find_library(ACRE_${upper}_LIBRARY ${name} HINTS ${ACRE_PC_${upper}_LIBDIR})
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
        message(FATAL_ERROR "lib${name} is not installed; install it (Debian package ${arg_PACKAGE})")
    endif()
endfunction()
