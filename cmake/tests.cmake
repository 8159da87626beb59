# ctest runs all tests. The name of a test is the stem of its file, its label the area.
#
#   tests/<area>/test_*.c       a program; the other .c files of the folder, and those of
#                               tests/support, are linked into each program of the area
#   tests/<area>/test_*.sh      a script
#   tests/check/check_*.sh|py   a script that checks the tree or the build
#   tests/cpp/test_*.cpp        a program in C++ (cmake/tests_cpp.cmake)
#   python/tests/test_*.py      run by pytest (cmake/tests_python.cmake)
#   examples/*.c                a program that must exit with 0 (label "examples")
#   examples/cpp/*.cpp          likewise, in C++
#   examples/*.cu               a program for a GPU, if nvcc is installed; example_<stem>_gpu
#   examples/mistakes/*.c       run by tests/cli/test_cli_mistakes.sh with ACRE_DEBUG=1
#   examples/cuda/*             run by `acre run`; its output must be tests/data/cuda/<stem>.txt
#   examples/mistakes/cuda/*    likewise, with the report: tests/data/mistakes_cuda/<stem>.txt
#   tests/gpu/*.cu              kernels for the programs in tests/gpu, if nvcc is installed
#   tests/<area>/area.cmake     replaces the rule above for the .c files not called test_*, with
#                               acre_test_program and acre_test_run
#
# White-box areas see src/ and link acre_test, the library compiled again with its test points. The
# others see only include/ and link libacre.so. tests/standin sees include/soft and links the
# stand-ins, as a CUDA program does; so does tests/torch, with libacre_torch.so. Exit code 77 means skipped. Every test has ACRE_BUILD and
# ACRE_SOURCE in its environment. Areas that open a GPU run one test at a time on a GPU machine.
# "devicefault" in a name adds that label: such a test breaks its device on purpose.
set(whitebox_areas unit model fault conformance gpu)
set(blackbox_areas api fuzz)
set(standin_areas standin torch)
set(gpu_areas ${whitebox_areas} api cpp cli examples)

# On aarch64 the leak check takes 4 s per process, however small: libasan scans every MiB that may
# contain an address. For all tests that would be half of the preset's time. So on aarch64 only
# these tests check for leaks, and scripts on request (run_leaks). Together they create every object
# of the library, refuse every driver call and every invalid call, exit threads and processes, and
# destroy everything again. Elsewhere every test checks for leaks.
set(aarch64_leak_tests
    test_counted_.* test_lost_device test_oom_report                     # fault
    test_open test_misuse test_.*_misuse test_share_refused              # api: refusals
    test_exit test_fork test_pool_threads                                # api: ends
    test_heap_debug test_realloc test_share test_stats_export test_tags test_trace
    test_vm_export                                                       # api: objects
    test_pool_model test_plan_model test_space_model                     # model: long lives
    test_cpp_faults test_cpp_containers                                  # C++
    fuzz_.*_mutations)                                                   # readers of files
string(REPLACE ";" "|" aarch64_leak_tests "^(${aarch64_leak_tests})$")

if(NOT ACRE_TESTS)
    return()
endif()
if(ACRE_TESTS STREQUAL "AUTO")
    acre_find(cmocka HEADER cmocka.h PACKAGE libcmocka-dev)
    if(NOT ACRE_CMOCKA_FOUND)
        message(STATUS "The tests are not built: cmocka (libcmocka-dev) not found")
        return()
    endif()
else()
    acre_find(cmocka HEADER cmocka.h PACKAGE libcmocka-dev REQUIRED)
endif()
enable_testing()

# Without the tool or the stand-ins their tests are skipped; the fuzz targets use the tool's readers.
if(NOT TARGET acre_cli)
    list(REMOVE_ITEM blackbox_areas fuzz)
endif()
if(NOT TARGET acre_cli OR NOT ACRE_STANDINS)
    set(standin_areas "")
    set(cuda_example_folders "")
endif()

