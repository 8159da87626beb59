# The page of `acre report`, as an array in a C file: cli/page, and uPlot from .deps/page, where
# `scripts/deps page` installs it. Without uPlot the tool is built all the same, and `acre report`
# says what to do.
set(ACRE_UPLOT ${PROJECT_SOURCE_DIR}/.deps/page/node_modules/uplot CACHE PATH "Folder of uPlot, for the page of acre report")
set(uplot ${ACRE_UPLOT})
set(uplot_files ${uplot}/dist/uPlot.iife.min.js ${uplot}/dist/uPlot.min.css ${uplot}/LICENSE)
# Of version 1.6.32, which cli/page/package-lock.json pins, too.
set(uplot_hashes
    19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f
    df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04
    8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd)
# CMake runs again when the files appear.
file(GLOB uplot_found CONFIGURE_DEPENDS ${uplot_files})
set(has_uplot ON)
foreach(file hash IN ZIP_LISTS uplot_files uplot_hashes)
    set(found "")
    if(EXISTS ${file})
        file(SHA256 ${file} found)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    endif()
    if(NOT found STREQUAL hash)
        set(has_uplot OFF)
    endif()
endforeach()

# Modules in the order in which the page has them: a module follows those that it imports.
set(page_modules text codec model tree spaces compare dom timeline holders addresses sections main)
set(page_parts ${PROJECT_SOURCE_DIR}/cli/page/page.html ${PROJECT_SOURCE_DIR}/cli/page/page.css)
foreach(module IN LISTS page_modules)
    list(APPEND page_parts ${PROJECT_SOURCE_DIR}/cli/page/${module}.js)
endforeach()
set(page_source ${PROJECT_BINARY_DIR}/generated/report_page.c)
set(page_needs ${page_parts})
if(has_uplot)
    list(APPEND page_needs ${uplot_files})
else()
    message(STATUS "acre report cannot write pages: run scripts/deps page, then configure again")
endif()
add_custom_command(OUTPUT ${page_source} VERBATIM
    DEPENDS ${page_needs} ${PROJECT_SOURCE_DIR}/cmake/page_embed.cmake
    COMMENT "Putting the page of acre report together"
    COMMAND ${CMAKE_COMMAND} -DPAGE=${PROJECT_SOURCE_DIR}/cli/page "-DMODULES=${page_modules}"
        -DUPLOT=$<$<BOOL:${has_uplot}>:${uplot}> -DOUTPUT=${page_source}
        -P ${PROJECT_SOURCE_DIR}/cmake/page_embed.cmake)
set_source_files_properties(${page_source} PROPERTIES
    COMPILE_OPTIONS "-I${PROJECT_SOURCE_DIR}/cli")
