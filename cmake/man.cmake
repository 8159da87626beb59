# Man pages: of the tool and each command from --help, of the library from the comments in the headers.
# A tool built for another architecture cannot run here.
set(man_pages "")
# A project that includes acre gets only the library.
if(NOT ACRE_INSTALL OR NOT (PROJECT_IS_TOP_LEVEL OR TARGET acre_cli))
    return()
endif()
find_program(ACRE_HELP2MAN help2man)
find_program(ACRE_PYTHON python3)
if(TARGET acre_cli AND ACRE_HELP2MAN AND NOT CMAKE_CROSSCOMPILING AND NOT ACRE_SANITIZE)
    foreach(command "" info doctor demo replay plan bench trace report export stats top ps snapshot symbolize run limit suspend resume)
        set(page ${PROJECT_BINARY_DIR}/man/acre-${command}.1)
        string(REPLACE acre-.1 acre.1 page ${page})
        add_custom_command(OUTPUT ${page} DEPENDS acre_cli scripts/man-command VERBATIM
            COMMAND ${PROJECT_SOURCE_DIR}/scripts/man-command $<TARGET_FILE:acre_cli> ${page} ${command})
        list(APPEND man_pages ${page})
    endforeach()
elseif(TARGET acre_cli AND NOT ACRE_HELP2MAN)
    message(STATUS "The man pages of the tool are not built: help2man not found")
endif()
if(ACRE_PYTHON)
    file(GLOB public_headers CONFIGURE_DEPENDS include/*.h include/acre/*.h include/acre/heap/*.h)
    set(page ${PROJECT_BINARY_DIR}/man/acre.3)
    add_custom_command(OUTPUT ${page} DEPENDS ${public_headers} scripts/man-library VERBATIM
        COMMAND sh -c "\"$1\" \"$2\" \"$3\" \"$4\" >\"$5\"" - ${ACRE_PYTHON}
            ${PROJECT_SOURCE_DIR}/scripts/man-library ${PROJECT_SOURCE_DIR}/include ${PROJECT_VERSION} ${page})
    list(APPEND man_pages ${page})
endif()
if(man_pages)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man)
    add_custom_target(acre_man ALL DEPENDS ${man_pages})
    add_dependencies(acre_product acre_man)
endif()