# acre_test_environment(NAME VARIABLE): sets VARIABLE to the environment of the test.
function(acre_test_environment name variable)
    set(environment ACRE_BUILD=${PROJECT_BINARY_DIR} ACRE_SOURCE=${PROJECT_SOURCE_DIR})
    if(NOT ACRE_SANITIZE)
        set(${variable} ${environment} PARENT_SCOPE)
        return()
    endif()
    set(leaks 1)
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64" AND NOT name MATCHES "${aarch64_leak_tests}")
        set(leaks 0)
    endif()
    # Stand-ins are preloaded and so come before gcc's sanitizer library, which would report a wrong
    # link order. Devices are small: shadow memory multiplies the memory in use, and TSan on aarch64
    # has little address space. TSan sleeps at the end of every process, by default for a second, so
    # that running threads still show their races. 50 ms are enough for thousands of steps of a
    # thread; 0 misses such races.
    set(${variable} ${environment} ACRE_SOFT_BYTES=1GiB
        TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=50
        ASAN_OPTIONS=detect_leaks=${leaks}:protect_shadow_gap=0:verify_asan_link_order=0
        UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 PARENT_SCOPE)
endfunction()

set(test_launcher "")
if(ACRE_SANITIZE STREQUAL "tsan")
    # TSan needs the program at certain addresses. Kernels with 32 bits of address randomness
    # sometimes place it elsewhere. Containers may forbid setarch; then TSan runs without it.
    find_program(ACRE_SETARCH setarch)
    if(ACRE_SETARCH)
        execute_process(COMMAND ${ACRE_SETARCH} -R true RESULT_VARIABLE result
            OUTPUT_QUIET ERROR_QUIET)
        if(result EQUAL 0)
            set(test_launcher ${ACRE_SETARCH} -R)
        endif()
    endif()
endif()

# The longest tests start first, so that none of them runs alone at the end.
set(long_tests test_heap_registers test_cli_bench test_counted_mem test_cli_demo test_heap_languages test_heap_plants
    conformance_soft test_copy test_soft_heap_room test_heap_kernels test_pool_model test_soft_launch
    test_cli_trace check_subproject)

# These tests have one thread, or only threads that other tests have too, so the thread sanitizer
# would find nothing new in them. Virtual threads of the seeded scheduler run one at a time.
set(not_for_tsan "^(fuzz_|example_|abi_check|conformance_cuda|test_cpp_|test_place|test_suspend$|test_counted_|test_trace_code|\
.*_lanes$|.*misuse$|test_(pool|soft_pool|plan|heap|space|sparse)_model|test_(copy|vec)_order|test_(schedules|plants|strays|reasons)|\
test_heap_(core|search)|test_pool_(class|table)|test_soft_(heap_room|module|pool_short|sched)|test_(array_bytes|book|driver_cuda|\
driver_status|gone|open|options|stats_export|stream_copy|tree|wire)$|test_cli_(bad_input|bench|demo|docs|doctor|export|help|\
info|log|oom_report|output|plan|replay|report|run_ffmpeg|snapshot|stats|streams|terminal|top|trace)|test_page_)")

# These run no C or C++ that was compiled with a sanitizer, or only calls that tests in C make, too.
# The tests of the Python package that are left run libacre_python.so and libacre_torch.so.
set(not_for_asan "^(abi_check|test_page_|test_cpp_mr_(resource|rmm)_(later|24)|test_cli_(docs|help)|\
test_python_(cupy|device|gpu|memory|misuse|numba|numba_suite|types|vm|wheel)|test_saver|test_torch_(declared|pools))$")

# These tests run compilers, for up to a minute: label "toolchain", which `make test` leaves out. They
# test no code of the library with a sanitizer.
set(toolchain_tests test_heap_registers test_heap_languages test_heap_plants test_plan_plants test_pool_plants
    test_cpp_cost test_cpp_headers test_cpp_mr_thrust check_subproject check_nvrtc check_rename check_install test_headers)

