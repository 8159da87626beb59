# libacre_cupy.so, whose functions CuPy calls: the Python package acre.cupy gives it their addresses. It
# needs no header of CuPy or Python.
if(NOT PROJECT_IS_TOP_LEVEL)
    return()
endif()
add_library(acre_cupy SHARED python/native/cupy_plug.c)
# No path to libacre.so where it is installed: acre.cupy loads that one first.
target_include_directories(acre_cupy PRIVATE include)
target_compile_definitions(acre_cupy PRIVATE _GNU_SOURCE)
# nodelete: CuPy frees blocks until the process ends.
target_link_options(acre_cupy PRIVATE LINKER:-z,nodelete LINKER:--as-needed)
target_link_libraries(acre_cupy PRIVATE acre_flags acre_shared)
add_dependencies(acre_product acre_cupy)
if(ACRE_INSTALL)
    install(TARGETS acre_cupy LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
