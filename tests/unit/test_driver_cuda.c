/*
 * The CUDA loader, without a GPU: a missing library, a file that is not a library, libraries that
 * are too old in several ways, the toolkit's stub, and a complete library. The libraries are small
 * shared objects that the test compiles; without a compiler those cases are skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cases.h"
#include "driver/driver.h"

extern char **environ;

static struct {
    char folder[64];
    int have_compiler;
} fakes;

/*
 * A library whose lookup finds every name except LACKS. Switches: NO_LOOKUP, LOOKUP_V1 (the form of
 * CUDA 11), STUB, EXPORTS (the library still exports LACKS by name).
 */
static const char fake_source[] =
    "#include <string.h>\n"
    "#ifndef LACKS\n#define LACKS \"\"\n#endif\n"
    "static int any(void) { return 0; }\n"
    "static int by_name(const char *name, void **out, int version, unsigned long flags) {\n"
    "    *out = 0;\n"
    "#ifdef STUB\n    return 34;\n#endif\n"
    "    if (flags != 1 || version < 2000 || strcmp(name, LACKS) == 0) return 500;\n"
    "    *out = (void *)any;\n"
    "    return 0;\n"
    "}\n"
    "#ifdef EXPORTS\nint EXPORTS(void) { return 42; }\n#endif\n"
    "#if defined LOOKUP_V1\n"
    "int cuGetProcAddress(const char *n, void **o, int v, unsigned long f) {\n"
    "    return by_name(n, o, v, f);\n"
    "}\n"
    "#elif !defined NO_LOOKUP\n"
    "int cuGetProcAddress_v2(const char *n, void **o, int v, unsigned long f, int *s) {\n"
    "    int code = by_name(n, o, v, f);\n"
    "    *s = code == 0 ? 0 : 1;\n"
    "    return code;\n"
    "}\n"
    "#else\nint cuInit(unsigned f) { return any() + (int)f + by_name(0, 0, 0, 0); }\n"
    "#endif\n";

static int run(char *const argv[]) {
    pid_t pid;
    int status;

    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void path_of(const char *name, char path[128]) {
    snprintf(path, 128, "%s/%s", fakes.folder, name);
}

/* Compiles the fake with up to two switches and writes the library's path to `path`. */
static void build(const char *name, const char *switch1, const char *switch2, char path[128]) {
    char source[128];
    const char *cc = getenv("CC");
    char *argv[] = {(char *)(uintptr_t)(cc != NULL && *cc != '\0' ? cc : "cc"),
                    (char *)(uintptr_t) "-shared",
                    (char *)(uintptr_t) "-fPIC",
                    (char *)(uintptr_t) "-o",
                    path,
                    source,
                    (char *)(uintptr_t)switch1,
                    (char *)(uintptr_t)switch2,
                    NULL};

    if (!fakes.have_compiler)
        skip();
    path_of("fake.c", source);
    path_of(name, path);
    assert_int_equal(run(argv), 0);
}

static int group_setup(void **state) {
    char path[128];
    FILE *file;

    (void)state;
    snprintf(fakes.folder, sizeof fakes.folder, "/tmp/acre-driver-XXXXXX");
    if (mkdtemp(fakes.folder) == NULL)
        return -1;
    path_of("fake.c", path);
    file = fopen(path, "w");
    if (file == NULL || fputs(fake_source, file) < 0 || fclose(file) != 0)
        return -1;
    /* A shell finds the compiler in the same way as make. */
    fakes.have_compiler = system("command -v \"${CC:-cc}\" >/dev/null 2>&1") == 0;
    return 0;
}

static int group_teardown(void **state) {
    static const char *const files[] = {"fake.c", "text.so", "full.so",     "v1.so",     "bare.so",
                                        "opt.so", "stub.so", "required.so", "exports.so"};
    char path[128];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof files / sizeof files[0]; i++) {
        path_of(files[i], path);
        unlink(path);
    }
    return rmdir(fakes.folder);
}

static void assert_no_pointer(const struct acre__driver *table) {
    static const struct acre__driver zero;

    assert_memory_equal(table, &zero, sizeof zero);
}

static void assert_every_pointer(const struct acre__driver *table) {
#define HAS_POINTER(entry, symbol, version, need, sticky, calls, moved, params, args)              \
    assert_non_null(table->entry);
    ACRE__DRIVER_LIST(HAS_POINTER)
}

TEST(loader_absent_library_is_no_driver) {
    struct acre__driver table;

    memset(&table, 1, sizeof table);
    assert_int_equal(acre__driver_cuda_load("libacre-no-such-driver.so.1", &table),
                     ACRE_E_NO_DRIVER);
    assert_non_null(strstr(acre_last_detail(), "libacre-no-such-driver.so.1"));
    assert_no_pointer(&table);
}

TEST(loader_text_file_is_no_driver) {
    struct acre__driver table;
    char path[128];
    FILE *file;

    path_of("text.so", path);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("this is not a library\n", file);
    fclose(file);
    assert_int_equal(acre__driver_cuda_load(path, &table), ACRE_E_NO_DRIVER);
    assert_non_null(strstr(acre_last_detail(), path));
    assert_no_pointer(&table);
}

TEST(loader_stub_is_no_driver) {
    struct acre__driver table;
    char path[128];

    build("stub.so", "-DSTUB", NULL, path);
    assert_int_equal(acre__driver_cuda_load(path, &table), ACRE_E_NO_DRIVER);
    assert_non_null(strstr(acre_last_detail(), "stub"));
    assert_no_pointer(&table);
}

