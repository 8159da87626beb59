# run_cases.c is a program for `acre run` (tests/cli/test_cli_run.sh), not a test. It has no path to
# the libraries, like a program that was built elsewhere.
acre_test_program(run_cases standin tests/standin/run_cases.c)
set_target_properties(run_cases PROPERTIES SKIP_BUILD_RPATH ON)

# serve_cases.c is one, too, for tests/cli/test_cli_serve.sh.
acre_test_program(serve_cases standin tests/standin/serve_cases.c)
set_target_properties(serve_cases PROPERTIES SKIP_BUILD_RPATH ON)

# suspend_cases.c is one, too, for tests/cli/test_cli_suspend.sh. It also looks functions up as the
# shim does.
acre_test_program(suspend_cases standin tests/standin/suspend_cases.c shim/elf_find.c)
target_include_directories(suspend_cases PRIVATE shim)
set_target_properties(suspend_cases PROPERTIES SKIP_BUILD_RPATH ON)

# acre_cases.c is a program for `acre run`, too, but one that uses libacre. So does suspend_acre.c, for
# tests/cli/test_cli_suspend_acre.sh.
acre_test_program(acre_cases api tests/standin/acre_cases.c)
acre_test_program(suspend_acre api tests/standin/suspend_acre.c)

# top_cases.c is a program for `acre top` that uses libacre, top_cuda.c one for `acre run`.
acre_test_program(top_cases api tests/standin/top_cases.c)
acre_test_program(top_cuda standin tests/standin/top_cuda.c)
set_target_properties(top_cuda PROPERTIES SKIP_BUILD_RPATH ON)

# A libnvidia-ml.so.1 for `acre top`.
add_library(nvml_cards SHARED tests/standin/nvml_cards.c)
set_target_properties(nvml_cards PROPERTIES OUTPUT_NAME nvidia-ml SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/standin/nvml_cards)
target_link_libraries(nvml_cards PRIVATE acre_flags)
add_dependencies(top_cases nvml_cards)

# watch_cases.c is a program for `acre run --watch`. It is not linked with the driver.
add_executable(watch_cases tests/standin/watch_cases.c)
set_target_properties(watch_cases PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/standin)
target_compile_definitions(watch_cases PRIVATE _GNU_SOURCE)
target_link_libraries(watch_cases PRIVATE acre_flags ${CMAKE_DL_LIBS})

# limit_cases.c is a program for `acre run --limit`.
acre_test_program(limit_cases standin tests/standin/limit_cases.c shim/elf_find.c)
set_target_properties(limit_cases PROPERTIES SKIP_BUILD_RPATH ON)
target_include_directories(limit_cases PRIVATE report shim)

# A libnvidia-ml.so.1 for limit_cases.
add_library(fake_nvml SHARED tests/standin/fake_nvml.c)
set_target_properties(fake_nvml PROPERTIES OUTPUT_NAME nvidia-ml SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/standin/nvml)
target_link_libraries(fake_nvml PRIVATE acre_flags)
add_dependencies(limit_cases fake_nvml)

# Libraries between watch_cases and the driver, two of them with names of NVIDIA's.
foreach(name IN ITEMS cublas_fake cudnn_fake deep_plugin)
    add_library(${name} SHARED tests/standin/${name}.c)
    set_target_properties(${name} PROPERTIES
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/standin)
    target_link_libraries(${name} PRIVATE acre_flags ${CMAKE_DL_LIBS})
    add_dependencies(watch_cases ${name})
endforeach()

# A libnvidia-ml.so.1 for watch_cases.
add_library(nvml_processes SHARED tests/standin/nvml_processes.c)
set_target_properties(nvml_processes PROPERTIES OUTPUT_NAME nvidia-ml SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/standin/nvml_processes)
target_link_libraries(nvml_processes PRIVATE acre_flags)
add_dependencies(watch_cases nvml_processes)

# Sizes of arrays; no driver is needed.
acre_test_program(array_bytes unit tests/standin/array_bytes.c shim/shim_array_bytes.c)
target_include_directories(array_bytes PRIVATE shim)
acre_test_run(test_array_bytes unit $<TARGET_FILE:array_bytes>)

# A tool behind NVTX, for tests/api/test_regions.c.
if(ACRE_NVTX_INCLUDE)
    add_library(nvtx_injection SHARED tests/standin/nvtx_injection.c)
    set_target_properties(nvtx_injection PROPERTIES
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/standin)
    target_compile_options(nvtx_injection PRIVATE "SHELL:-isystem ${ACRE_NVTX_INCLUDE}")
    target_link_libraries(nvtx_injection PRIVATE acre_flags)
endif()

# A driver with arrays and memory of graphs, and a program that is linked with it.
add_library(array_driver SHARED tests/standin/array_driver.c)
set_target_properties(array_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/standin/array_driver)
target_link_libraries(array_driver PRIVATE acre_flags)
add_executable(array_cases tests/standin/array_cases.c)
set_target_properties(array_cases PROPERTIES SKIP_BUILD_RPATH ON
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/standin)
target_compile_definitions(array_cases PRIVATE _GNU_SOURCE)
target_link_libraries(array_cases PRIVATE acre_flags array_driver)
