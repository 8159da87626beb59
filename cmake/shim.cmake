# The shim, in build/shim: hooks in front of NVIDIA's libcuda.so.1. `acre run --watch` preloads it.
#
#   shim/shim*.c         libacre_shim.so, with ledger/*.c and report/*.c
#   shim/gate_audit.c    libacre_gate.so, an audit library
#   shim/gate_preload.c  libacre_dlsym.so, for systems without audit libraries
#   shim/elf_find.c      part of all three
set(shim_dir ${PROJECT_BINARY_DIR}/shim)

# acre_add_shim(TARGET SOURCE...): the file is lib<TARGET>.so.
function(acre_add_shim target)
    add_library(${target} SHARED ${ARGN} shim/elf_find.c)
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${shim_dir}
        BUILD_WITH_INSTALL_RPATH ON C_VISIBILITY_PRESET hidden)
    target_include_directories(${target} PRIVATE shim ledger report src include)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    target_compile_options(${target} PRIVATE -ftls-model=initial-exec -ffunction-sections)
    target_link_options(${target} PRIVATE LINKER:-z,nodelete LINKER:--as-needed
        LINKER:-Bsymbolic-functions LINKER:--gc-sections)
endfunction()

file(GLOB shim_sources CONFIGURE_DEPENDS shim/shim*.c)
acre_add_shim(acre_shim ${shim_sources} ${ledger_objects})
target_link_libraries(acre_shim PRIVATE acre_flags acre_static)
target_sources(acre_shim PRIVATE ${shared_only})
set(shim_map ${PROJECT_SOURCE_DIR}/shim/shim.map)
set_target_properties(acre_shim PROPERTIES LINK_DEPENDS ${shim_map})
# The shim unwinds stacks, and must not load libgcc_s.so.1 into a program.
# Nothing refers to the words for `acre suspend`, which a constructor registers.
target_link_options(acre_shim PRIVATE LINKER:--version-script=${shim_map} -static-libgcc
    LINKER:--undefined=acre__suspend_words)

# In its own namespace an audit library finds no sanitizer, so it has its own flags.
acre_add_shim(acre_gate shim/gate_audit.c)
target_compile_options(acre_gate PRIVATE -O2 -Wall -Wextra)
acre_add_shim(acre_dlsym shim/gate_preload.c)
target_compile_options(acre_dlsym PRIVATE -O2 -Wall -Wextra)
target_link_libraries(acre_dlsym PRIVATE acre_shim)
set(shim_targets acre_shim acre_gate acre_dlsym)
add_dependencies(acre_product ${shim_targets})
