/* Plans: sizes, alignment, order, messages when a request does not fit, rounds, and the classical
 * bugs of such planners, one test each. */
#include "api_plan.h"

static acre_plan_options sized(uint64_t device_bytes, uint64_t host_bytes) {
    return (acre_plan_options){.struct_size = sizeof(acre_plan_options),
                               .device_bytes = device_bytes,
                               .host_bytes = host_bytes};
}

/* The device can write these bytes and read the last 256 back. */
static void touch(struct planned *t, void *p, size_t bytes) {
    unsigned char back[256];
    size_t some = bytes < sizeof back ? bytes : sizeof back;
    api_ok(acre_fill_sync(t->device, p, 0x5a, bytes));
    api_ok(acre_copy_sync(t->device, back, (char *)p + bytes - some, some));
    for (size_t i = 0; i < some; i++)
        assert_int_equal(back[i], 0x5a);
}

/* ---- sizes ---- */

TEST(plan_default_sizes_are_said_and_taken_when_needed) {
    acre_open_options large = {.struct_size = sizeof large, .soft_bytes = (uint64_t)6 << 30};
    acre_device *device;
    api_ok(acre_open("soft", &large, &device));
    planned_listen();
    acre_plan *plan;
    api_ok(acre_plan_create(device, NULL, &plan));
    assert_int_equal(planned_log.count, 1);
    const char *line = planned_log.line;
    assert_true(strncmp(line, "plan: 4096 MB on device, ", 25) == 0);
    if (strstr(line, "clipped")) /* less than 16 GiB are free */
        assert_non_null(strstr(line, "clipped to what is free: host of 8192 MB"));
    else
        assert_string_equal(line, "plan: 4096 MB on device, 8192 MB on host");
    assert_int_equal(planned_stats(plan).device_bytes, 0);
    void *p;
    api_ok(acre_plan_want(plan, ACRE_PLACE_DEVICE, 100, 0, &p));
    assert_true(planned_stats(plan).device_bytes == (uint64_t)4 << 30);
    assert_int_equal(planned_stats(plan).host_bytes, 0);
    api_ok(acre_plan_destroy(plan));
    api_ok(acre_close(device));
    api_ok(acre_log_set(NULL, NULL, ACRE_LOG_ERROR));
}

TEST(plan_default_device_size_is_clipped_to_what_is_free_and_says_so) {
    acre_open_options small = {.struct_size = sizeof small, .soft_bytes = 64 * MIB};
    acre_device *device;
    acre_plan *plan;
    void *taken, *p;
    api_ok(acre_open("soft", &small, &device));
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 16 * MIB, 0, &taken));
    planned_listen();
    api_ok(acre_plan_create(device, NULL, &plan));
    assert_true(strncmp(planned_log.line, "plan: 48 MB on device, ", 23) == 0);
    assert_non_null(strstr(planned_log.line, "clipped to what is free: device of 4096 MB"));
    api_ok(acre_plan_want(plan, ACRE_PLACE_DEVICE, 48 * MIB, 0, &p));
    assert_int_equal(planned_stats(plan).device_bytes, 48 * MIB);
    api_ok(acre_plan_destroy(plan));
    api_ok(acre_mem_free(device, taken));
    api_ok(acre_close(device));
    api_ok(acre_log_set(NULL, NULL, ACRE_LOG_ERROR));
}

/* A request fails while other allocations hold the memory. Later requests succeed once it is
 * free. */
TEST(plan_default_size_is_whole_again_when_others_have_freed) {
    acre_open_options small = {.struct_size = sizeof small, .soft_bytes = 64 * MIB};
    acre_device *device;
    acre_plan *plan;
    void *taken, *p = UNWRITTEN;
    api_ok(acre_open("soft", &small, &device));
    api_ok(acre_plan_create(device, NULL, &plan));
    for (uint64_t rest = 0; rest <= 8; rest += 8) { /* nothing is free, then too little */
        api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, (64 - rest) * MIB, 0, &taken));
        acre_plan_stats before = planned_stats(plan);
        api_expect(acre_plan_want(plan, ACRE_PLACE_DEVICE, 48 * MIB, 0, &p), ACRE_E_DEVICE_MEMORY);
        assert_non_null(
            strstr(acre_last_detail(), "acre_plan_want: not enough device memory: desired "));
        planned_expect_same(plan, &before);
        assert_ptr_equal(p, UNWRITTEN);
        api_ok(acre_mem_free(device, taken));
    }
    api_ok(acre_plan_want(plan, ACRE_PLACE_DEVICE, 48 * MIB, 0, &p));
    api_ok(acre_plan_destroy(plan));
    api_ok(acre_close(device));
}

