# The tool `acre`. Only the tool needs jansson and zlib, and uses ncurses. Without them, and without
# ACRE_TOOL=ON, the tool is not built.
if(NOT ACRE_TOOL)
    return()
endif()

set(required "")
if(NOT ACRE_TOOL STREQUAL "AUTO")
    set(required REQUIRED)
endif()
acre_find(jansson HEADER jansson.h PACKAGE libjansson-dev ${required})
acre_find(z HEADER zlib.h PACKAGE zlib1g-dev ${required})
set(missing "")
if(NOT ACRE_JANSSON_FOUND)
    list(APPEND missing "jansson (libjansson-dev)")
endif()
if(NOT ACRE_Z_FOUND)
    list(APPEND missing "zlib (zlib1g-dev)")
endif()
if(missing)
    list(JOIN missing " and " missing)
    message(STATUS "The tool acre is not built: ${missing} not found. The library does not need it.")
    return()
endif()

# The live view of `acre top` needs ncurses, with wide characters; without it --once works.
acre_find(ncursesw HEADER ncurses.h PACKAGE libncurses-dev)
file(GLOB tool_sources CONFIGURE_DEPENDS cli/*.c bench/*.c)
set(screen_sources ${PROJECT_SOURCE_DIR}/cli/top_screen.c ${PROJECT_SOURCE_DIR}/cli/top_draw.c)
set(screen_none ${PROJECT_SOURCE_DIR}/cli/top_screen_none.c)
if(ACRE_NCURSESW_FOUND)
    list(REMOVE_ITEM tool_sources ${screen_none})
else()
    list(REMOVE_ITEM tool_sources ${screen_sources})
    message(STATUS "acre top is built without its live view: ncurses (libncurses-dev) not found")
endif()
include(cmake/page.cmake) # the page of `acre report`
# An archive, so that fuzz targets link the readers alone.
set(tool_main ${PROJECT_SOURCE_DIR}/cli/main.c)
list(REMOVE_ITEM tool_sources ${tool_main})
add_library(acre_tool STATIC ${tool_sources} ${page_source} $<TARGET_OBJECTS:acre_report_objects>)
# The tool places buffers of a file with the library's placer, which the library does not export.
add_executable(acre_cli ${tool_main} $<TARGET_OBJECTS:acre_pure_objects>)
set_target_properties(acre_cli PROPERTIES OUTPUT_NAME acre)
# Results of `acre bench` name the commit.
add_custom_target(acre_commit BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/bench_commit.h VERBATIM
    COMMENT "Looking up the commit"
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
        -DOUTPUT=${PROJECT_BINARY_DIR}/generated/bench_commit.h -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake)
add_dependencies(acre_tool acre_commit)
# bench/ and replay include src/ for driver calls; tests/check/check_layers.py checks other uses.
foreach(target acre_tool acre_cli)
    target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated cli report src include)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    target_link_libraries(${target} PRIVATE acre_flags)
endforeach()
# Kernels of `acre bench heap` and `acre demo` for a GPU; without nvcc they use only soft devices.
file(GLOB bench_kernels CONFIGURE_DEPENDS bench/*.cu cli/*.cu)
acre_add_kernels(acre_bench_kernels ${bench_kernels})
target_link_libraries(acre_tool PUBLIC acre_bench_kernels acre::jansson acre::z m ${CMAKE_DL_LIBS})
if(ACRE_NCURSESW_FOUND)
    target_link_libraries(acre_tool PUBLIC acre::ncursesw)
endif()
target_link_libraries(acre_cli PRIVATE acre_tool acre_shared)
add_dependencies(acre_product acre_cli)

# `acre run` finds the stand-ins relative to itself. Only one file has the path, so that a change of
# the install folders recompiles one file.
file(RELATIVE_PATH to_libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_source_files_properties(cli/run_libraries.c PROPERTIES
    COMPILE_DEFINITIONS "ACRE_TO_LIBRARIES=\"${to_libraries}\"")
# The installed tool finds its library in the same way, under any prefix.
set_target_properties(acre_cli PROPERTIES INSTALL_RPATH $ORIGIN/${to_libraries})
