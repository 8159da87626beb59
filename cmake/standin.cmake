# The stand-ins, in build/soft: libraries with NVIDIA's file names on top of the soft driver. `acre
# run --device soft` preloads them.
#
#   standin/driver_*.c              libcuda.so.1, with ledger/*.c and report/*.c
#   standin/runtime_*.c             libcudart.so.13, which calls only libcuda.so.1
set(standin_dir ${PROJECT_BINARY_DIR}/soft)
set(standin_targets "")

# acre_add_standin(TARGET NAME SOVERSION SOURCE...): NAME and SOVERSION form the file name.
function(acre_add_standin target name soversion)
    set(map ${PROJECT_SOURCE_DIR}/standin/lib${name}.map)
    add_library(${target} SHARED ${ARGN})
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${name} SOVERSION ${soversion} LINK_DEPENDS ${map}
        LIBRARY_OUTPUT_DIRECTORY ${standin_dir} BUILD_WITH_INSTALL_RPATH ON)
    target_include_directories(${target} PRIVATE standin ledger report src include)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    # The libraries load before the program starts, so they can use static TLS.
    target_compile_options(${target} PRIVATE -ftls-model=initial-exec)
    target_link_libraries(${target} PRIVATE acre_flags)
    target_link_options(${target} PRIVATE LINKER:--version-script=${map}
        LINKER:-z,nodelete LINKER:--as-needed LINKER:-Bsymbolic-functions)
    if(NOT ACRE_SANITIZE)
        target_link_options(${target} PRIVATE LINKER:-z,defs)
    endif()
    set(standin_targets ${standin_targets} ${target} PARENT_SCOPE)
endfunction()

file(GLOB standin_driver_sources CONFIGURE_DEPENDS standin/driver_*.c)
acre_add_standin(acre_standin_cuda cuda 1 ${standin_driver_sources} ${ledger_objects})
target_link_libraries(acre_standin_cuda PRIVATE acre_static)
target_sources(acre_standin_cuda PRIVATE ${shared_only})

file(GLOB standin_runtime_sources CONFIGURE_DEPENDS standin/runtime_*.c)
if(standin_runtime_sources)
    acre_add_standin(acre_standin_cudart cudart 13 ${standin_runtime_sources})
    target_link_libraries(acre_standin_cudart PRIVATE acre_standin_cuda)
    # DT_RPATH takes precedence over LD_LIBRARY_PATH: the runtime works only with the driver beside
    # it, and machines with a GPU may have the folder of NVIDIA's driver in that variable. Both
    # libraries are in a folder that the dynamic linker does not search, under any prefix.
    set_target_properties(acre_standin_cudart PROPERTIES INSTALL_RPATH $ORIGIN)
    target_link_options(acre_standin_cudart PRIVATE LINKER:--disable-new-dtags)
endif()
add_dependencies(acre_product ${standin_targets})