TEST(loader_without_lookup_is_old) {
    struct acre__driver table;
    char path[128];

    build("bare.so", "-DNO_LOOKUP", NULL, path);
    assert_int_equal(acre__driver_cuda_load(path, &table), ACRE_E_DRIVER_OLD);
    assert_non_null(strstr(acre_last_detail(), "cuGetProcAddress"));
    assert_no_pointer(&table);
}

TEST(loader_without_required_entry_is_old_and_names_it) {
    struct acre__driver table;
    char path[128];

    build("required.so", "-DLACKS=\"cuStreamBeginCapture\"", NULL, path);
    assert_int_equal(acre__driver_cuda_load(path, &table), ACRE_E_DRIVER_OLD);
    assert_non_null(strstr(acre_last_detail(), "cuStreamBeginCapture of CUDA 10.1"));
    assert_no_pointer(&table);
}

TEST(loader_full_library_gives_a_full_table) {
    struct acre__driver table;
    char path[128];
    unsigned i;

    build("full.so", NULL, NULL, path);
    assert_int_equal(acre__driver_cuda_load(path, &table), ACRE_OK);
    assert_string_equal(table.name, "cuda");
    assert_int_equal(table.is_soft, 0);
    assert_every_pointer(&table);
    for (i = 0; i < ACRE__ENTRY_COUNT; i++)
        assert_int_equal(acre__driver_has(&table, (enum acre__driver_entry)i), 1);
    assert_int_equal(acre__driver_has(&table, ACRE__ENTRY_COUNT), 0);
    assert_int_equal(table.cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST(loader_first_form_of_lookup_serves) {
    struct acre__driver table;
    char path[128];

    build("v1.so", "-DLOOKUP_V1", NULL, path);
    assert_int_equal(acre__driver_cuda_load(path, &table), ACRE_OK);
    assert_every_pointer(&table);
    assert_int_equal(table.cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST(loader_without_optional_entry_says_not_supported) {
    struct acre__driver table;
    unsigned long long id = 77;
    char path[128];

    build("opt.so", "-DLACKS=\"cuStreamGetId\"", NULL, path);
    assert_int_equal(acre__driver_cuda_load(path, &table), ACRE_OK);
    assert_every_pointer(&table);
    assert_int_equal(ACRE__DRIVER_HAS(&table, cuStreamGetId), 0);
    assert_int_equal(ACRE__DRIVER_HAS(&table, cuMemMap), 1);
    assert_int_equal(table.cuStreamGetId(NULL, &id), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(id, 77);
}

TEST(loader_falls_back_to_the_exported_symbol) {
    struct acre__driver table;
    char path[128];

    build("exports.so", "-DLACKS=\"cuMemFree\"", "-DEXPORTS=cuMemFree_v2", path);
    assert_int_equal(acre__driver_cuda_load(path, &table), ACRE_OK);
    assert_int_equal((int)table.cuMemFree(0), 42);
}

/* Runs in a new process, because a process loads the library only once. */
static int child(void) {
    const struct acre__driver *table = (const struct acre__driver *)&fakes;
    acre_status first = acre__driver_cuda(&table);
    char detail[256];

    snprintf(detail, sizeof detail, "%s", acre_last_detail());
    if (first == ACRE_OK)
        return table != NULL && table->cuInit(0) == CUDA_SUCCESS ? 10 : 1;
    if (table != NULL || detail[0] == '\0')
        return 2;
    if (acre__driver_cuda(&table) != first || strcmp(detail, acre_last_detail()) != 0)
        return 3;
    return first == ACRE_E_NO_DRIVER ? 11 : first == ACRE_E_DRIVER_OLD ? 12 : 4;
}

static int run_child(const char *library) {
    char *argv[] = {(char *)(uintptr_t) "/proc/self/exe", (char *)(uintptr_t) "--child", NULL};
    int result;

    setenv("ACRE_CUDA_LIBRARY", library, 1);
    result = run(argv);
    unsetenv("ACRE_CUDA_LIBRARY");
    return result;
}

TEST(loader_of_the_process_keeps_failure_and_detail) {
    assert_int_equal(run_child("/nowhere/libcuda.so.1"), 11);
}

TEST(loader_of_the_process_takes_the_library_named) {
    char path[128];

    build("full.so", NULL, NULL, path);
    assert_int_equal(run_child(path), 10);
    build("bare.so", "-DNO_LOOKUP", NULL, path);
    assert_int_equal(run_child(path), 12);
}

TEST(names_follow_the_lists) {
    assert_string_equal(acre__driver_error_name(CUDA_SUCCESS), "CUDA_SUCCESS");
    assert_string_equal(acre__driver_error_name((CUresult)700), "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_string_equal(acre__driver_error_name((CUresult)12345), "CUDA_ERROR_?");
    assert_string_equal(acre__driver_error_text(CUDA_ERROR_NOT_READY), "work is still running");
    assert_string_equal(acre__driver_entry_name(ACRE__ENTRY_cuMemMap), "cuMemMap");
    assert_null(acre__driver_entry_name(ACRE__ENTRY_COUNT));
    assert_int_equal(acre__driver_entry_find("cuMemMap"), ACRE__ENTRY_cuMemMap);
    assert_int_equal(acre__driver_entry_find("cuMemMa"), ACRE__ENTRY_COUNT);
}

int main(int argc, char **argv) {

    if (argc > 1 && strcmp(argv[1], "--child") == 0)
        return child();
    return tests_run_with("driver_cuda", group_setup, group_teardown);
}
