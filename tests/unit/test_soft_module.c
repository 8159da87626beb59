/* Modules of the soft driver: it recognises PTX, checks handles, and does not launch kernels of a
 * module. */
#include "soft_fixture.h"

SOFT_TEST(module_is_ptx_whose_comments_are_skipped) {
    static const char *const ptx[] = {".version 8.0\n", "  // a comment\n.version 8.0\n",
                                      "/* a comment */ /**/\t.version 8.0\n"};
    static const char *const other[] = {"", "version 8.0\n", "// .version 8.0",
                                        "/* .version 8.0\n"};
    CUmodule module;
    for (size_t i = 0; i < sizeof ptx / sizeof ptx[0]; i++) {
        assert_ok(drv->cuModuleLoadData(&module, ptx[i]));
        assert_ok(drv->cuModuleUnload(module));
        assert_int_equal(drv->cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        assert_int_equal(drv->cuModuleLoadData(&module, other[i]), CUDA_ERROR_INVALID_IMAGE);
}

SOFT_TEST(module_has_no_kernels_that_could_be_launched) {
    CUmodule module;
    CUfunction function = NULL;
    assert_ok(drv->cuModuleLoadData(&module, ".version 8.0\n"));
    assert_int_equal(drv->cuModuleGetFunction(NULL, module, "f"), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv->cuModuleGetFunction(&function, NULL, "f"), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(drv->cuModuleGetFunction(&function, module, "f"), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(drv->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(drv->cuModuleUnload(module));
}

SOFT_TEST(module_needs_a_context) {
    CUmodule module;
    CUfunction function;
    assert_ok(drv->cuModuleLoadData(&module, ".version 8.0\n"));
    assert_ok(drv->cuCtxSetCurrent(NULL));
    assert_int_equal(drv->cuModuleLoadData(&module, ".version 8.0\n"), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(drv->cuModuleGetFunction(&function, module, "f"), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(drv->cuModuleUnload(module), CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(drv->cuCtxSetCurrent(soft_ctx[0]));
    assert_ok(drv->cuModuleUnload(module));
}

int main(void) {
    return tests_run("soft_module");
}
