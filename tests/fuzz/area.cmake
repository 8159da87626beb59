# The readers of traces, fed with what is stored in corpus/ and with mutations of it, through the
# entry point that libFuzzer has too. fuzz_events, libFuzzer's program, is built on request, where
# the compiler is a clang that has it.
file(GLOB reader_sources CONFIGURE_DEPENDS cli/events*.c cli/trace_*.c cli/wishes_read.c)

# acre_fuzz_program(NAME SOURCE...): the readers and the entry point in one program.
function(acre_fuzz_program name)
    add_executable(${name} ${ARGN} tests/fuzz/fuzz_events.c ${reader_sources})
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/fuzz)
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
    target_compile_options(${name} PRIVATE -UNDEBUG)
    target_include_directories(${name} PRIVATE cli include src)
    target_link_libraries(${name} PRIVATE acre_flags acre::jansson acre::z)
endfunction()

acre_fuzz_program(fuzz_events_plain tests/fuzz/fuzz_main.c)
set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus)
acre_test_run(fuzz_events_corpus fuzz $<TARGET_FILE:fuzz_events_plain> ${corpus})
acre_test_run(fuzz_events_mutations fuzz $<TARGET_FILE:fuzz_events_plain>
    --mutate 3000 --seed 6 ${corpus})

if(CMAKE_C_COMPILER_ID MATCHES "Clang" AND NOT ACRE_SANITIZE)
    set(fuzz_flags -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
    acre_fuzz_program(fuzz_events)
    set_target_properties(fuzz_events PROPERTIES EXCLUDE_FROM_ALL TRUE)
    target_compile_options(fuzz_events PRIVATE ${fuzz_flags} -O1)
    target_link_options(fuzz_events PRIVATE ${fuzz_flags})
endif()
