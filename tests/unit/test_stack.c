/* Call stacks and where blocks come from: stored once, found by name and line, kept across frees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cases.h"
#include "base/lines.h"
#include "base/stack.h"
#include "base/stack_memo.h"
#include "base/symbol.h"
#include "child.h"
#include "watch/origin.h"

static const struct acre__what thing = {"make", "test", "thing", "things"};

static char heard[64][ACRE__LOG_LINE];
static unsigned heard_count;

static void hear(void *user, acre_log_level level, const char *area, const char *line) {
    (void)user, (void)level, (void)area;
    if (heard_count < 64)
        snprintf(heard[heard_count++], sizeof heard[0], "%s", line);
}

static int on(void **state) {
    (void)state;
    heard_count = 0;
    return acre__stacks_begin() || acre_log_set(hear, NULL, ACRE_LOG_WARN) ? -1 : 0;
}

static __attribute__((noinline)) uint32_t take_here(void) {
    uint32_t stack = acre__stack_take();
    __asm__ volatile("" ::: "memory"); /* no tail call */
    return stack;
}

TEST_WITH(stack_is_stored_once, on, NULL) {
    uint32_t first = 0;
    for (int i = 0; i < 100; i++) {
        uint32_t stack = take_here();
        assert_true(stack != 0);
        if (i)
            assert_int_equal(stack, first);
        first = stack;
    }
    uint32_t other = take_here();
    assert_true(other != first && other != 0);
    uintptr_t frames[ACRE__STACK_MOST];
    assert_in_range(acre__stack_frames(first, frames), 3, ACRE__STACK_MOST);
    assert_int_equal(acre__stack_frames(0, frames), 0);
}

TEST_WITH(stack_has_names_and_lines, on, NULL) {
    char where[ACRE__FRAME_TEXT];
    uint32_t stack = take_here();
    acre__stack_where(stack, where);
    if (!strstr(where, "take_here at"))
        fail_msg("%s", where);
    assert_non_null(strstr(where, "test_stack.c:"));
    char lines[40][ACRE__LOG_LINE];
    unsigned count = acre__stack_lines(stack, lines, 0, 40);
    assert_in_range(count, 2, 40);
    if (!strstr(lines[0], "called by stack_has_names_and_lines at"))
        fail_msg("%s", lines[0]);
    assert_non_null(strstr(lines[count - 1], "called by main at")); /* nothing above main */
    acre__stack_where(0, where);
    assert_string_equal(where, "");
}

/* An array in place of a stack: frames 11, 22, 33 with other words between them. */
TEST(memo_recalls_a_stack_that_is_unchanged) {
    static uintptr_t memory[16] = {11, 5, 5, 22, 22, 5, 5, 33, 5};
    static struct acre__walk walk = {.count = 3, .frames = {11, 22, 33}};
    walk.ends[0] = (uintptr_t)&memory[1];
    walk.ends[1] = (uintptr_t)&memory[6]; /* the last 22 below is the return address */
    walk.ends[2] = (uintptr_t)&memory[9];
    assert_int_equal(acre__stack_recall(&memory[0]), 0);
    acre__stack_remember(&memory[0], &walk, 7);
    assert_int_equal(acre__stack_recall(&memory[0]), 7);
    memory[1] = memory[3] = 99; /* words that are no return addresses */
    assert_int_equal(acre__stack_recall(&memory[0]), 7);
    memory[7] = 34; /* another caller of the caller */
    assert_int_equal(acre__stack_recall(&memory[0]), 0);
    memory[7] = 33;
    assert_int_equal(acre__stack_recall(&memory[0]), 7);
    memory[0] = 12; /* another line of the same function */
    assert_int_equal(acre__stack_recall(&memory[0]), 0);
    memory[0] = 11;
    assert_int_equal(acre__stack_recall(&memory[8]), 0); /* another depth */
    /* A return address that is not in memory (signed, or in a register): nothing is remembered. */
    walk.frames[1] = 23;
    acre__stack_remember(&memory[0], &walk, 8);
    assert_int_equal(acre__stack_recall(&memory[0]), 0);
}

static void *take_many(void *numbers) {
    for (int i = 0; i < 2000; i++)
        ((uint32_t *)numbers)[i % 2] = take_here();
    return NULL;
}

TEST_WITH(stack_of_threads_is_one, on, NULL) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS][2];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, numbers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_true(numbers[i][0] != 0);
        assert_int_equal(numbers[i][0], numbers[0][0]);
    }
}

