# The tests of acre's resources for other libraries (include/acre/cpp/memory_resource.hpp, thrust.hpp,
# mdspan.hpp, rmm.hpp), in tests/cpp. All run on the soft device.
#
#   test_cpp_mr_resource         against the CCCL of the installed toolkit
#   test_cpp_mr_resource_later   against tests/cpp/later_cccl: the names of CCCL 3.1 and later
#   test_cpp_mr_resource_given   against the CCCL whose headers are in ACRE_CCCL_INCLUDE, if that is set
#   test_cpp_mr_views            the views of mdspan.hpp
#   test_cpp_mr_storage          the allocators of thrust.hpp
#   test_cpp_mr_rmm_24, _25      against stand-ins of RMM 24.x and 25.x, which differ in a noexcept
#   test_cpp_mr_rmm_later        against a stand-in without the class device_memory_resource
#   test_cpp_mr_rmm_given        against the RMM whose headers are in ACRE_RMM_INCLUDE, if that is set: a list,
#                                with the folders of rapids_logger and CCCL
#   test_cpp_mr_thrust           nvcc compiles tests/gpu/cpp/thrust_on_acre.cu, which tests/gpu/run.sh runs
#
# The two variables may also be set in the environment.
# Without the toolkit's headers a test that needs them is skipped, and says so.
include(cmake/cxx.cmake)
if(NOT CMAKE_CXX_COMPILER)
    return()
endif()

set(ACRE_CCCL_INCLUDE "$ENV{ACRE_CCCL_INCLUDE}" CACHE PATH "Headers of another CCCL, to test acre's resources against")
set(ACRE_RMM_INCLUDE "$ENV{ACRE_RMM_INCLUDE}" CACHE STRING "Folders of RMM's headers, to test acre's resources against")
set(cccl_folders "") # of the installed toolkit; CUDA 12 has no folder cccl
if(ACRE_CUDA_INCLUDE AND EXISTS ${ACRE_CUDA_INCLUDE}/cccl/cuda/memory_resource)
    set(cccl_folders ${ACRE_CUDA_INCLUDE}/cccl ${ACRE_CUDA_INCLUDE})
elseif(ACRE_CUDA_INCLUDE AND EXISTS ${ACRE_CUDA_INCLUDE}/cuda/memory_resource)
    set(cccl_folders ${ACRE_CUDA_INCLUDE})
endif()

# acre_mr_test(NAME SOURCE FOLDER...): a program, with the headers of these folders.
function(acre_mr_test name source)
    add_executable(${name} tests/cpp/${source})
    set_target_properties(${name} PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
        CXX_EXTENSIONS OFF RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/cpp)
    target_include_directories(${name} SYSTEM PRIVATE ${ARGN})
    target_link_libraries(${name} PRIVATE acre_shared acre_flags)
    target_compile_options(${name} PRIVATE -O0 -U_FORTIFY_SOURCE)
    acre_test_run(${name} cpp $<TARGET_FILE:${name}>)
endfunction()

# acre_mr_skipped(NAME REASON): a test that is skipped.
function(acre_mr_skipped name reason)
    # No semicolon, at which CMake would split the command.
    acre_test_run(${name} cpp ${ACRE_BASH} -c "echo \"skipped: ${reason}\" && exit 77")
endfunction()

set(no_cccl "CCCL's headers, which are part of CUDA's toolkit, are not installed")
acre_mr_test(test_cpp_mr_resource_later test_cpp_mr_resource.cpp
    ${PROJECT_SOURCE_DIR}/tests/cpp/later_cccl)
foreach(name IN ITEMS test_cpp_mr_resource test_cpp_mr_views test_cpp_mr_storage)
    if(cccl_folders)
        acre_mr_test(${name} ${name}.cpp ${cccl_folders})
    else()
        acre_mr_skipped(${name} ${no_cccl})
    endif()
endforeach()
if(ACRE_CCCL_INCLUDE)
    acre_mr_test(test_cpp_mr_resource_given test_cpp_mr_resource.cpp ${ACRE_CCCL_INCLUDE}
        ${ACRE_CUDA_INCLUDE})
endif()

set(fake_rmm ${PROJECT_SOURCE_DIR}/tests/cpp/fake_rmm)
acre_mr_test(test_cpp_mr_rmm_24 test_cpp_mr_rmm.cpp ${fake_rmm} ${fake_rmm}_class)
target_compile_definitions(test_cpp_mr_rmm_24 PRIVATE FAKE_RMM_NOEXCEPT=)
acre_mr_test(test_cpp_mr_rmm_25 test_cpp_mr_rmm.cpp ${fake_rmm} ${fake_rmm}_class)
target_compile_definitions(test_cpp_mr_rmm_25 PRIVATE FAKE_RMM_NOEXCEPT=noexcept)
acre_mr_test(test_cpp_mr_rmm_later test_cpp_mr_rmm.cpp ${fake_rmm}
    ${PROJECT_SOURCE_DIR}/tests/cpp/later_cccl)
if(ACRE_RMM_INCLUDE)
    acre_mr_test(test_cpp_mr_rmm_given test_cpp_mr_rmm.cpp ${ACRE_RMM_INCLUDE} ${cccl_folders})
endif()

# Thrust takes nvcc 20 s, so that only one file is compiled here, and only to PTX.
if(NOT ACRE_SANITIZE)
    acre_check_nvcc()
    if(ACRE_NVCC_WORKS AND cccl_folders)
        acre_test_run(test_cpp_mr_thrust cpp ${ACRE_NVCC} -std=c++17
            -gencode arch=compute_${newest},code=compute_${newest} -O0 -Xcicc -O0
            -Xcompiler -Wall,-Wextra -Werror all-warnings -I ${PROJECT_SOURCE_DIR}/include -c
            -o /dev/null
            ${PROJECT_SOURCE_DIR}/tests/gpu/cpp/thrust_on_acre.cu)
        set_tests_properties(test_cpp_mr_thrust PROPERTIES COST 100)
    else()
        acre_mr_skipped(test_cpp_mr_thrust "nvcc does not work here, or Thrust is not installed")
    endif()
endif()