/* A sum that overflows 64 bits is refused as too large. */
TEST(plan_wishes_whose_sum_wraps_around_are_refused) {
    enum { HUGE = 16 };
    static const acre_plan_options needed = {.struct_size = sizeof needed,
                                             .device_bytes = ACRE_PLAN_AS_NEEDED,
                                             .host_bytes = ACRE_PLAN_AS_NEEDED};
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, &needed);
        acre_plan_wish wishes[HUGE + 1];
        void *p[HUGE + 1];
        for (int i = 0; i <= HUGE; i++) {
            p[i] = UNWRITTEN;
            wishes[i] = (acre_plan_wish){.struct_size = sizeof *wishes,
                                         .p = &p[i],
                                         .bytes = i < HUGE ? (uint64_t)1 << 60 : 256};
        }
        for (uint64_t count = HUGE; count <= HUGE + 1; count++) {
            api_expect(acre_plan_want_many(t.plan, wishes, count, 0), ACRE_E_DEVICE_MEMORY);
            assert_non_null(strstr(acre_last_detail(),
                                   "acre_plan_want_many: not enough device memory: desired "));
        }
        for (int i = 0; i <= HUGE; i++)
            assert_ptr_equal(p[i], UNWRITTEN);
        assert_int_equal(planned_stats(t.plan).device_bytes, 0);
        planned_end(&t);
    }
}

API_TEST(plan_given_sizes_are_taken_at_create_or_refused) {
    uint64_t free_bytes = api_free_bytes(device);
    acre_plan *plan = (acre_plan *)UNWRITTEN;
    acre_plan_options options = sized(8 * MIB, 3 * MIB);
    api_ok(acre_plan_create(device, &options, &plan));
    assert_int_equal(planned_stats(plan).device_bytes, 8 * MIB);
    assert_int_equal(planned_stats(plan).host_bytes, 3 * MIB);
    api_ok(acre_plan_destroy(plan));
    options = sized((uint64_t)1 << 50, MIB);
    plan = (acre_plan *)UNWRITTEN;
    api_expect(acre_plan_create(device, &options, &plan), ACRE_E_DEVICE_MEMORY);
    assert_null(plan);
    options = sized(MIB, (uint64_t)1 << 50);
    api_expect(acre_plan_create(device, &options, &plan), ACRE_E_HOST_MEMORY);
    assert_null(plan);
    api_ok(acre_trim(device));
    api_expect_free(device, free_bytes);
}

TEST(plan_as_needed_takes_what_wishes_need) {
    for (API_EACH(name)) {
        acre_plan_options options = sized(ACRE_PLAN_AS_NEEDED, ACRE_PLAN_AS_NEEDED);
        planned_listen();
        struct planned t = planned_begin(name, &options);
        assert_string_equal(planned_log.line, "plan: as needed on device, as needed on host");
        void *p[40], *host;
        assert_int_equal(planned_stats(t.plan).device_bytes, 0);
        for (size_t i = 0; i < 40; i++) {
            api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, (i + 1) * 50000, 0, &p[i]));
            touch(&t, p[i], (i + 1) * 50000);
        }
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_HOST, 5 * MIB, 0, &host));
        memset(host, 1, 5 * MIB);
        acre_plan_stats stats = planned_stats(t.plan);
        assert_true(stats.device_bytes >= stats.device_wanted_bytes);
        assert_true(stats.device_bytes <= 2 * stats.device_wanted_bytes + 4 * MIB);
        assert_int_equal(stats.host_bytes, 6 * MIB);
        /* The next round reuses the memory of this one. */
        void *again[40];
        api_ok(acre_plan_release(t.plan, t.stream));
        for (size_t i = 0; i < 40; i++) {
            api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, (i + 1) * 50000, 0, &again[i]));
            assert_ptr_equal(again[i], p[i]);
        }
        assert_int_equal(planned_stats(t.plan).device_bytes, stats.device_bytes);
        planned_end(&t);
        api_ok(acre_log_set(NULL, NULL, ACRE_LOG_ERROR));
    }
}

TEST(plan_host_memory_is_pinned_unless_told_otherwise) {
    const acre_kind kinds[] = {0, ACRE_KIND_PINNED, ACRE_KIND_MAPPED, ACRE_KIND_PAGEABLE};
    for (API_EACH(name))
        for (size_t i = 0; i < 4; i++) {
            acre_plan_options options = sized(ACRE_PLAN_AS_NEEDED, MIB);
            options.host_kind = kinds[i];
            struct planned t = planned_begin(name, &options);
            acre_mem_info info = {.struct_size = sizeof info};
            void *p;
            api_ok(acre_plan_want(t.plan, ACRE_PLACE_HOST, 1000, 0, &p));
            memset(p, 7, 1000);
            api_ok(acre_mem_query(t.device, p, &info));
            assert_int_equal(info.kind, kinds[i] ? kinds[i] : ACRE_KIND_PINNED);
            planned_end(&t);
        }
}

