# The readers of traces, plans, pickles and statistics, the analysis of reports, and both sides of the share protocol, run on the
# stored inputs in corpus*/ and on mutations of them, through the entry points that libFuzzer calls.
# libFuzzer's own programs (fuzz_events, fuzz_pickle, ...) are built on
# request, where the compiler is a clang that has libFuzzer.
if(ACRE_SANITIZE STREQUAL "tsan") # these programs have one thread
    return()
endif()
file(GLOB reader_sources CONFIGURE_DEPENDS cli/events*.c cli/trace_*.c cli/wishes_*.c
    cli/number_map.c cli/pickle_*.c cli/ranges.c)
file(GLOB picture_sources CONFIGURE_DEPENDS cli/picture*.c cli/svg.c)
file(GLOB share_sources CONFIGURE_DEPENDS src/share/*.c)
list(APPEND reader_sources ${shared_with_tool})

# acre_fuzz_flags(NAME): how the entry points and what they test are compiled and linked.
function(acre_fuzz_flags name)
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
    target_compile_options(${name} PRIVATE -UNDEBUG)
    target_include_directories(${name} PRIVATE cli include src tests)
    # cli.h, which fuzz_quiet.c includes, needs jansson's header.
    target_link_libraries(${name} PRIVATE acre_flags acre::jansson acre::z m)
endfunction()

# acre_fuzz_program(NAME SOURCE...): an entry point, with what it tests or a library of that.
function(acre_fuzz_program name)
    add_executable(${name} ${ARGN} tests/fuzz/fuzz_quiet.c)
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/fuzz)
    acre_fuzz_flags(${name})
endfunction()

set(fuzz_events_sources ${reader_sources})
set(fuzz_pickle_sources ${reader_sources})
set(fuzz_plan_sources ${reader_sources} ${picture_sources})
# Compiled again for libFuzzer, so that it sees their branches; the rest comes from acre_test.
set(fuzz_share_sources ${share_sources})
file(GLOB report_sources CONFIGURE_DEPENDS cli/report_source.c cli/report_count.c cli/report_levels.c
    cli/report_blocks.c cli/report_plan.c cli/accounts.c cli/show_text.c cli/show_stack.c cli/frames.c)
set(fuzz_report_sources ${reader_sources} ${report_sources})
set(fuzz_stats_sources cli/stats_read.c src/watch/publish_folder.c)
set(fuzz_events_corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus)
set(fuzz_pickle_corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus_pickle)
set(fuzz_plan_corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus_plan)
set(fuzz_report_corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus) # the same files become reports
set(fuzz_share_corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus_share)
set(fuzz_stats_corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus_stats)
set(fuzz_events_mutations 3000)
set(fuzz_pickle_mutations 2000)
set(fuzz_plan_mutations 1000)
set(fuzz_report_mutations 1000)
if(ACRE_SANITIZE) # a mutation takes 26 ms
    set(fuzz_report_mutations 300)
endif()
set(fuzz_share_mutations 150)
if(ACRE_SANITIZE) # where an input takes ten times as long
    set(fuzz_share_mutations 40)
endif()
set(fuzz_stats_mutations 300)

# Programs without libFuzzer link the objects of the tool, but for its output (fuzz_quiet.c).
add_library(acre_fuzz_main OBJECT tests/fuzz/fuzz_main.c)
acre_fuzz_flags(acre_fuzz_main)

foreach(name fuzz_events fuzz_pickle fuzz_plan fuzz_report fuzz_share fuzz_stats)
    acre_fuzz_program(${name}_plain tests/fuzz/${name}.c $<TARGET_OBJECTS:acre_fuzz_main>)
    target_link_libraries(${name}_plain PRIVATE acre_tool acre_test)
    acre_test_run(${name}_corpus fuzz $<TARGET_FILE:${name}_plain> ${${name}_corpus})
    acre_test_run(${name}_mutations fuzz $<TARGET_FILE:${name}_plain>
        --mutate ${${name}_mutations} --seed 6 ${${name}_corpus})
    if(CMAKE_C_COMPILER_ID MATCHES "Clang" AND ACRE_SANITIZE STREQUAL "asan")
        set(fuzz_flags -fsanitize=fuzzer)
        acre_fuzz_program(${name} tests/fuzz/${name}.c ${${name}_sources})
        target_link_libraries(${name} PRIVATE acre_test)
        set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
        target_compile_options(${name} PRIVATE ${fuzz_flags})
        target_link_options(${name} PRIVATE ${fuzz_flags})
    endif()
endforeach()
