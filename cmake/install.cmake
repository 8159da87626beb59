# Install rules, the CMake package and the pkg-config files.
include(CMakePackageConfigHelpers)

install(TARGETS acre_shared acre_static acre_cpp acre_heap EXPORT acre-targets)
install(FILES ${heap_rtc} TYPE INCLUDE)
install(DIRECTORY include/ TYPE INCLUDE FILES_MATCHING PATTERN *.h PATTERN *.hpp PATTERN soft EXCLUDE)
install(FILES LICENSE TYPE DOC)

if(ACRE_STANDINS)
    install(TARGETS ${standin_targets} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/acre/soft)
    install(TARGETS ${shim_targets} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/acre/shim)
    # Not in a default include path, where they would hide NVIDIA's headers.
    file(GLOB soft_headers CONFIGURE_DEPENDS include/soft/*.h)
    install(FILES ${soft_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/acre/soft)
endif()

foreach(page IN LISTS man_pages)
    cmake_path(GET page EXTENSION LAST_ONLY section)
    string(SUBSTRING ${section} 1 -1 section)
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

if(TARGET acre_cli)
    # Not part of the CMake package, so that distributions can package the tool separately.
    install(TARGETS acre_cli)
    # In a folder that the dynamic linker searches by default, the tool needs no RUNPATH, and
    # distributions forbid one. These are the folders searched without ldconfig; /usr/local/lib is
    # not among them. The prefix is that of the installation: `cmake --install --prefix` may change
    # it.
    set(system_folders /lib /usr/lib /lib64 /usr/lib64
        /lib/${CMAKE_LIBRARY_ARCHITECTURE} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
    set(loader_folders "")
    foreach(folder IN LISTS CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
        if(folder IN_LIST system_folders)
            list(APPEND loader_folders ${folder})
        endif()
    endforeach()
    install(CODE "
        set(libraries \"${CMAKE_INSTALL_LIBDIR}\")
        set(programs \"${CMAKE_INSTALL_BINDIR}\")
        cmake_path(ABSOLUTE_PATH libraries BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
        cmake_path(ABSOLUTE_PATH programs BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
        set(loader_folders \"${loader_folders}\")
        list(FIND loader_folders \"\${libraries}\" found)
        if(NOT found EQUAL -1)
            file(RPATH_REMOVE FILE \"\$ENV{DESTDIR}\${programs}/acre\")
        endif()")
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/acre)
install(EXPORT acre-targets NAMESPACE acre:: DESTINATION ${package_dir})
configure_package_config_file(cmake/acre-config.cmake.in acre-config.cmake
    INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the API.
write_basic_package_version_file(acre-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    ${PROJECT_BINARY_DIR}/acre-config.cmake ${PROJECT_BINARY_DIR}/acre-config-version.cmake
    DESTINATION ${package_dir})

# The pkg-config files have their prefix relative to themselves, so that the tree can be moved. Folders
# given as absolute paths stay absolute.
set(pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
    set(pc_prefix "\${pcfiledir}/${to_prefix}")
endif()
foreach(folder INCLUDEDIR LIBDIR)
    set(pc_${folder} ${CMAKE_INSTALL_${folder}})
    if(NOT IS_ABSOLUTE ${pc_${folder}})
        set(pc_${folder} "\${prefix}/${pc_${folder}}")
    endif()
endforeach()
foreach(name acre acre-cpp acre-heap)
    configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
