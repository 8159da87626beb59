# The CUDA toolkit, if installed. Nothing here fails the build: without a working nvcc the kernels
# are skipped, without the toolkit's headers the checks against them.
#
# acre_add_kernels(<target> <file.cu>...): a library with each file as a fat binary in memory:
#   extern const unsigned char acre__<stem>_fatbin[];
#   extern const size_t acre__<stem>_fatbin_bytes;
# and ACRE_HAVE_KERNELS=1 defined for targets that link it. Without nvcc, and in sanitizer builds,
# which are not for GPUs, the library is empty.
#
# acre_add_cuda_program(<target> <output> <file.cu>): a program that uses the CUDA runtime and
# libacre.so, built with nvcc only. Requires ACRE_CUDA_PROGRAMS.
#
# Both contain PTX for the oldest architecture of the list, which a driver compiles for all others, and, where
# there is a GPU, code for the newest. Code takes nvcc six times as long as PTX.
set(ACRE_CUDA_ARCHS "75;80;90" CACHE STRING "Compute capabilities that kernels are built for")
set(ACRE_MACHINE_CODE AUTO CACHE STRING "Compile kernels to machine code, not only to PTX: ON, OFF or AUTO (if there is a GPU)")
set_property(CACHE ACRE_MACHINE_CODE PROPERTY STRINGS AUTO ON OFF)
set(ACRE_HAVE_GPU OFF)
if(EXISTS /dev/nvidiactl OR EXISTS /dev/nvidia0)
    set(ACRE_HAVE_GPU ON)
endif()

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

# Checks that nvcc works: it may be installed without a host compiler that it accepts.
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
            message(STATUS "nvcc does not work, kernels are skipped: ${said}")
        endif()
    endif()
    set(ACRE_NVCC_WORKS ${works} CACHE INTERNAL "nvcc can compile")
endfunction()

# Checks that nvcc can link programs, which needs the host's C++ library.
function(acre_check_cuda_programs)
    acre_check_nvcc()
    if(DEFINED ACRE_CUDA_PROGRAMS)
        return()
    endif()
    set(works FALSE)
    if(ACRE_NVCC_WORKS AND ACRE_KERNELS AND NOT ACRE_SANITIZE)
        file(WRITE ${PROJECT_BINARY_DIR}/nvcc/main.cu
            "#include <cstdio>\nint main() { return std::printf(\"%d\", cudaDeviceSynchronize()) < 0; }\n")
        execute_process(COMMAND ${ACRE_NVCC} -std=c++17 -o main main.cu
            WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/nvcc RESULT_VARIABLE result
            OUTPUT_QUIET ERROR_VARIABLE said)
        if(result EQUAL 0)
            set(works TRUE)
        else()
            message(STATUS "nvcc cannot link programs, examples for GPUs are skipped: ${said}")
        endif()
    endif()
    set(ACRE_CUDA_PROGRAMS ${works} CACHE INTERNAL "nvcc can make programs")
endfunction()

list(GET ACRE_CUDA_ARCHS 0 oldest)
list(GET ACRE_CUDA_ARCHS -1 newest)
set(ACRE_NVCC_FLAGS -O3 -std=c++17 -I ${PROJECT_SOURCE_DIR}/include
    -gencode arch=compute_${oldest},code=compute_${oldest})
if(ACRE_MACHINE_CODE STREQUAL "ON" OR (ACRE_MACHINE_CODE STREQUAL "AUTO" AND ACRE_HAVE_GPU))
    list(APPEND ACRE_NVCC_FLAGS -gencode arch=compute_${newest},code=sm_${newest})
endif()

function(acre_add_kernels target)
    set(generated "")
    if(ARGN)
        acre_check_nvcc()
    endif()
    if(ARGN AND ACRE_NVCC_WORKS AND ACRE_KERNELS AND NOT ACRE_SANITIZE)
        foreach(source IN LISTS ARGN)
            cmake_path(GET source STEM stem)
            set(base ${PROJECT_BINARY_DIR}/nvcc/${stem})
            add_custom_command(OUTPUT ${base}.fatbin DEPENDS ${source} VERBATIM
                DEPFILE ${base}.d
                COMMAND ${ACRE_NVCC} --fatbin ${ACRE_NVCC_FLAGS} -MMD -MF ${base}.d
                    -MT ${base}.fatbin -o ${base}.fatbin ${source})
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

function(acre_add_cuda_program target output source)
    set(warnings -Xcompiler -Wall,-Wextra)
    if(ACRE_WERROR)
        list(APPEND warnings -Werror all-warnings)
    endif()
    cmake_path(GET output PARENT_PATH folder)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${output} DEPENDS ${source} acre_shared VERBATIM DEPFILE ${output}.d
        COMMAND ${ACRE_NVCC} ${ACRE_NVCC_FLAGS} ${warnings} -MMD -MF ${output}.d -MT ${output}
            -o ${output} ${source} $<TARGET_LINKER_FILE:acre_shared>
            -Xlinker -rpath=$<TARGET_FILE_DIR:acre_shared>)
    add_custom_target(${target} ALL DEPENDS ${output})
endfunction()