TEST_WITH(origin_keeps_the_first_free, on, NULL) {
    static char block[16];
    struct acre__origin origin;
    assert_false(acre__origin_find(block, &origin));
    acre__origin_add(block, 16, &thing, &thing, "soft:9");
    assert_true(acre__origin_find(block, &origin));
    assert_true(origin.is_live && origin.allocated && !origin.freed);
    assert_int_equal(origin.bytes, 16);
    assert_false(acre__origin_log_double_free(block)); /* it is live */
    int is_marked = acre__origin_free(block);
    assert_true(is_marked);
    assert_false(acre__origin_free(block)); /* a second free does not hide the first */
    assert_true(acre__origin_find(block, &origin));
    uint32_t freed = origin.freed;
    assert_true(freed && !origin.is_live);
    assert_true(acre__origin_log_double_free(block));
    assert_non_null(strstr(heard[0], "soft:9: double free: 16 bytes at "));
    assert_non_null(strstr(heard[0], "freed again by origin_keeps_the_first_free at "));
    acre__origin_unfree(block, is_marked);
    assert_true(acre__origin_find(block, &origin) && origin.is_live && !origin.freed);
    acre__origin_forget(block);
    assert_false(acre__origin_log_double_free(block)); /* it was not freed */
    acre__origin_add(block, 32, &thing, &thing, "soft:9");
    assert_true(acre__origin_find(block, &origin) && origin.is_live && origin.bytes == 32);
    assert_true(acre__origin_free(block));
}

/* Many blocks at different addresses: the table grows, and drops freed ones. */
TEST_WITH(origin_table_keeps_live_blocks, on, NULL) {
    enum { BLOCKS = 40000 };
    struct acre__origin origin;
    for (uintptr_t i = 1; i <= BLOCKS; i++) {
        acre__origin_add((void *)(i << 12), i, &thing, heard, "soft:9");
        if (i % 10)
            assert_true(acre__origin_free((void *)(i << 12)));
    }
    for (uintptr_t i = 10; i <= BLOCKS; i += 10) {
        assert_true(acre__origin_find((void *)(i << 12), &origin));
        assert_true(origin.is_live && origin.bytes == i);
    }
    assert_true(acre__origin_log_leaks(heard, &thing));
    assert_non_null(strstr(heard[0], "soft:9: leak: 80020000 bytes in 4000 things not freed; "
                                     "allocated by origin_table_keeps_live_blocks at "));
    heard_count = 0;
    assert_true(acre__origin_log_leaks(heard, &thing)); /* forgotten: nothing is left to log */
    assert_int_equal(heard_count, 0);
}

TEST_WITH(origin_leaks_are_largest_first_and_limited, on, NULL) {
    static char blocks[3];
    acre__origin_add(&blocks[0], 10, &thing, blocks, "soft:9");
    acre__origin_add(&blocks[1], 1000, &thing, blocks, "soft:9");
    acre__origin_add(&blocks[2], 100, &thing, blocks, "soft:9");
    acre__origin_resize(&blocks[2], 5000);
    assert_true(acre__origin_log_leaks(blocks, &thing));
    unsigned leaks = 0;
    uint64_t last = UINT64_MAX, bytes;
    for (unsigned i = 0; i < heard_count; i++)
        if (sscanf(heard[i], "soft:9: leak: %" SCNu64 " bytes in 1 thing not freed", &bytes) == 1) {
            assert_true(bytes < last);
            last = bytes;
            leaks++;
        }
    assert_int_equal(leaks, 3);
}

TEST(lines_of_a_file_that_is_none) {
    assert_null(acre__lines_open_file("/nonexistent"));
    assert_null(acre__lines_open_file("/dev/null"));
    acre__lines_close(NULL);
}

TEST_WITH(symbol_of_no_code_is_a_number, on, NULL) {
    char text[64];
    assert_int_equal(acre__symbol_text(16, text, sizeof text), ACRE__SYMBOL_OTHER);
    assert_string_equal(text, "0x10");
}

static int begin_wrong(void) {
    setenv("ACRE_STACKS", "many", 1);
    CHILD_EXPECT(acre__stacks_begin() == ACRE_E_CONFIG);
    CHILD_EXPECT(!strcmp(acre_last_detail(),
                         "ACRE_STACKS is 'many': expected a number of frames up "
                         "to 64, such as 8 or 8:fp"));
    CHILD_EXPECT(!acre__stacks_are_on() && !acre__stack_take());
    return 0;
}

static int walk_frame_pointers(void) {
    setenv("ACRE_STACKS", "8:fp", 1);
    CHILD_EXPECT(acre__stacks_begin() == ACRE_OK);
    char where[ACRE__FRAME_TEXT];
    acre__stack_where(take_here(), where);
    CHILD_EXPECT(strstr(where, "take_here at"));
    return 0;
}

/* Children, since the variables are read once; before any other test reads them. */
static void test_children(void **state) {
    (void)state;
    assert_child_ok(begin_wrong);
    assert_child_ok(walk_frame_pointers);
}

int main(void) {
    setenv("ACRE_DEBUG", "1", 1);
    setenv("ACRE_LOG", "/dev/null", 1);
    unsetenv("ACRE_STACKS");
    const struct CMUnitTest first[] = {cmocka_unit_test(test_children)};
    int failed = cmocka_run_group_tests_name("stack_children", first, NULL, NULL);
    return failed ? failed : tests_run("stack");
}