# acre_test_run(NAME AREA COMMAND...)
function(acre_test_run name area)
    if(ACRE_SANITIZE AND name IN_LIST toolchain_tests)
        return()
    endif()
    if(ACRE_SANITIZE AND name MATCHES "${not_for_${ACRE_SANITIZE}}")
        if(TARGET ${name})
            set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
        endif()
        return()
    endif()
    add_test(NAME ${name} COMMAND ${test_launcher} ${ARGN})
    acre_test_environment(${name} environment)
    set(labels ${area})
    if(name MATCHES "devicefault")
        list(APPEND labels devicefault)
    endif()
    if(name IN_LIST toolchain_tests)
        list(APPEND labels toolchain)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600 SKIP_RETURN_CODE 77
        ENVIRONMENT "${environment}")
    if(name IN_LIST long_tests)
        set_tests_properties(${name} PROPERTIES COST 100)
    endif()
    # Tests that only compile, or use only soft devices, may run beside those that use the GPU, and so may one of
    # the two that take a minute each.
    if(ACRE_GPU_TESTS AND area IN_LIST gpu_areas
        AND NOT name MATCHES "heap_(registers|languages|room_full_order)|cpp_(cost|headers|mr_|plain)")
        set_tests_properties(${name} PROPERTIES RESOURCE_LOCK gpu)
    endif()
endfunction()

# Flags of all test programs. Assertions are on in every build.
add_library(acre_test_flags INTERFACE)
target_compile_definitions(acre_test_flags INTERFACE _GNU_SOURCE)
# The library is optimised; compiling the tests with optimisation would take longer than it saves.
target_compile_options(acre_test_flags INTERFACE -UNDEBUG -O0 -U_FORTIFY_SOURCE)
if(ACRE_SANITIZE OR ACRE_COVERAGE)
    target_compile_definitions(acre_test_flags INTERFACE ACRE_FEW_ROUNDS=1)
endif()
target_include_directories(acre_test_flags INTERFACE ${PROJECT_SOURCE_DIR}/tests)
if(ACRE_CUDA_INCLUDE)
    # Last in the search order, so that only headers missing elsewhere come from here.
    target_compile_options(acre_test_flags INTERFACE "SHELL:-idirafter ${ACRE_CUDA_INCLUDE}")
endif()
target_link_libraries(acre_test_flags INTERFACE acre_flags acre::cmocka)

if(ACRE_SANITIZE)
    # This library is never installed, so it can have test points too, and is compiled only once.
    target_compile_definitions(acre_objects PRIVATE ACRE_TEST_POINTS=1)
    add_library(acre_test STATIC ${library_objects})
else()
    add_library(acre_test STATIC ${library_sources} ${shared_with_tool})
endif()
target_include_directories(acre_test PUBLIC src include)
target_compile_definitions(acre_test PRIVATE _GNU_SOURCE PUBLIC ACRE_TEST_POINTS=1)
# -O1 compiles in half the time of -O2.
target_compile_options(acre_test PRIVATE -ftls-model=initial-exec -UNDEBUG $<$<NOT:$<CONFIG:Debug>>:-O1>)
target_link_libraries(acre_test PRIVATE acre_flags)