/* ---- alignment and order ---- */

TEST(plan_addresses_are_multiples_of_what_was_asked_for) {
    for (API_EACH(name)) {
        acre_plan_options options = sized(64 * MIB, 64 * MIB);
        struct planned t = planned_begin(name, &options);
        for (uint32_t place = 0; place < 2; place++)
            for (size_t alignment = 0; alignment <= 4 * MIB;
                 alignment = alignment ? 2 * alignment : 1) {
                void *p = NULL;
                api_ok(acre_plan_want(t.plan, place, 100, alignment, &p));
                assert_int_equal((uintptr_t)p % (alignment > 256 ? alignment : 256), 0);
            }
        planned_end(&t);
    }
}

TEST(plan_alignment_beyond_the_memorys_own_is_honoured_by_commit) {
    for (API_EACH(name))
        for (int as_needed = 0; as_needed < 2; as_needed++) {
            acre_plan_options options = sized(48 * MIB, MIB);
            if (as_needed)
                options.device_bytes = ACRE_PLAN_AS_NEEDED;
            struct planned t = planned_begin(name, &options);
            void *p[4], *plain;
            api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 1000, 0, &plain));
            for (uint64_t i = 0; i < 4; i++)
                api_ok(acre_plan_want_for(t.plan, ACRE_PLACE_DEVICE, 5000, 16 * MIB, i / 2, i / 2,
                                          &p[i]));
            api_ok(acre_plan_commit(t.plan));
            for (size_t i = 0; i < 4; i++)
                assert_int_equal((uintptr_t)p[i] % (16 * MIB), 0);
            assert_ptr_not_equal(p[0], p[1]);
            touch(&t, p[3], 5000);
            planned_end(&t);
        }
}

TEST(plan_adjacent_wishes_lie_side_by_side_in_the_order_given) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, NULL);
        void *p[4], *before;
        acre_plan_wish wishes[4];
        const uint64_t bytes[] = {1000, 3, 512, 7}, alignment[] = {1, 4, 1, 4096};
        for (int i = 0; i < 4; i++)
            wishes[i] = (acre_plan_wish){.struct_size = sizeof *wishes,
                                         .p = &p[i],
                                         .bytes = bytes[i],
                                         .alignment = alignment[i]};
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 300, 0, &before));
        api_ok(acre_plan_want_many(t.plan, wishes, 4, ACRE_PLAN_ADJACENT));
        char *first = p[0];
        assert_int_equal((uintptr_t)first % 4096, 0); /* otherwise the last would need padding */
        assert_ptr_equal(p[1], first + 1000);
        assert_ptr_equal(p[2], first + 1003);
        assert_ptr_equal(p[3], first + 4096);
        assert_int_equal(planned_stats(t.plan).device_used_bytes, 4096 + 4096 + 256);
        planned_end(&t);
    }
}

TEST(plan_adjacent_wishes_for_steps_stay_together) {
    struct planned t = planned_begin("soft", NULL);
    void *p[2], *other[8];
    for (uint64_t i = 0; i < 8; i++)
        api_ok(
            acre_plan_want_for(t.plan, ACRE_PLACE_DEVICE, 1000 * (i + 1), 0, i, i + 2, &other[i]));
    acre_plan_wish wishes[2];
    for (int i = 0; i < 2; i++)
        wishes[i] = (acre_plan_wish){.struct_size = sizeof *wishes,
                                     .p = &p[i],
                                     .bytes = 512,
                                     .first_step = 3,
                                     .last_step = 4,
                                     .flags = ACRE_WISH_STEPS};
    api_ok(acre_plan_want_many(t.plan, wishes, 2, ACRE_PLAN_ADJACENT));
    api_ok(acre_plan_commit(t.plan));
    assert_ptr_equal(p[1], (char *)p[0] + 512);
    planned_end(&t);
}

