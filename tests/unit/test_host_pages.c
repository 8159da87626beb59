/* Host pages: mapping in whole pages, touching, unmapping. A request above the host's memory fails
 * before any page is touched. */
#include <sys/mman.h>

#include "soft_fixture.h"
#include "space/host_pages.h"

static size_t resident_bytes(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int is_mapped(const void *p, size_t bytes) {
    return msync((void *)(uintptr_t)p, bytes, MS_ASYNC) == 0;
}

/* Returns the number of resident pages. */
static size_t touched_pages(void *p, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0, pages = bytes / page;
    unsigned char *there = malloc(pages);
    assert_non_null(there);
    assert_int_equal(mincore(p, bytes, there), 0);
    for (size_t i = 0; i < pages; i++)
        count += there[i] & 1;
    free(there);
    return count;
}

TEST(pages_of_every_size_are_whole_touched_and_zero) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t sizes[] = {1,           page - 1, page,    page + 1,    2 * MIB - 1,  2 * MIB,
                            2 * MIB + 1, 7 * MIB,  8 * MIB, 8 * MIB + 1, 23 * MIB + 5, 64 * MIB,
                            64 * MIB - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *p = NULL;
        size_t whole = 0, unit = sizes[i] >= 2 * MIB ? 2 * MIB : page;
        assert_int_equal(acre__host_pages_make(sizes[i], &p, &whole), ACRE_OK);
        assert_int_equal(whole, (sizes[i] + unit - 1) / unit * unit);
        assert_int_equal((uintptr_t)p % unit, 0);
        assert_int_equal(touched_pages(p, whole), whole / page);
        unsigned char *at = p;
        assert_int_equal(at[0], 0);
        assert_int_equal(at[whole - 1], 0);
        at[0] = at[whole - 1] = 1;
        acre__host_pages_free(p, whole);
        assert_false(is_mapped(p, page));
    }
}

/* The pages around the aligned part are unmapped at once. */
TEST(pages_leave_nothing_around_them) {
    size_t before = resident_bytes();
    for (int i = 0; i < 50; i++) {
        void *p = NULL;
        size_t whole = 0;
        assert_int_equal(acre__host_pages_make(6 * MIB + 1, &p, &whole), ACRE_OK);
        acre__host_pages_free(p, whole);
    }
    assert_true(resident_bytes() < before + 16 * MIB);
}

TEST(pages_beyond_what_there_is_are_refused_untouched) {
    size_t ram = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    const size_t sizes[] = {ram + 1, (size_t)1 << 45, PTRDIFF_MAX, SIZE_MAX - 4 * MIB, SIZE_MAX};
    size_t before = resident_bytes();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *p = NULL;
        size_t whole = 0;
        assert_int_equal(acre__host_pages_make(sizes[i], &p, &whole), ACRE_E_HOST_MEMORY);
        assert_null(p);
        assert_true(acre_last_detail()[0] != '\0');
        assert_int_equal(acre__host_pages_check(sizes[i]), ACRE_E_HOST_MEMORY);
    }
    assert_int_equal(acre__host_pages_check(1), ACRE_OK);
    assert_true(resident_bytes() < before + 16 * MIB);
}

#if !defined(ACRE_SANITIZE_asan) && !defined(ACRE_SANITIZE_tsan)
/* Without address space mmap fails: the call reports it and leaks nothing. Runs in a child, because
 * the limit cannot be raised again. */
TEST(pages_without_addresses_are_refused) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit limit = {512 * MIB, 512 * MIB};
        void *p = NULL;
        size_t whole = 0;
        if (setrlimit(RLIMIT_AS, &limit))
            _exit(2);
        if (acre__host_pages_make(GIB, &p, &whole) != ACRE_E_HOST_MEMORY || p)
            _exit(3);
        _exit(acre__host_pages_make(MIB, &p, &whole) == ACRE_OK ? 0 : 4);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
#endif

/* If threads cannot be created, the caller touches the pages alone. */
TEST(pages_are_touched_without_threads_too) {
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NPROC, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NPROC, &none), 0); /* root is exempt from this limit */
    void *p = NULL;
    size_t whole = 0;
    acre_status status = acre__host_pages_make(64 * MIB, &p, &whole);
    assert_int_equal(setrlimit(RLIMIT_NPROC, &before), 0);
    assert_int_equal(status, ACRE_OK);
    assert_int_equal(touched_pages(p, whole), whole / (size_t)sysconf(_SC_PAGESIZE));
    acre__host_pages_free(p, whole);
}

static void *make_and_free(void *argument) {
    int *wrong = argument;
    for (size_t i = 0; i < 10; i++) {
        void *p = NULL;
        size_t whole = 0;
        *wrong |= acre__host_pages_make((i + 1) * 3 * MIB + i, &p, &whole) != ACRE_OK;
        if (*wrong)
            return NULL;
        memset(p, (int)i, whole);
        acre__host_pages_free(p, whole);
    }
    return NULL;
}

TEST(pages_are_made_by_several_threads_at_once) {
    pthread_t threads[4];
    int wrong[4] = {0};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_free, &wrong[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(wrong[i], 0);
    }
}

int main(void) {
    return tests_run("host_pages");
}