file(GLOB kernels CONFIGURE_DEPENDS tests/gpu/*.cu)
file(GLOB kernel_examples CONFIGURE_DEPENDS examples/*.cu)
if(NOT ACRE_HAVE_GPU AND NOT ACRE_TOOLCHAIN_TESTS) # only `make test-all` compiles what cannot run here
    set(kernels "")
    set(kernel_examples "")
endif()
acre_add_kernels(acre_gpu_kernels ${kernels})

file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.c)
if(support_sources)
    add_library(acre_support OBJECT ${support_sources})
    target_include_directories(acre_support PRIVATE include)
    target_link_libraries(acre_support PRIVATE acre_test_flags)
    set(support_objects $<TARGET_OBJECTS:acre_support>)
endif()

# The library that the programs of an area link.
function(acre_test_library area variable)
    if(area IN_LIST whitebox_areas OR (ACRE_COVERAGE AND area STREQUAL "api"))
        # With coverage, so that children that exit with leave() also count lines of the library.
        set(${variable} acre_test PARENT_SCOPE)
    elseif(area STREQUAL "torch")
        set(${variable} acre_standin_cuda acre_torch acre_shared PARENT_SCOPE)
    elseif(area IN_LIST standin_areas)
        set(${variable} acre_standin_cudart acre_standin_cuda PARENT_SCOPE)
    else()
        set(${variable} acre_shared PARENT_SCOPE)
    endif()
endfunction()

# acre_test_program(NAME AREA SOURCE...): a program in build/tests/AREA.
function(acre_test_program name area)
    acre_test_library(${area} library)
    add_executable(${name} ${ARGN} ${support_objects})
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${area})
    target_link_libraries(${name} PRIVATE ${library} acre_test_flags)
    if(area STREQUAL "gpu")
        target_link_libraries(${name} PRIVATE acre_gpu_kernels)
    elseif(area IN_LIST standin_areas)
        target_include_directories(${name} PRIVATE include/soft)
        # LD_LIBRARY_PATH may contain a folder with NVIDIA's libraries; only DT_RPATH takes
        # precedence.
        target_link_options(${name} PRIVATE LINKER:--disable-new-dtags)
    endif()
endfunction()

foreach(area IN LISTS whitebox_areas blackbox_areas standin_areas)
    file(GLOB helpers CONFIGURE_DEPENDS tests/${area}/*.c)
    file(GLOB programs CONFIGURE_DEPENDS tests/${area}/test_*.c)
    list(REMOVE_ITEM helpers ${programs} "")
    set(helper_objects "")
    if(EXISTS ${PROJECT_SOURCE_DIR}/tests/${area}/area.cmake)
        include(${PROJECT_SOURCE_DIR}/tests/${area}/area.cmake)
    elseif(helpers)
        acre_test_library(${area} library)
        add_library(acre_${area}_helpers OBJECT ${helpers})
        target_link_libraries(acre_${area}_helpers PRIVATE ${library} acre_test_flags)
        if(area STREQUAL "gpu")
            target_link_libraries(acre_${area}_helpers PRIVATE acre_gpu_kernels)
        endif()
        set(helper_objects $<TARGET_OBJECTS:acre_${area}_helpers>)
    endif()
    foreach(source IN LISTS programs)
        cmake_path(GET source STEM name)
        acre_test_program(${name} ${area} ${source} ${helper_objects})
        if(NOT area STREQUAL "gpu" OR ACRE_GPU_TESTS)
            acre_test_run(${name} ${area} $<TARGET_FILE:${name}>)
        endif()
    endforeach()
endforeach()

# Threads that allocate while statistics are kept.
foreach(name IN ITEMS test_tags test_pool_threads)
    acre_test_run(${name}_published api ${CMAKE_COMMAND} -E env ACRE_STATS=1
        XDG_RUNTIME_DIR=${PROJECT_BINARY_DIR}/tests $<TARGET_FILE:${name}>)
endforeach()

# These kernels are written once, for GPUs and for the soft device. On the soft device they run on
# every machine, with warps of 32 lanes and of 1.
foreach(name IN ITEMS test_gpu_heap test_gpu_heap_room)
    string(REPLACE gpu soft soft_name ${name})
    acre_test_run(${soft_name} unit $<TARGET_FILE:${name}> soft)
    acre_test_run(${soft_name}_lanes unit $<TARGET_FILE:${name}> soft 1)
    if(ACRE_GPU_TESTS) # the memory order of GPUs on which the weaker one has not been tested
        acre_test_run(${name}_full_order gpu $<TARGET_FILE:${name}> full)
    endif()
endforeach()
if(ACRE_GPU_TESTS)
    acre_test_run(test_gpu_heap_few_registers gpu $<TARGET_FILE:test_gpu_heap> few)
endif()

# Examples are compiled as a user would: no definitions, only the public header.
file(GLOB examples CONFIGURE_DEPENDS examples/*.c)
foreach(source IN LISTS examples)
    cmake_path(GET source STEM stem)
    add_executable(example_${stem} ${source})
    set_target_properties(example_${stem} PROPERTIES OUTPUT_NAME ${stem}
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
    target_link_libraries(example_${stem} PRIVATE acre_flags acre_shared)
    # Optimising one that includes acre_heap.h takes a second, with clang and sanitizers 3 to 6.
    target_compile_options(example_${stem} PRIVATE -O0 -U_FORTIFY_SOURCE)
    add_dependencies(acre_examples example_${stem})
    acre_test_run(example_${stem} examples $<TARGET_FILE:example_${stem}>)
endforeach()

# Programs with mistakes, for ACRE_DEBUG: tests/cli/test_cli_mistakes.sh compares what they print.
file(GLOB examples CONFIGURE_DEPENDS examples/mistakes/*.c)
foreach(source IN LISTS examples)
    cmake_path(GET source STEM stem)
    add_executable(mistake_${stem} ${source})
    set_target_properties(mistake_${stem} PROPERTIES OUTPUT_NAME ${stem}
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples/mistakes)
    # -O0: at -O2 a call may be inlined, or end a function, and its line is lost.
    target_compile_options(mistake_${stem} PRIVATE -O0 -g -U_FORTIFY_SOURCE)
    target_link_libraries(mistake_${stem} PRIVATE acre_flags acre_shared)
    add_dependencies(acre_examples mistake_${stem})
endforeach()

# Also built as a user would: with nvcc and the library.
if(kernel_examples)
    acre_check_cuda_programs()
endif()
if(ACRE_CUDA_PROGRAMS)
    foreach(source IN LISTS kernel_examples)
        cmake_path(GET source STEM stem)
        set(output ${PROJECT_BINARY_DIR}/examples/${stem}_gpu)
        acre_add_cuda_program(example_${stem}_gpu ${output} ${source})
        acre_test_run(example_${stem}_gpu examples ${output})
    endforeach()
endif()

# Programs that call CUDA directly: their output is compared with recorded output.
find_program(ACRE_BASH bash REQUIRED)
foreach(folder IN LISTS cuda_example_folders)
    foreach(stem IN LISTS cuda_examples)
        acre_test_run(example_${folder}_${stem} standin ${ACRE_BASH}
            ${PROJECT_SOURCE_DIR}/tests/standin/run_example.sh
            ${PROJECT_BINARY_DIR}/examples/${folder}/${stem})
    endforeach()
endforeach()
foreach(stem IN LISTS cuda_mistakes)
    acre_test_run(mistake_${stem} standin ${ACRE_BASH}
        ${PROJECT_SOURCE_DIR}/tests/standin/run_mistake.sh
        ${PROJECT_BINARY_DIR}/examples/mistakes/cuda/${stem})
endforeach()

find_program(ACRE_PYTHON python3 REQUIRED)
file(GLOB scripts CONFIGURE_DEPENDS tests/*/test_*.sh)
if(NOT ACRE_GPU_TESTS)
    list(FILTER scripts EXCLUDE REGEX "/tests/gpu/")
