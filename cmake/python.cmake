# The Python package, copied to build/python: PYTHONPATH=build/python python3 -c 'import acre'.
# A project that includes acre gets only the library.
if(NOT PROJECT_IS_TOP_LEVEL)
    return()
endif()
file(GLOB_RECURSE python_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python
    python/acre/*.py python/acre/*.pyi python/acre/*.cpp python/acre/py.typed)
set(python_copies "")
foreach(file IN LISTS python_files)
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/python/${file} DEPENDS ${PROJECT_SOURCE_DIR}/python/${file} VERBATIM
        COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/python/${file} ${PROJECT_BINARY_DIR}/python/${file})
    list(APPEND python_copies ${PROJECT_BINARY_DIR}/python/${file})
endforeach()

# libacre_python.so, the part of the package that is C. Python's functions come from the interpreter
# that loads it, so that it needs neither Python's headers nor a library of Python.
add_library(acre_python_native MODULE python/native/python_native.c)
target_include_directories(acre_python_native PRIVATE include)
target_link_libraries(acre_python_native PRIVATE acre_flags)
# nodelete: libraries that took a tensor free it until the process ends.
target_link_options(acre_python_native PRIVATE LINKER:-z,nodelete)
set_target_properties(acre_python_native PROPERTIES OUTPUT_NAME acre_python PREFIX lib C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
if(ACRE_INSTALL)
    install(TARGETS acre_python_native LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

add_custom_target(acre_python ALL DEPENDS ${python_copies})
add_dependencies(acre_product acre_python acre_python_native)

# acre_plug(NAME SOURCE...): a library whose functions PyTorch or CuPy calls; the package gives it their
# addresses. It needs no header of theirs, and, installed, no path: the package loads libacre.so first.
# nodelete: they free blocks until the process ends.
function(acre_plug name)
    add_library(${name} SHARED ${ARGN})
    target_include_directories(${name} PUBLIC python/native PRIVATE include)
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
    target_link_options(${name} PRIVATE LINKER:-z,nodelete LINKER:--as-needed)
    target_link_libraries(${name} PRIVATE acre_flags acre_shared)
    add_dependencies(acre_product ${name})
    if(ACRE_INSTALL)
        install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endif()
endfunction()
file(GLOB torch_sources CONFIGURE_DEPENDS python/native/torch_*.c)
acre_plug(acre_torch ${torch_sources})
acre_plug(acre_cupy python/native/cupy_plug.c)
