# Writes OUTPUT, a header with BENCH_COMMIT: the commit of SOURCE, with "-dirty" if files differ from it,
# or "unknown" outside of a repository. Run by every build; an unchanged header is not touched.
#   cmake -DSOURCE=... -DOUTPUT=... -P commit.cmake
cmake_minimum_required(VERSION 3.20)
set(commit "")
execute_process(COMMAND git describe --always --dirty --abbrev=7 --exclude=* WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
    set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define BENCH_COMMIT \"@commit@\"\n" @ONLY)