endif()
if(NOT TARGET acre_cli)
    list(FILTER scripts EXCLUDE REGEX "/tests/(cli|page)/")
endif()
if(NOT standin_areas)
    list(FILTER scripts EXCLUDE REGEX "/tests/(standin/|cli/test_cli_run)")
endif()
if(NOT ACRE_SANITIZE)
    # These check sources and the plain library, which are the same in every preset.
    file(GLOB checks CONFIGURE_DEPENDS tests/check/check_*.sh tests/check/check_*.py)
    if(NOT standin_areas)
        list(FILTER checks EXCLUDE REGEX "/check_standin")
    endif()
    list(APPEND scripts ${checks})
endif()
foreach(script IN LISTS scripts)
    cmake_path(GET script STEM name)
    cmake_path(GET script EXTENSION LAST_ONLY extension)
    cmake_path(GET script PARENT_PATH area)
    cmake_path(GET area FILENAME area)
    if(extension STREQUAL ".py")
        acre_test_run(${name} ${area} ${ACRE_PYTHON} ${script})
    else()
        acre_test_run(${name} ${area} ${ACRE_BASH} ${script})
    endif()
endforeach()

include(cmake/tests_cpp.cmake)
include(cmake/tests_python.cmake)
include(cmake/tests_cpp_mr.cmake)