TEST(plan_fixed_offsets_are_kept_and_others_keep_clear) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, NULL);
        void *at, *timed, *p[6], *no = UNWRITTEN;
        acre_plan_wish fixed = {.struct_size = sizeof fixed,
                                .p = &at,
                                .bytes = 5000,
                                .offset = 8192,
                                .flags = ACRE_WISH_FIXED};
        api_ok(acre_plan_want_many(t.plan, &fixed, 1, 0));
        acre_plan_wish step = fixed;
        step.p = &timed;
        step.offset = 65536;
        step.first_step = step.last_step = 7;
        step.flags |= ACRE_WISH_STEPS;
        api_ok(acre_plan_want_many(t.plan, &step, 1, 0));
        step.p = fixed.p = &no;
        api_expect(acre_plan_want_many(t.plan, &fixed, 1, 0), ACRE_E_INVALID); /* in use */
        api_expect(acre_plan_want_many(t.plan, &step, 1, 0), ACRE_E_INVALID);
        fixed.offset = MIB - 256;
        api_expect(acre_plan_want_many(t.plan, &fixed, 1, 0), ACRE_E_INVALID); /* past the end */
        fixed.offset = 100;
        api_expect(acre_plan_want_many(t.plan, &fixed, 1, 0), ACRE_E_INVALID);
        for (size_t i = 0; i < 6; i++)
            api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 20000, 0, &p[i]));
        char *base = (char *)at - 8192;
        for (size_t i = 0; i < 6; i++) {
            size_t begin = (size_t)((char *)p[i] - base), end = begin + 20000;
            assert_true(end <= 8192 || begin >= 8192 + 5000);
            assert_true(end <= 65536 || begin >= 65536 + 5000);
        }
        api_ok(acre_plan_commit(t.plan));
        assert_ptr_equal(timed, base + 65536);
        assert_ptr_equal(no, UNWRITTEN);
        planned_end(&t);
    }
}

/* The bytes of a pending fixed request are taken. */
TEST(plan_fixed_offsets_that_wait_are_taken) {
    acre_plan_options deferred = {
        .struct_size = sizeof deferred, .device_bytes = MIB, .flags = ACRE_PLAN_DEFERRED};
    struct planned t = planned_begin("soft", &deferred);
    void *p = UNWRITTEN, *step = UNWRITTEN, *no = UNWRITTEN;
    acre_plan_wish fixed = {.struct_size = sizeof fixed,
                            .p = &p,
                            .bytes = 4096,
                            .offset = 4096,
                            .flags = ACRE_WISH_FIXED};
    acre_plan_wish timed = fixed;
    timed.p = &step;
    timed.offset = 8192;
    timed.flags |= ACRE_WISH_STEPS;
    api_ok(acre_plan_want_many(t.plan, &fixed, 1, 0));
    api_ok(acre_plan_want_many(t.plan, &timed, 1, 0));
    fixed.p = timed.p = &no;
    for (size_t offset = 256; offset < 12288; offset += 256) {
        fixed.offset = timed.offset = offset;
        api_expect(acre_plan_want_many(t.plan, &fixed, 1, 0), ACRE_E_INVALID);
        api_expect(acre_plan_want_many(t.plan, &timed, 1, 0), ACRE_E_INVALID);
    }
    assert_ptr_equal(p, UNWRITTEN);
    api_ok(acre_plan_commit(t.plan));
    assert_ptr_equal(step, (char *)p + 4096);
    assert_ptr_equal(no, UNWRITTEN);
    planned_end(&t);
}

/* A refused call releases the bytes of its fixed requests. */
TEST(plan_fixed_offset_of_a_refused_call_is_free_again) {
    struct planned t = planned_begin("soft", NULL);
    void *p = UNWRITTEN, *all;
    acre_plan_wish wishes[] = {{.struct_size = sizeof *wishes,
                                .p = &p,
                                .bytes = 5000,
                                .offset = 65536,
                                .flags = ACRE_WISH_FIXED | ACRE_WISH_STEPS},
                               {.struct_size = sizeof *wishes, .p = &p, .bytes = 2 * MIB}};
    api_expect(acre_plan_want_many(t.plan, wishes, 2, 0), ACRE_E_DEVICE_MEMORY);
    assert_ptr_equal(p, UNWRITTEN);
    api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, MIB, 0, &all));
    planned_end(&t);
}

/* ---- steps ---- */

TEST(plan_wishes_for_steps_share_memory_only_when_they_do_not_meet) {
    for (API_EACH(name)) {
        enum { N = 60 };
        struct planned t = planned_begin(name, NULL);
        uint64_t random = 12345;
        void *plain[3], *p[N];
        uint64_t bytes[N], first[N], last[N], sum = 0;
        for (int i = 0; i < 3; i++)
            api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 1000, 0, &plain[i]));
        for (int i = 0; i < N; i++) {
            bytes[i] = 1 + random_draw(&random, 40000);
            first[i] = random_draw(&random, 50);
            last[i] = first[i] + random_draw(&random, 8);
            sum += bytes[i];
            p[i] = UNWRITTEN;
            api_ok(acre_plan_want_for(t.plan, ACRE_PLACE_DEVICE, bytes[i], 0, first[i], last[i],
                                      &p[i]));
            assert_ptr_equal(p[i], UNWRITTEN);
        }
        assert_int_equal(planned_stats(t.plan).waiting, N);
        api_ok(acre_plan_commit(t.plan));
        for (int i = 0; i < N; i++) {
            char *a = p[i];
            for (int j = 0; j < 3; j++)
                assert_true(a + bytes[i] <= (char *)plain[j] || a >= (char *)plain[j] + 1000);
            for (int j = 0; j < i; j++)
                if (first[i] <= last[j] && first[j] <= last[i])
                    assert_true(a + bytes[i] <= (char *)p[j] || a >= (char *)p[j] + bytes[j]);
        }
        acre_plan_stats stats = planned_stats(t.plan);
        assert_int_equal(stats.waiting, 0);
        assert_int_equal(stats.is_committed, 1);
        assert_true(stats.device_used_bytes < sum);
        assert_true(stats.device_used_bytes >= stats.device_bound_bytes);
        assert_true(stats.device_bound_bytes > 0);
        planned_end(&t);
    }
}

