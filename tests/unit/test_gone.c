/* The records of freed addresses, compared with one flag for each address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "space/gone.h"
#include "support/cases.h"
#include "support/random.h"

enum { ADDRESSES = 300, BASE = 4096, STEPS = 20000 };

static unsigned char is_gone[ADDRESSES];

/* The record that is found shares an address with the range, and all its addresses are gone. */
static void check_find(uint64_t at, uint64_t bytes) {
    struct acre__gone_range range = {0};
    int is_found = acre__gone_find(BASE + at, bytes, &range);
    assert_int_equal(is_found, memchr(is_gone + at, 1, bytes) != NULL);
    if (!is_found)
        return;
    assert_true(range.at < BASE + at + bytes && range.at + range.bytes > BASE + at);
    for (uint64_t i = range.at - BASE; i < range.at - BASE + range.bytes; i++)
        assert_int_equal(is_gone[i], 1);
}

static void forget_all(void) {
    acre__gone_cut(BASE, ADDRESSES);
    memset(is_gone, 0, sizeof is_gone);
}

TEST(gone_agrees_with_a_model) {
    uint64_t random = random_seed("gone");
    for (int i = 0; i < STEPS; i++) {
        if (i % 400 == 0) /* before 1024 later records replace an old one */
            forget_all();
        uint64_t at = random_draw(&random, ADDRESSES);
        uint64_t bytes = 1 + random_draw(&random, ADDRESSES - at);
        int is_add = (int)random_draw(&random, 2);
        bytes = bytes > 20 ? 1 + bytes % 20 : bytes;
        if (is_add)
            acre__gone_add(BASE + at, bytes);
        else
            acre__gone_cut(BASE + at, bytes);
        memset(is_gone + at, is_add, bytes);
        at = random_draw(&random, ADDRESSES);
        check_find(at, 1 + random_draw(&random, ADDRESSES - at));
    }
    forget_all();
    check_find(0, ADDRESSES);
}

/* The newest 1024 ranges are kept. */
TEST(gone_forgets_the_oldest_range) {
    struct acre__gone_range range;
    for (uint64_t i = 0; i < 1025; i++)
        acre__gone_add((uint64_t)1 << 40 | i * 1000, 10);
    assert_int_equal(acre__gone_find((uint64_t)1 << 40, 10, &range), 0);
    for (uint64_t i = 1; i < 1025; i++)
        assert_int_equal(acre__gone_find((uint64_t)1 << 40 | i * 1000, 10, &range), 1);
}

TEST(gone_finds_out_what_the_host_can_read) {
    size_t page = 65536; /* at least a page on every machine */
    char *p = mmap(NULL, 3 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    uint64_t at = (uintptr_t)p;
    assert_int_equal(acre__gone_is_readable(at, 3 * page), 1);
    assert_int_equal(acre__gone_is_readable(at + 1, 1), 1);
    assert_int_equal(mprotect(p, page, PROT_NONE), 0);
    assert_int_equal(acre__gone_is_readable(at, 3 * page), 0);
    assert_int_equal(acre__gone_is_readable(at + page, 2 * page), 1);
    assert_int_equal(munmap(p + 2 * page, page), 0);
    assert_int_equal(acre__gone_is_readable(at + page, page), 1);
    assert_int_equal(acre__gone_is_readable(at + page, page + 1), 0);
    munmap(p, 2 * page);
}

int main(void) {
    return tests_run("gone");
}
