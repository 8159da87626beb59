# What `make install` puts where, the CMake package and the pkg-config file.
include(CMakePackageConfigHelpers)

# The installed tool finds its library beside itself, whatever prefix was chosen.
file(RELATIVE_PATH to_libraries /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(acre_cli PROPERTIES INSTALL_RPATH $ORIGIN/${to_libraries})

# `acre run` looks for the stand-ins beside itself too.
target_compile_definitions(acre_cli PRIVATE ACRE_TO_LIBRARIES="${to_libraries}")
install(TARGETS ${standin_targets} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/acre/soft)

install(TARGETS acre_shared acre_static acre_cli EXPORT acre-targets)
file(GLOB public_headers CONFIGURE_DEPENDS include/*.h include/*.hpp)
install(FILES ${public_headers} TYPE INCLUDE)
# Not where a compiler finds them by itself: there they would hide NVIDIA's.
file(GLOB soft_headers CONFIGURE_DEPENDS include/soft/*.h)
install(FILES ${soft_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/acre/soft)
foreach(page IN LISTS man_pages)
    cmake_path(GET page EXTENSION LAST_ONLY section)
    string(SUBSTRING ${section} 1 -1 section)
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
install(FILES LICENSE TYPE DOC)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/acre)
install(EXPORT acre-targets NAMESPACE acre:: DESTINATION ${package_dir})
configure_package_config_file(cmake/acre-config.cmake.in acre-config.cmake
    INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the API.
write_basic_package_version_file(acre-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    ${PROJECT_BINARY_DIR}/acre-config.cmake ${PROJECT_BINARY_DIR}/acre-config-version.cmake
    DESTINATION ${package_dir})

# The pkg-config file names its prefix relative to itself, so that the tree can be moved.
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
configure_file(cmake/acre.pc.in acre.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/acre.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