TEST(plan_commit_without_wishes_is_a_committed_plan) {
    struct planned t = planned_begin("soft", NULL);
    api_ok(acre_plan_commit(t.plan));
    api_expect(acre_plan_commit(t.plan), ACRE_E_COMMITTED);
    api_ok(acre_plan_release(t.plan, NULL));
    api_ok(acre_plan_commit(t.plan));
    planned_end(&t);
}

TEST(plan_commit_says_what_is_used) {
    acre_plan_options options = sized(16 * MIB, 4 * MIB);
    struct planned t = planned_begin("soft", &options);
    void *p, *q;
    api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 9 * MIB, 0, &p));
    api_ok(acre_plan_want_for(t.plan, ACRE_PLACE_HOST, 3 * MIB, 0, 0, 0, &q));
    planned_listen();
    api_ok(acre_plan_commit(t.plan));
    assert_int_equal(planned_log.count, 1);
    assert_string_equal(planned_log.line,
                        "plan: committed, 9 of 16 MB on device, 3 of 4 MB on host");
    api_ok(acre_log_set(NULL, NULL, ACRE_LOG_ERROR));
    planned_end(&t);
}

static int note_wish(void *user, const acre_plan_placed *wish) {
    char *text = user;
    snprintf(text + strlen(text), 400 - strlen(text), "[%s %u %llu %llu %s]", wish->name,
             wish->place, (unsigned long long)wish->bytes, (unsigned long long)wish->offset,
             wish->p ? "placed" : "waits");
    return 0;
}

static int end_at_first(void *user, const acre_plan_placed *wish) {
    (void)wish;
    ++*(int *)user;
    return 1;
}

TEST(plan_walk_tells_wishes_by_name_in_the_order_given) {
    struct planned t = planned_begin("soft", NULL);
    char name[100], text[400] = "";
    void *p[3];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    acre_plan_wish wishes[] = {
        {.struct_size = sizeof *wishes, .p = &p[0], .name = "weights", .bytes = 300},
        {.struct_size = sizeof *wishes, .p = &p[1], .bytes = 10, .flags = ACRE_WISH_STEPS},
        {.struct_size = sizeof *wishes, .p = &p[2], .name = name, .bytes = 1, .place = 1}};
    api_ok(acre_plan_want_many(t.plan, wishes, 3, 0));
    name[63] = '\0'; /* the plan has its own copy */
    api_ok(acre_plan_walk(t.plan, note_wish, text));
    int told = 0;
    api_ok(acre_plan_walk(t.plan, end_at_first, &told));
    assert_int_equal(told, 1);
    char expected[400];
    snprintf(expected, sizeof expected, "[weights 0 300 0 placed][ 0 10 0 waits][%s 1 1 0 placed]",
             name);
    assert_string_equal(text, expected);
    planned_end(&t);
}

/* ---- requests that do not fit ---- */

TEST(plan_that_does_not_fit_says_both_figures_and_changes_nothing) {
    for (API_EACH(name)) {
        acre_plan_options options = sized(4096, 8192);
        struct planned t = planned_begin(name, &options);
        void *p, *no = UNWRITTEN;
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 1000, 0, &p));
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_HOST, 1000, 0, &p));
        acre_plan_stats before = planned_stats(t.plan);
        api_expect(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 3073, 0, &no), ACRE_E_DEVICE_MEMORY);
        assert_string_equal(
            acre_last_detail(),
            "acre_plan_want: not enough device memory: desired 4352 bytes, allocated 4096 bytes");
        api_expect(acre_plan_want(t.plan, ACRE_PLACE_HOST, 7169, 0, &no), ACRE_E_HOST_MEMORY);
        assert_string_equal(
            acre_last_detail(),
            "acre_plan_want: not enough host memory: desired 8448 bytes, allocated 8192 bytes");
        api_expect(acre_plan_want_for(t.plan, ACRE_PLACE_HOST, 9000, 0, 1, 2, &no),
                   ACRE_E_HOST_MEMORY);
        planned_expect_same(t.plan, &before);
        assert_ptr_equal(no, UNWRITTEN);
        /* Later requests still succeed. */
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 3072, 0, &p));
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_HOST, 7168, 0, &p));
        planned_end(&t);
    }
}

