# The CUDA toolkit, where there is one. Nothing here can fail the build: without a working nvcc the
# kernels are left out, without the toolkit's headers the checks against them.
#
# acre_add_kernels(<target> <file.cu>...): a library with each file as a fat binary in memory:
#   extern const unsigned char acre__<stem>_fatbin[];
#   extern const size_t acre__<stem>_fatbin_bytes;
# and ACRE_HAVE_KERNELS=1 defined for who links it. An empty library without nvcc.
set(ACRE_CUDA_ARCHS "75;80;90" CACHE STRING "Compute capabilities that kernels are built for")

find_program(ACRE_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda
    PATH_SUFFIXES bin)
set(cuda_hints "")
if(ACRE_NVCC)
    file(REAL_PATH ${ACRE_NVCC} cuda_hints)
    cmake_path(GET cuda_hints PARENT_PATH cuda_hints)
    cmake_path(GET cuda_hints PARENT_PATH cuda_hints)
endif()
find_path(ACRE_CUDA_INCLUDE cuda.h HINTS ${cuda_hints} PATHS /usr/local/cuda /opt/cuda
    PATH_SUFFIXES include)

# Whether nvcc really works: it may be there without a host compiler that it accepts.
function(acre_check_nvcc)
    if(DEFINED ACRE_NVCC_WORKS)
        return()
    endif()
    set(works FALSE)
    if(ACRE_NVCC)
        file(WRITE ${PROJECT_BINARY_DIR}/nvcc/try.cu "__global__ void kernel(int *p) { *p = 1; }\n")
        execute_process(COMMAND ${ACRE_NVCC} --fatbin -o try.fatbin try.cu
            WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/nvcc RESULT_VARIABLE result
            OUTPUT_QUIET ERROR_VARIABLE said)
        if(result EQUAL 0)
            set(works TRUE)
        else()
            message(STATUS "nvcc does not work here, kernels are left out: ${said}")
        endif()
    endif()
    set(ACRE_NVCC_WORKS ${works} CACHE INTERNAL "nvcc can compile")
endfunction()

function(acre_add_kernels target)
    set(generated "")
    if(ARGN)
        acre_check_nvcc()
    endif()
    if(ARGN AND ACRE_NVCC_WORKS)
        set(codes "")
        foreach(arch IN LISTS ACRE_CUDA_ARCHS)
            list(APPEND codes -gencode arch=compute_${arch},code=[sm_${arch},compute_${arch}])
        endforeach()
        foreach(source IN LISTS ARGN)
            cmake_path(GET source STEM stem)
            set(base ${PROJECT_BINARY_DIR}/nvcc/${stem})
            add_custom_command(OUTPUT ${base}.fatbin DEPENDS ${source} VERBATIM
                DEPFILE ${base}.d
                COMMAND ${ACRE_NVCC} --fatbin -O3 -std=c++17 --threads 4 ${codes}
                    -I ${PROJECT_SOURCE_DIR}/include -MMD -MF ${base}.d -MT ${base}.fatbin
                    -o ${base}.fatbin ${source})
            add_custom_command(OUTPUT ${base}_fatbin.c DEPENDS ${base}.fatbin VERBATIM
                COMMAND ${CMAKE_COMMAND} -DIN=${base}.fatbin -DOUT=${base}_fatbin.c
                    -DNAME=acre__${stem}_fatbin -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
            list(APPEND generated ${base}_fatbin.c)
        endforeach()
    endif()
    if(generated)
        add_library(${target} STATIC ${generated})
        target_compile_definitions(${target} INTERFACE ACRE_HAVE_KERNELS=1)
    else()
        add_library(${target} INTERFACE)
    endif()
endfunction()
