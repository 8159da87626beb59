# Writes acre_heap.h and the headers of include/acre/heap as one file, for programs that give
# their source to NVRTC as a string (CuPy's RawKernel, torch.cuda):
#
#   cmake -DINCLUDE=include -DOUTPUT=acre_heap_rtc.h -P cmake/merge_heap.cmake
#
# Headers of the host stay as they are: NVRTC does not reach those lines. Other compilers get
# acre_heap.h.
cmake_minimum_required(VERSION 3.20)

# In the order of their includes.
set(parts base layout pages slab blocks plain debug)
set(text "/* Generated from acre_heap.h. All of acre's heap for kernels that NVRTC compiles. */
#ifndef __CUDACC_RTC__
#include \"acre_heap.h\"
#else
")

function(append path)
    file(READ ${path} part)
    foreach(name base layout pages slab blocks plain debug)
        string(REPLACE "#include \"${name}.h\"\n" "" part "${part}")
        string(REPLACE "#include \"heap/${name}.h\"\n" "" part "${part}")
    endforeach()
    if(path MATCHES "acre/heap\\.h$")
        file(READ ${INCLUDE}/acre/heap/dropin.h dropin)
        string(REPLACE "#include \"heap/dropin.h\"\n" "${dropin}" part "${part}")
        file(READ ${INCLUDE}/acre/heap/arena.h arena)
        string(REPLACE "#include \"heap/arena.h\"\n" "${arena}" part "${part}")
    endif()
    set(text "${text}${part}" PARENT_SCOPE)
endfunction()

foreach(name IN LISTS parts)
    append(${INCLUDE}/acre/heap/${name}.h)
endforeach()
append(${INCLUDE}/acre/heap.h)
file(WRITE ${OUTPUT} "${text}#endif\n")