TEST(plan_many_wishes_are_all_kept_or_none) {
    struct planned t = planned_begin("soft", NULL);
    void *p[3] = {UNWRITTEN, UNWRITTEN, UNWRITTEN};
    acre_plan_wish wishes[3];
    for (int i = 0; i < 3; i++)
        wishes[i] = (acre_plan_wish){.struct_size = sizeof *wishes, .p = &p[i], .bytes = 400 * KIB};
    wishes[1].place = ACRE_PLACE_HOST;
    acre_plan_stats before = planned_stats(t.plan);
    wishes[2].bytes = 700 * KIB;
    api_expect(acre_plan_want_many(t.plan, wishes, 3, 0), ACRE_E_DEVICE_MEMORY);
    planned_expect_same(t.plan, &before);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(p[i], UNWRITTEN);
    wishes[2].bytes = 600 * KIB;
    api_ok(acre_plan_want_many(t.plan, wishes, 3, 0));
    assert_ptr_not_equal(p[2], UNWRITTEN);
    planned_end(&t);
}

TEST(plan_commit_that_does_not_fit_leaves_the_plan_open) {
    for (API_EACH(name)) {
        acre_plan_options options = sized(4096, 4096);
        struct planned t = planned_begin(name, &options);
        void *p[3] = {UNWRITTEN, UNWRITTEN, UNWRITTEN};
        for (uint64_t i = 0; i < 3; i++)
            api_ok(acre_plan_want_for(t.plan, ACRE_PLACE_DEVICE, 2048, 0, 0, i, &p[i]));
        acre_plan_stats before = planned_stats(t.plan);
        api_expect(acre_plan_commit(t.plan), ACRE_E_DEVICE_MEMORY);
        assert_string_equal(
            acre_last_detail(),
            "acre_plan_commit: not enough device memory: desired 6144 bytes, allocated 4096 bytes");
        planned_expect_same(t.plan, &before);
        for (int i = 0; i < 3; i++)
            assert_ptr_equal(p[i], UNWRITTEN);
        api_ok(acre_plan_cancel(t.plan));
        assert_int_equal(planned_stats(t.plan).wishes, 0);
        api_ok(acre_plan_want_for(t.plan, ACRE_PLACE_DEVICE, 4096, 0, 0, 1, &p[0]));
        api_ok(acre_plan_commit(t.plan));
        assert_ptr_not_equal(p[0], UNWRITTEN);
        assert_ptr_equal(p[1], UNWRITTEN);
        planned_end(&t);
    }
}

TEST(plan_as_needed_without_memory_says_so_and_changes_nothing) {
    acre_open_options small = {.struct_size = sizeof small, .soft_bytes = 32 * MIB};
    acre_plan_options options = sized(ACRE_PLAN_AS_NEEDED, ACRE_PLAN_AS_NEEDED);
    acre_device *device;
    acre_plan *plan;
    void *p, *no = UNWRITTEN;
    api_ok(acre_open("soft", &small, &device));
    api_ok(acre_plan_create(device, &options, &plan));
    api_ok(acre_plan_want(plan, ACRE_PLACE_DEVICE, 20 * MIB, 0, &p));
    acre_plan_stats before = planned_stats(plan);
    api_expect(acre_plan_want(plan, ACRE_PLACE_DEVICE, 20 * MIB, 0, &no), ACRE_E_DEVICE_MEMORY);
    assert_string_equal(acre_last_detail(), "acre_plan_want: not enough device memory: desired "
                                            "41943040 bytes, allocated 20971520 bytes");
    api_ok(acre_plan_want_for(plan, ACRE_PLACE_DEVICE, 20 * MIB, 0, 0, 0, &no));
    api_expect(acre_plan_commit(plan), ACRE_E_DEVICE_MEMORY);
    api_ok(acre_plan_cancel(plan));
    planned_expect_same(plan, &before);
    assert_ptr_equal(no, UNWRITTEN);
    api_ok(acre_plan_want(plan, ACRE_PLACE_DEVICE, 10 * MIB, 0, &p));
    api_ok(acre_plan_destroy(plan));
    api_ok(acre_close(device));
}

/* ---- deferred ---- */

