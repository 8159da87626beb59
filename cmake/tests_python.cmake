# The tests of the Python package: each file of python/tests is a test, run by pytest.
#
# A library with AddressSanitizer works in a Python without it if the sanitizer is loaded first. Python
# itself leaks by design, so that leaks are not searched for. ThreadSanitizer needs a Python compiled
# with it.
if(ACRE_SANITIZE STREQUAL "tsan" OR CMAKE_CROSSCOMPILING)
    return()
endif()
# Debian's packages are for Debian's Python, which another one may precede in PATH, perhaps by a script that starts it.
foreach(python IN ITEMS ${ACRE_PYTHON} /usr/bin/python3)
    execute_process(COMMAND ${python} -c "import pytest, numpy, sys; print(sys.executable)" RESULT_VARIABLE result
        OUTPUT_VARIABLE pytest_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(result EQUAL 0)
        break()
    endif()
endforeach()
if(NOT result EQUAL 0)
    message(STATUS "The tests of the Python package are not run: python3-pytest or python3-numpy not found")
    return()
endif()
# The package is compiled by the build, so that the tests, which write nothing beside the sources, need not do it.
set(pytest_environment PYTHONPATH=${PROJECT_BINARY_DIR}/python PYTHONDONTWRITEBYTECODE=1
    PYTEST_DISABLE_PLUGIN_AUTOLOAD=1)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/python/compiled DEPENDS ${python_copies} VERBATIM
    COMMAND ${pytest_python} -m compileall -q ${PROJECT_BINARY_DIR}/python/acre
    COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/python/compiled)
add_custom_target(acre_python_bytecode ALL DEPENDS ${PROJECT_BINARY_DIR}/python/compiled)
add_dependencies(acre_python_bytecode acre_python)
if(ACRE_SANITIZE)
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so
        OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT EXISTS "${runtime}") # newer releases name the folder after the target
        execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libclang_rt.asan.so
            OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
    if(NOT EXISTS "${runtime}")
        message(STATUS "The tests of the Python package are not run: the shared runtime of ${ACRE_SANITIZE} not found")
        return()
    endif()
    list(APPEND pytest_environment LD_PRELOAD=${runtime})
endif()

# The fake torch: links to its files, and its C++ part. That contains nothing of acre, so that it needs no sanitizer.
include(cmake/cxx.cmake)
if(CMAKE_CXX_COMPILER)
    set(fake_torch ${PROJECT_BINARY_DIR}/tests/fake_torch/torch)
    file(MAKE_DIRECTORY ${fake_torch}/lib)
    file(GLOB fake_torch_files CONFIGURE_DEPENDS python/tests/fake_torch/*)
    foreach(file IN LISTS fake_torch_files)
        cmake_path(GET file FILENAME name)
        file(CREATE_LINK ${file} ${fake_torch}/${name} SYMBOLIC)
    endforeach()
    add_library(fake_c10 SHARED python/tests/fake_torch/fake_core.cpp)
    set_target_properties(fake_c10 PROPERTIES OUTPUT_NAME c10 CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
        LIBRARY_OUTPUT_DIRECTORY ${fake_torch}/lib)
    target_include_directories(fake_c10 PRIVATE python/tests/fake_torch/include)
endif()

file(GLOB python_tests CONFIGURE_DEPENDS python/tests/test_*.py)
foreach(test IN LISTS python_tests)
    cmake_path(GET test STEM name)
    acre_test_run(${name} python ${CMAKE_COMMAND} -E env ${pytest_environment}
        ${pytest_python} -m pytest -q -p no:cacheprovider ${test})
    if(ACRE_SANITIZE AND TEST ${name})
        get_test_property(${name} ENVIRONMENT environment)
        list(TRANSFORM environment REPLACE "detect_leaks=1" "detect_leaks=0")
        set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}")
    endif()
endforeach()
