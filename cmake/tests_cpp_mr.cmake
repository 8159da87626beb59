# The tests of acre's resources for other libraries (include/acre/cpp/memory_resource.hpp, thrust.hpp,
# mdspan.hpp, rmm.hpp), in tests/cpp. All run on the soft device.
#
#   test_cpp_mr_resource         against the CCCL of the installed toolkit
#   test_cpp_mr_resource_later   against tests/cpp/later_cccl: the names of CCCL 3.1 and later
#   test_cpp_mr_resource_given   against the CCCL whose headers are in ACRE_CCCL_INCLUDE, if that is set
#
# Without the toolkit's headers a test that needs them is skipped, and says so.
if(NOT CMAKE_CXX_COMPILER)
    include(CheckLanguage)
    check_language(CXX)
endif()
if(NOT CMAKE_CXX_COMPILER)
    message(STATUS "The tests of the C++ resources are not built: no C++ compiler found")
    return()
endif()
enable_language(CXX)

set(ACRE_CCCL_INCLUDE "" CACHE PATH "Headers of another CCCL, to test acre's resources against")
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
    acre_test_run(${name} cpp ${ACRE_BASH} -c "echo '${reason}'; exit 77")
endfunction()

set(no_cccl "CCCL's headers, which are part of CUDA's toolkit, are not installed")
acre_mr_test(test_cpp_mr_resource_later test_cpp_mr_resource.cpp
    ${PROJECT_SOURCE_DIR}/tests/cpp/later_cccl)
if(cccl_folders)
    acre_mr_test(test_cpp_mr_resource test_cpp_mr_resource.cpp ${cccl_folders})
else()
    acre_mr_skipped(test_cpp_mr_resource ${no_cccl})
endif()
if(ACRE_CCCL_INCLUDE)
    acre_mr_test(test_cpp_mr_resource_given test_cpp_mr_resource.cpp ${ACRE_CCCL_INCLUDE}
        ${ACRE_CUDA_INCLUDE})
endif()