TEST(plan_deferred_wishes_are_written_by_satisfy) {
    for (API_EACH(name))
        for (int as_needed = 0; as_needed < 2; as_needed++) {
            acre_plan_options options = sized(MIB, MIB);
            options.flags = ACRE_PLAN_DEFERRED;
            if (as_needed)
                options.device_bytes = options.host_bytes = ACRE_PLAN_AS_NEEDED;
            struct planned t = planned_begin(name, &options);
            void *p[4] = {UNWRITTEN, UNWRITTEN, UNWRITTEN, UNWRITTEN};
            for (uint32_t i = 0; i < 4; i++) {
                api_ok(acre_plan_want(t.plan, i % 2, 1000, i ? 0 : 4096, &p[i]));
                assert_ptr_equal(p[i], UNWRITTEN);
            }
            assert_int_equal(planned_stats(t.plan).waiting, 4);
            api_ok(acre_plan_satisfy(t.plan));
            assert_int_equal(planned_stats(t.plan).waiting, 0);
            for (int i = 0; i < 4; i++)
                assert_ptr_not_equal(p[i], UNWRITTEN);
            touch(&t, p[2], 1000);
            void *before = p[0];
            api_ok(acre_plan_want(t.plan, 0, 1000, 0, &p[1]));
            api_ok(acre_plan_commit(t.plan)); /* satisfies the pending requests */
            assert_ptr_equal(p[0], before);
            planned_end(&t);
        }
}

TEST(plan_deferred_wishes_that_do_not_fit_go_on_waiting) {
    acre_plan_options options = sized(4096, 4096);
    options.flags = ACRE_PLAN_DEFERRED;
    struct planned t = planned_begin("soft", &options);
    void *p[3] = {UNWRITTEN, UNWRITTEN, UNWRITTEN};
    for (int i = 0; i < 3; i++)
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_HOST, 2000, 0, &p[i]));
    acre_plan_stats before = planned_stats(t.plan);
    for (int i = 0; i < 2; i++) {
        api_expect(acre_plan_satisfy(t.plan), ACRE_E_HOST_MEMORY);
        assert_string_equal(
            acre_last_detail(),
            "acre_plan_satisfy: not enough host memory: desired 6144 bytes, allocated 4096 bytes");
        planned_expect_same(t.plan, &before);
    }
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(p[i], UNWRITTEN);
    api_ok(acre_plan_cancel(t.plan));
    api_ok(acre_plan_want(t.plan, ACRE_PLACE_HOST, 4000, 0, &p[0]));
    api_ok(acre_plan_satisfy(t.plan));
    assert_ptr_equal(p[1], UNWRITTEN);
    planned_end(&t);
}

/* Padding between requests of mixed alignments is least when the largest alignment comes first. */
TEST(plan_deferred_wishes_are_placed_with_little_padding) {
    acre_plan_options options = sized(3 * 65536, 4096);
    options.flags = ACRE_PLAN_DEFERRED;
    struct planned t = planned_begin("soft", &options);
    void *p[4];
    api_ok(acre_plan_want(t.plan, 0, 256, 0, &p[0]));
    api_ok(acre_plan_want(t.plan, 0, 65536, 65536, &p[1]));
    api_ok(acre_plan_want(t.plan, 0, 256, 0, &p[2]));
    api_ok(acre_plan_want(t.plan, 0, 65536, 65536, &p[3]));
    api_ok(acre_plan_satisfy(t.plan));
    planned_end(&t);
}

/* ---- classical bugs ---- */

TEST(plan_mistake_sum_without_padding_is_not_made) {
    for (API_EACH(name)) {
        acre_plan_options options = sized(1024, 1024);
        struct planned t = planned_begin(name, &options);
        void *p = NULL, *no = UNWRITTEN;
        /* 257 + 257 + 300 bytes are less than 1024; with padding they are 1536. */
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_HOST, 257, 0, &p));
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_HOST, 257, 0, &p));
        api_expect(acre_plan_want(t.plan, ACRE_PLACE_HOST, 300, 0, &no), ACRE_E_HOST_MEMORY);
        assert_string_equal(
            acre_last_detail(),
            "acre_plan_want: not enough host memory: desired 1536 bytes, allocated 1024 bytes");
        assert_ptr_equal(no, UNWRITTEN);
        api_ok(acre_plan_release(t.plan, NULL));
        for (uint64_t i = 0; i < 3; i++)
            api_ok(acre_plan_want_for(t.plan, ACRE_PLACE_HOST, 257, 0, 0, 0, &no));
        api_expect(acre_plan_commit(t.plan), ACRE_E_HOST_MEMORY);
        assert_ptr_equal(no, UNWRITTEN);
        planned_end(&t);
    }
}

TEST(plan_mistake_want_after_commit_is_refused) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, NULL);
        void *p, *no = UNWRITTEN;
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 100, 0, &p));
        api_ok(acre_plan_commit(t.plan));
        acre_plan_stats before = planned_stats(t.plan);
        acre_plan_wish wish = {.struct_size = sizeof wish, .p = &no, .bytes = 1};
        api_expect(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 100, 0, &no), ACRE_E_COMMITTED);
        api_expect(acre_plan_want_for(t.plan, 0, 100, 0, 0, 1, &no), ACRE_E_COMMITTED);
        api_expect(acre_plan_want_many(t.plan, &wish, 1, 0), ACRE_E_COMMITTED);
        api_expect(acre_plan_satisfy(t.plan), ACRE_E_COMMITTED);
        api_expect(acre_plan_commit(t.plan), ACRE_E_COMMITTED);
        assert_ptr_equal(no, UNWRITTEN);
        planned_expect_same(t.plan, &before);
        planned_end(&t);
    }
}

