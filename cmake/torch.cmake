# libacre_torch.so, which the Python package acre.torch gives to PyTorch. It needs no header of PyTorch.
if(NOT PROJECT_IS_TOP_LEVEL)
    return()
endif()
file(GLOB torch_sources CONFIGURE_DEPENDS python/native/torch_*.c)
add_library(acre_torch SHARED ${torch_sources})
# Installed, it needs no path: the package loads libacre.so first.
target_include_directories(acre_torch PUBLIC python/native PRIVATE include)
target_compile_definitions(acre_torch PRIVATE _GNU_SOURCE)
# nodelete: PyTorch frees blocks until the process ends.
target_link_options(acre_torch PRIVATE LINKER:-z,nodelete LINKER:--as-needed)
target_link_libraries(acre_torch PRIVATE acre_flags acre_shared)
add_dependencies(acre_product acre_torch)
if(ACRE_INSTALL)
    install(TARGETS acre_torch LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
