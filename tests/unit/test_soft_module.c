/* Modules of the soft driver: it recognises images, checks handles, and does not launch kernels of
 * a module. */
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

/* The first bytes of an ELF file for that machine. */
static void image_elf(unsigned char image[64], unsigned char bits, unsigned char machine) {
    static const unsigned char begin[] = {0x7f, 'E', 'L', 'F'};
    memset(image, 0, 64);
    memcpy(image, begin, sizeof begin);
    image[4] = bits;
    image[5] = 1;
    image[18] = machine;
}

SOFT_TEST(module_is_a_cubin_or_a_fat_binary) {
    static const unsigned char fat[16] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0};
    unsigned char elf[64];
    CUmodule module;
    image_elf(elf, 2, 190);
    assert_ok(drv->cuModuleLoadData(&module, elf));
    assert_ok(drv->cuModuleUnload(module));
    assert_ok(drv->cuModuleLoadDataEx(&module, elf, 0, NULL, NULL));
    assert_ok(drv->cuModuleUnload(module));
    assert_ok(drv->cuModuleLoadData(&module, fat));
    assert_ok(drv->cuModuleUnload(module));
    image_elf(elf, 2, 62); /* a program of the host */
    assert_int_equal(drv->cuModuleLoadData(&module, elf), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(drv->cuModuleLoadDataEx(&module, elf, 0, NULL, NULL),
                     CUDA_ERROR_INVALID_IMAGE);
    image_elf(elf, 1, 190);
    assert_int_equal(drv->cuModuleLoadData(&module, elf), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(drv->cuModuleLoadData(&module, "\177ELF"), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(drv->cuModuleLoadData(&module, "P"), CUDA_ERROR_INVALID_IMAGE);
}

SOFT_TEST(module_options_return_empty_logs) {
    char info[8] = "old", error[8] = "old", kept[8] = "old";
    CUjit_option options[] = {CU_JIT_WALL_TIME, CU_JIT_INFO_LOG_BUFFER,
                              CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_ERROR_LOG_BUFFER};
    void *eight = (void *)(uintptr_t)8, *values[] = {eight, info, eight, eight, error};
    void *none[] = {eight, kept, NULL, NULL, kept};
    CUmodule module;
    assert_ok(drv->cuModuleLoadDataEx(&module, ".version 8.0\n", 5, options, values));
    assert_ok(drv->cuModuleUnload(module));
    assert_string_equal(info, "");
    assert_string_equal(error, "");
    assert_null(values[0]);
    assert_null(values[2]);
    assert_null(values[3]);
    assert_ok(drv->cuModuleLoadDataEx(&module, ".version 8.0\n", 5, options, none));
    assert_ok(drv->cuModuleUnload(module));
    assert_string_equal(kept, "old"); /* a buffer of 0 bytes */
    assert_int_equal(drv->cuModuleLoadDataEx(&module, ".version 8.0\n", 1, NULL, values),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv->cuModuleLoadDataEx(&module, NULL, 0, NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
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