TEST(plan_mistake_satisfy_with_nothing_pending_does_nothing) {
    for (API_EACH(name))
        for (uint32_t flags = 0; flags <= ACRE_PLAN_DEFERRED; flags++) {
            acre_plan_options options = sized(4096, 4096);
            options.flags = flags;
            struct planned t = planned_begin(name, &options);
            acre_plan_stats before = planned_stats(t.plan);
            api_ok(acre_plan_satisfy(t.plan));
            planned_expect_same(t.plan, &before);
            void *p = NULL, *was;
            api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 4096, 0, &p));
            api_ok(acre_plan_satisfy(t.plan));
            was = p;
            p = UNWRITTEN; /* satisfied: the plan must not write it a second time */
            before = planned_stats(t.plan);
            api_ok(acre_plan_satisfy(t.plan));
            api_ok(acre_plan_satisfy(t.plan));
            planned_expect_same(t.plan, &before);
            assert_ptr_equal(p, UNWRITTEN);
            assert_non_null(was);
            planned_end(&t);
        }
}

TEST(plan_mistake_release_then_want_has_all_of_the_memory_again) {
    for (API_EACH(name)) {
        acre_plan_options options = sized(4096, 4096);
        struct planned t = planned_begin(name, &options);
        void *first = NULL, *dropped = UNWRITTEN;
        for (int round = 0; round < 5; round++) {
            void *p = NULL, *q = NULL;
            api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 3000, 0, &p));
            api_ok(acre_plan_want_for(t.plan, ACRE_PLACE_DEVICE, 1000, 0, 1, 1, &q));
            if (!first)
                first = p;
            assert_ptr_equal(p, first);
            if (round % 2) {
                api_ok(acre_plan_commit(t.plan));
                assert_ptr_equal(q, (char *)p + 3072);
            } else {
                api_ok(acre_plan_want_for(t.plan, ACRE_PLACE_HOST, 10, 0, 1, 1, &dropped));
            }
            api_ok(acre_fill(t.device, p, (uint8_t)round, 3000, t.stream));
            api_ok(acre_plan_release(t.plan, round % 3 ? t.stream : NULL));
            acre_plan_stats stats = planned_stats(t.plan);
            assert_int_equal(stats.wishes + stats.waiting + stats.is_committed, 0);
            assert_int_equal(stats.device_used_bytes + stats.device_wanted_bytes, 0);
            assert_int_equal(stats.device_bytes, 4096);
            assert_int_equal(stats.rounds, round + 1);
            assert_int_equal(stats.waits, round);
        }
        /* Nothing is pending: acre_plan_release dropped the requests. */
        api_ok(acre_plan_satisfy(t.plan));
        assert_ptr_equal(dropped, UNWRITTEN);
        planned_end(&t);
    }
}

/* ---- destroy ---- */

API_TEST(plan_memory_goes_back_with_the_plan) {
    acre_plan *plan;
    void *p;
    acre_plan_options options = sized(16 * MIB, 16 * MIB);
    uint64_t free_bytes = api_free_bytes(device);
    for (int i = 0; i < 3; i++) {
        api_ok(acre_plan_create(device, &options, &plan));
        api_ok(acre_plan_want(plan, ACRE_PLACE_DEVICE, MIB, 0, &p));
        api_ok(acre_fill(device, p, 1, MIB, NULL)); /* may still be in flight */
        api_ok(acre_plan_destroy(plan));
    }
    api_ok(acre_trim(device));
    api_expect_free(device, free_bytes);
    assert_int_equal(api_stats(device).mem_blocks, 0);
}

TEST(plan_left_to_a_closed_device_ends_with_it) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_plan *plan;
        void *p;
        acre_plan_options options = sized(MIB, MIB);
        api_ok(acre_plan_create(device, &options, &plan));
        api_ok(acre_plan_want(plan, ACRE_PLACE_HOST, 100, 0, &p));
        planned_listen();
        api_ok(acre_close(device));
        assert_non_null(
            strstr(planned_log.line, "closed with 1 plans not destroyed (2097152 bytes)"));
        api_expect(acre_plan_satisfy(plan), ACRE_E_HANDLE);
        api_ok(acre_log_set(NULL, NULL, ACRE_LOG_ERROR));
    }
}

int main(void) {
    return tests_run("plan");
}
