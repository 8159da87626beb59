/* The layout of public structs, pinned: programs built against an older header keep working only if
 * fields are added at the end and nothing else ever moves. A new field gets a line here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/cases.h"
#include "acre.h"
#include "acre_heap.h"

struct layout_field {
    const char *name;
    size_t offset, pinned;
};

#define FIELD(type, name, at)                                                                      \
    { #type "." #name, offsetof(type, name), at }

static void expect_layout(const struct layout_field *fields, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (fields[i].offset != fields[i].pinned)
            fail_msg("%s is at %zu, pinned at %zu", fields[i].name, fields[i].offset,
                     fields[i].pinned);
}

TEST(layout_open_options_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_open_options, struct_size, 0),
        FIELD(acre_open_options, soft_bytes, 8),
        FIELD(acre_open_options, soft_devices, 16),
        FIELD(acre_open_options, reserved, 20),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_open_options), 24);
}

TEST(layout_device_info_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_device_info, struct_size, 0),
        FIELD(acre_device_info, driver, 8),
        FIELD(acre_device_info, name, 24),
        FIELD(acre_device_info, bus_id, 152),
        FIELD(acre_device_info, uuid, 184),
        FIELD(acre_device_info, ordinal, 200),
        FIELD(acre_device_info, driver_version, 204),
        FIELD(acre_device_info, total_bytes, 208),
        FIELD(acre_device_info, free_bytes, 216),
        FIELD(acre_device_info, granularity_bytes, 224),
        FIELD(acre_device_info, compute_major, 232),
        FIELD(acre_device_info, compute_minor, 236),
        FIELD(acre_device_info, multiprocessors, 240),
        FIELD(acre_device_info, copy_engines, 244),
        FIELD(acre_device_info, has_vmm, 248),
        FIELD(acre_device_info, has_host_vmm, 252),
        FIELD(acre_device_info, has_fd_sharing, 256),
        FIELD(acre_device_info, has_fabric, 260),
        FIELD(acre_device_info, has_rdma, 264),
        FIELD(acre_device_info, has_managed, 268),
        FIELD(acre_device_info, is_integrated, 272),
        FIELD(acre_device_info, open_count, 276),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_device_info), 280);
}

TEST(layout_stats_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_device_stats, struct_size, 0),
        FIELD(acre_device_stats, streams_live, 8),
        FIELD(acre_device_stats, events_live, 16),
        FIELD(acre_device_stats, streams_created, 24),
        FIELD(acre_device_stats, events_created, 32),
        FIELD(acre_device_stats, driver_refusals, 40),
        FIELD(acre_device_stats, limbo_count, 48),
        FIELD(acre_device_stats, limbo_retired, 56),
        FIELD(acre_device_stats, trims, 64),
        FIELD(acre_device_stats, mem_blocks, 72),
        FIELD(acre_device_stats, mem_bytes, 80),
        FIELD(acre_device_stats, mem_registered, 88),
        FIELD(acre_device_stats, copies_direct, 96),
        FIELD(acre_device_stats, copies_staged, 104),
        FIELD(acre_device_stats, staging_bytes, 112),
        FIELD(acre_device_stats, chunks, 120),
        FIELD(acre_device_stats, chunk_bytes, 128),
        FIELD(acre_device_stats, chunk_cached_bytes, 136),
        FIELD(acre_device_stats, chunks_created, 144),
        FIELD(acre_device_stats, address_bytes, 152),
        FIELD(acre_device_stats, vecs, 160),
        FIELD(acre_device_stats, vec_moves, 168),
        FIELD(acre_device_stats, grow_copied_bytes, 176),
        FIELD(acre_device_stats, shares, 184),
        FIELD(acre_device_stats, imports, 192),
        FIELD(acre_device_stats, driver_creates, 200),
        FIELD(acre_device_stats, driver_maps, 208),
        FIELD(acre_device_stats, driver_accesses, 216),
        FIELD(acre_device_stats, driver_unmaps, 224),
        FIELD(acre_device_stats, driver_releases, 232),
        FIELD(acre_device_stats, driver_allocs, 240),
        FIELD(acre_device_stats, chunk_created_bytes, 248),
        FIELD(acre_device_stats, chunk_released_bytes, 256),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_device_stats), 8 * (sizeof fields / sizeof fields[0]));
}

TEST(layout_mem_info_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_mem_info, struct_size, 0), FIELD(acre_mem_info, kind, 8),
        FIELD(acre_mem_info, flags, 12),      FIELD(acre_mem_info, base, 16),
        FIELD(acre_mem_info, bytes, 24),      FIELD(acre_mem_info, device, 32),
        FIELD(acre_mem_info, ordinal, 40),    FIELD(acre_mem_info, is_registered, 44),
        FIELD(acre_mem_info, pool, 48),       FIELD(acre_mem_info, usable_bytes, 56),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_mem_info), 64);
}

TEST(layout_pool_options_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_pool_options, struct_size, 0),
        FIELD(acre_pool_options, kind, 8),
        FIELD(acre_pool_options, flags, 12),
        FIELD(acre_pool_options, initial_bytes, 16),
        FIELD(acre_pool_options, soft_limit_bytes, 24),
        FIELD(acre_pool_options, limit_bytes, 32),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_pool_options), 40);
}

TEST(layout_pool_stats_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_pool_stats, struct_size, 0),      FIELD(acre_pool_stats, live_blocks, 8),
        FIELD(acre_pool_stats, live_bytes, 16),      FIELD(acre_pool_stats, held_bytes, 24),
        FIELD(acre_pool_stats, refills, 32),         FIELD(acre_pool_stats, spills, 40),
        FIELD(acre_pool_stats, events, 48),          FIELD(acre_pool_stats, waits, 56),
        FIELD(acre_pool_stats, overruns, 64),        FIELD(acre_pool_stats, late_writes, 72),
        FIELD(acre_pool_stats, used_bytes, 80),      FIELD(acre_pool_stats, soft_limit_bytes, 88),
        FIELD(acre_pool_stats, limit_bytes, 96),     FIELD(acre_pool_stats, over_soft, 104),
        FIELD(acre_pool_stats, served_caches, 112),  FIELD(acre_pool_stats, served_done, 120),
        FIELD(acre_pool_stats, served_moved, 128),   FIELD(acre_pool_stats, served_behind, 136),
        FIELD(acre_pool_stats, served_pools, 144),   FIELD(acre_pool_stats, served_callback, 152),
        FIELD(acre_pool_stats, served_waiting, 160), FIELD(acre_pool_stats, refused, 168),
        FIELD(acre_pool_stats, moved_chunks, 176),   FIELD(acre_pool_stats, held_peak_bytes, 184),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_pool_stats), 192);
}

TEST(layout_vec_options_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_vec_options, struct_size, 0),  FIELD(acre_vec_options, kind, 8),
        FIELD(acre_vec_options, strategy, 12),    FIELD(acre_vec_options, address_bytes, 16),
        FIELD(acre_vec_options, limit_bytes, 24), FIELD(acre_vec_options, ahead_bytes, 32),
        FIELD(acre_vec_options, chunk_bytes, 40), FIELD(acre_vec_options, flags, 48),
        FIELD(acre_vec_options, reserved, 52),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_vec_options), 56);
}

TEST(layout_vec_info_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_vec_info, struct_size, 0),   FIELD(acre_vec_info, device, 8),
        FIELD(acre_vec_info, data, 16),         FIELD(acre_vec_info, element_bytes, 24),
        FIELD(acre_vec_info, size, 32),         FIELD(acre_vec_info, capacity, 40),
        FIELD(acre_vec_info, mapped_bytes, 48), FIELD(acre_vec_info, chunks, 56),
        FIELD(acre_vec_info, moves, 64),        FIELD(acre_vec_info, copied_bytes, 72),
        FIELD(acre_vec_info, kind, 80),         FIELD(acre_vec_info, strategy, 84),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_vec_info), 88);
}

TEST(layout_share_options_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_share_options, struct_size, 0), FIELD(acre_share_options, uids, 8),
        FIELD(acre_share_options, uid_count, 16),  FIELD(acre_share_options, importers, 20),
        FIELD(acre_share_options, flags, 24),      FIELD(acre_share_options, reserved, 28),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_share_options), 32);
}

TEST(layout_import_info_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_import_info, struct_size, 0),
        FIELD(acre_import_info, device, 8),
        FIELD(acre_import_info, data, 16),
        FIELD(acre_import_info, bytes, 24),
        FIELD(acre_import_info, mapped_bytes, 32),
        FIELD(acre_import_info, element_bytes, 40),
        FIELD(acre_import_info, refreshed_bytes, 48),
        FIELD(acre_import_info, owner_pid, 56),
        FIELD(acre_import_info, owner_uid, 60),
        FIELD(acre_import_info, is_read_only, 64),
        FIELD(acre_import_info, reserved, 68),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_import_info), 72);
}

TEST(layout_import_options_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_import_options, struct_size, 0),
        FIELD(acre_import_options, uids, 8),
        FIELD(acre_import_options, uid_count, 16),
        FIELD(acre_import_options, wait_ms, 20),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_import_options), 24);
}

TEST(layout_enums_are_ints) {
    assert_int_equal(sizeof(acre_status), sizeof(int));
    assert_int_equal(sizeof(acre_log_level), sizeof(int));
    assert_int_equal(sizeof(acre_kind), sizeof(int));
    assert_int_equal(sizeof(acre_direction), sizeof(int));
    assert_int_equal(sizeof(acre_advice), sizeof(int));
    assert_int_equal(sizeof(acre_access), sizeof(int));
    assert_int_equal(sizeof(acre_vec_strategy), sizeof(int));
}

TEST(layout_trace_options_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_trace_options, struct_size, 0),
        FIELD(acre_trace_options, limit_bytes, 8),
        FIELD(acre_trace_options, flags, 16),
        FIELD(acre_trace_options, reserved, 20),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_trace_options), 24);
}

TEST(layout_heap_structs_are_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_heap_options, struct_size, 0),
        FIELD(acre_heap_options, initial_bytes, 8),
        FIELD(acre_heap_options, limit_bytes, 16),
        FIELD(acre_heap_options, step_bytes, 24),
        FIELD(acre_heap_options, wait_ns, 32),
        FIELD(acre_heap_options, flags, 40),
        FIELD(acre_heap_options, reserved, 44),
        FIELD(acre_heap_options, ahead_bytes, 48),
        FIELD(acre_heap_stats, struct_size, 0),
        FIELD(acre_heap_stats, mapped_bytes, 8),
        FIELD(acre_heap_stats, record_bytes, 16),
        FIELD(acre_heap_stats, limit_bytes, 24),
        FIELD(acre_heap_stats, live_blocks, 32),
        FIELD(acre_heap_stats, live_bytes, 40),
        FIELD(acre_heap_stats, peak_bytes, 48),
        FIELD(acre_heap_stats, free_bytes, 56),
        FIELD(acre_heap_stats, failed, 64),
        FIELD(acre_heap_stats, failed_bytes, 72),
        FIELD(acre_heap_stats, bad_alignment, 80),
        FIELD(acre_heap_stats, double_frees, 88),
        FIELD(acre_heap_stats, foreign_frees, 96),
        FIELD(acre_heap_stats, interior_frees, 104),
        FIELD(acre_heap_stats, grows, 112),
        FIELD(acre_heap_stats, asks, 120),
        FIELD(acre_heap_stats, overruns, 128),
        FIELD(acre_heap_stats, overrun_at, 136),
        FIELD(acre_heap_stats, unmarked_frees, 144),
        FIELD(acre_heap_stats, classes, 152),
        FIELD(acre_heap_class_stats, bytes, 0),
        FIELD(acre_heap_class_stats, live_blocks, 8),
        FIELD(acre_heap_class_stats, free_blocks, 16),
        FIELD(acre_heap_block, address, 0),
        FIELD(acre_heap_block, bytes, 8),
        FIELD(acre_heap_block, asked_bytes, 16),
        FIELD(acre_heap_block, tag, 24),
        FIELD(acre_heap_block, flags, 28),
        FIELD(acre_heap_handle, base, 0),
        FIELD(acre_heap_handle, control, 8),
        FIELD(acre_heap_handle, segments, 16),
        FIELD(acre_heap_handle, max_segments, 24),
        FIELD(acre_heap_handle, reserved, 28),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_heap_options), 56);
    assert_int_equal(sizeof(acre_heap_class_stats), 24);
    assert_int_equal(sizeof(acre_heap_stats), 152 + 22 * 24);
    assert_int_equal(sizeof(acre_heap_block), 32);
    assert_int_equal(sizeof(acre_heap_handle), 32);
}

TEST(layout_plan_options_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_plan_options, struct_size, 0),  FIELD(acre_plan_options, device_bytes, 8),
        FIELD(acre_plan_options, host_bytes, 16),  FIELD(acre_plan_options, budget, 24),
        FIELD(acre_plan_options, host_kind, 32),   FIELD(acre_plan_options, flags, 36),
        FIELD(acre_plan_options, device_pool, 40), FIELD(acre_plan_options, host_pool, 48),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_plan_options), 56);
}

TEST(layout_plan_wish_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_plan_wish, struct_size, 0), FIELD(acre_plan_wish, p, 8),
        FIELD(acre_plan_wish, name, 16),       FIELD(acre_plan_wish, bytes, 24),
        FIELD(acre_plan_wish, alignment, 32),  FIELD(acre_plan_wish, first_step, 40),
        FIELD(acre_plan_wish, last_step, 48),  FIELD(acre_plan_wish, offset, 56),
        FIELD(acre_plan_wish, place, 64),      FIELD(acre_plan_wish, flags, 68),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_plan_wish), 72);
}

TEST(layout_plan_placed_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_plan_placed, struct_size, 0), FIELD(acre_plan_placed, name, 8),
        FIELD(acre_plan_placed, p, 16),          FIELD(acre_plan_placed, bytes, 24),
        FIELD(acre_plan_placed, offset, 32),     FIELD(acre_plan_placed, first_step, 40),
        FIELD(acre_plan_placed, last_step, 48),  FIELD(acre_plan_placed, place, 56),
        FIELD(acre_plan_placed, flags, 60),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_plan_placed), 64);
}

TEST(layout_plan_stats_is_pinned) {
    const struct layout_field fields[] = {
        FIELD(acre_plan_stats, struct_size, 0),
        FIELD(acre_plan_stats, device_bytes, 8),
        FIELD(acre_plan_stats, host_bytes, 16),
        FIELD(acre_plan_stats, device_used_bytes, 24),
        FIELD(acre_plan_stats, host_used_bytes, 32),
        FIELD(acre_plan_stats, device_wanted_bytes, 40),
        FIELD(acre_plan_stats, host_wanted_bytes, 48),
        FIELD(acre_plan_stats, device_bound_bytes, 56),
        FIELD(acre_plan_stats, host_bound_bytes, 64),
        FIELD(acre_plan_stats, wishes, 72),
        FIELD(acre_plan_stats, waiting, 80),
        FIELD(acre_plan_stats, is_committed, 88),
        FIELD(acre_plan_stats, is_optimal, 96),
        FIELD(acre_plan_stats, nodes, 104),
        FIELD(acre_plan_stats, rounds, 112),
        FIELD(acre_plan_stats, waits, 120),
        FIELD(acre_plan_stats, steps, 128),
        FIELD(acre_plan_stats, recorded, 136),
        FIELD(acre_plan_stats, loop_bytes, 144),
        FIELD(acre_plan_stats, loop_bound_bytes, 152),
        FIELD(acre_plan_stats, hits, 160),
        FIELD(acre_plan_stats, misses, 168),
        FIELD(acre_plan_stats, pool_calls, 176),
    };
    expect_layout(fields, sizeof fields / sizeof fields[0]);
    assert_int_equal(sizeof(acre_plan_stats), 8 * (sizeof fields / sizeof fields[0]));
}

int main(void) {
    return tests_run("layout");
}
