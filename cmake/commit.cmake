# Writes OUTPUT, a header with BENCH_COMMIT: the commit of SOURCE, with "-dirty" if files differ from it,
# that of an unpacked tarball (scripts/dist), or "unknown". Run by every build; an unchanged header is not touched.
#   cmake -DSOURCE=... -DOUTPUT=... -P commit.cmake
cmake_minimum_required(VERSION 3.20)
# In a tarball that lies inside another repository, git would name that one's commit.
set(git ${CMAKE_COMMAND} -E env --unset=GIT_DIR --unset=GIT_WORK_TREE --unset=GIT_INDEX_FILE git --no-optional-locks)
set(commit unknown)
set(packed "")
if(EXISTS ${SOURCE}/packaging/commit)
    file(STRINGS ${SOURCE}/packaging/commit packed LIMIT_COUNT 1)
endif()
if(packed MATCHES "^([0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f])[0-9a-f]+ ")
    set(commit ${CMAKE_MATCH_1})
endif()
execute_process(COMMAND ${git} rev-parse --show-toplevel --short=7 HEAD WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
string(REPLACE "\n" ";" answer "${answer}")
list(LENGTH answer lines)
file(REAL_PATH ${SOURCE} source)
if(NOT failed AND lines EQUAL 2)
    list(GET answer 0 top)
    if(top STREQUAL source)
        list(GET answer 1 commit)
        execute_process(COMMAND ${git} status --porcelain -uno WORKING_DIRECTORY ${SOURCE}
            OUTPUT_VARIABLE changes ERROR_QUIET)
        if(NOT changes STREQUAL "")
            string(APPEND commit -dirty)
        endif()
    endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define BENCH_COMMIT \"@commit@\"\n" @ONLY)
