# Programs that call CUDA directly (examples/cuda), in build/examples/cuda: built against
# include/soft, which every machine has, and linked with the stand-ins, as a user would with
#
#   cc program.c -I include/soft -L build/soft -lcudart -lcuda
#
# They have no path to the libraries: `acre run --device soft` preloads the stand-ins, and on a
# machine with a GPU they find NVIDIA's. Where NVIDIA's toolkit is installed, each is built a second
# time, against its headers and libraries, in build/examples/cuda_toolkit.
#
# examples/mistakes/cuda has programs with one mistake each, in build/examples/mistakes/cuda. They are
# built like the others, against include/soft only.
#
# cuda_examples lists their names and cuda_example_folders their folders, for the tests;
# cuda_mistakes the names of the programs with mistakes.
set(cuda_examples "")
set(cuda_example_folders "")
set(cuda_mistakes "")
if(NOT TARGET acre_standin_cudart)
    return()
endif()

include(cmake/cxx.cmake)
file(GLOB cuda_example_sources CONFIGURE_DEPENDS examples/cuda/*.c)
if(CMAKE_CXX_COMPILER)
    file(GLOB more CONFIGURE_DEPENDS examples/cuda/*.cpp)
    list(APPEND cuda_example_sources ${more})
endif()

# acre_add_cuda_example(TARGET SOURCE FOLDER INCLUDE LIBRARY...): one, in build/examples/FOLDER.
function(acre_add_cuda_example target source folder headers)
    cmake_path(GET source STEM stem)
    add_executable(${target} ${source})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${stem} SKIP_BUILD_RPATH ON
        CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples/${folder})
    target_include_directories(${target} SYSTEM PRIVATE ${headers})
    target_link_options(${target} PRIVATE LINKER:--as-needed)
    target_link_libraries(${target} PRIVATE acre_flags ${ARGN})
    add_dependencies(acre_examples ${target})
endfunction()

# acre_add_cuda_examples(FOLDER INCLUDE LIBRARY...): all examples, in build/examples/FOLDER.
function(acre_add_cuda_examples folder headers)
    foreach(source IN LISTS cuda_example_sources)
        cmake_path(GET source STEM stem)
        acre_add_cuda_example(example_${folder}_${stem} ${source} ${folder} ${headers} ${ARGN})
    endforeach()
endfunction()

foreach(source IN LISTS cuda_example_sources)
    cmake_path(GET source STEM stem)
    list(APPEND cuda_examples ${stem})
endforeach()
acre_add_cuda_examples(cuda ${PROJECT_SOURCE_DIR}/include/soft acre_standin_cudart
    acre_standin_cuda)
list(APPEND cuda_example_folders cuda)

file(GLOB cuda_mistake_sources CONFIGURE_DEPENDS examples/mistakes/cuda/*.c)
foreach(source IN LISTS cuda_mistake_sources)
    cmake_path(GET source STEM stem)
    list(APPEND cuda_mistakes ${stem})
    acre_add_cuda_example(mistake_${stem} ${source} mistakes/cuda
        ${PROJECT_SOURCE_DIR}/include/soft acre_standin_cudart acre_standin_cuda)
    # As the programs of examples/mistakes: inlined calls would have the lines of their callers.
    target_compile_options(mistake_${stem} PRIVATE -O0 -g -U_FORTIFY_SOURCE)
endforeach()

# NVIDIA's libcudart has versioned symbols, so the stand-in must have the same version. The toolkit
# has a stub of the driver's library for linking. One build of these is enough.
if(ACRE_CUDA_INCLUDE AND NOT ACRE_SANITIZE)
    find_library(ACRE_CUDART_LIBRARY cudart HINTS ${ACRE_CUDA_INCLUDE}/.. PATH_SUFFIXES lib64 lib
        NO_DEFAULT_PATH)
    find_library(ACRE_CUDA_STUB cuda HINTS ${ACRE_CUDA_INCLUDE}/.. PATH_SUFFIXES lib64/stubs
        lib/stubs NO_DEFAULT_PATH)
    file(STRINGS ${ACRE_CUDA_INCLUDE}/cuda.h version REGEX "^#define CUDA_VERSION 13")
    if(ACRE_CUDART_LIBRARY AND ACRE_CUDA_STUB AND version)
        acre_add_cuda_examples(cuda_toolkit ${ACRE_CUDA_INCLUDE} ${ACRE_CUDART_LIBRARY}
            ${ACRE_CUDA_STUB})
        list(APPEND cuda_example_folders cuda_toolkit)
    endif()
endif()
