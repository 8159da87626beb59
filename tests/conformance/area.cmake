# Two programs that are not cmocka tests: the conformance suite, whose lines are compared with those
# of a real GPU, and the comparison of cuda_abi.h with the toolkit's cuda.h.
file(GLOB conformance_sources CONFIGURE_DEPENDS tests/conformance/conf*.c)
acre_test_program(conformance conformance ${conformance_sources})
set(stored ${PROJECT_SOURCE_DIR}/tests/data/conformance-h200.txt)
acre_test_run(conformance_soft conformance $<TARGET_FILE:conformance> --driver soft --check ${stored})

# On a GPU the group that breaks the device is a separate test, which runs outside
# compute-sanitizer. The other groups are read from the runner, so that none is forgotten.
file(STRINGS tests/conformance/conformance.c lines REGEX "&conf_group_")
string(REGEX MATCHALL "&conf_group_[a-z_]+" groups "${lines}")
list(TRANSFORM groups REPLACE "&conf_group_" "")
list(REMOVE_ITEM groups sticky)
list(JOIN groups "," groups)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS tests/conformance/conformance.c)
acre_test_run(conformance_cuda conformance $<TARGET_FILE:conformance> --driver cuda
    --check ${stored} --group ${groups})
acre_test_run(conformance_cuda_devicefault conformance $<TARGET_FILE:conformance> --driver cuda
    --check ${stored} --group sticky)

set(abi_sources tests/conformance/abi_check.c tests/conformance/abi_ours.c)
if(ACRE_CUDA_INCLUDE)
    list(APPEND abi_sources tests/conformance/abi_cuda.c)
endif()
acre_test_program(abi_check conformance ${abi_sources})
if(ACRE_CUDA_INCLUDE)
    target_compile_definitions(abi_check PRIVATE ACRE_HAVE_CUDA_H=1)
endif()
acre_test_run(abi_check conformance $<TARGET_FILE:abi_check>
    ${PROJECT_SOURCE_DIR}/src/driver/cuda_abi.h)
