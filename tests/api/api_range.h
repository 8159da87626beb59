/* For tests of sparse ranges: bytes written to and read from single pieces, statistics, budgets. */
#ifndef ACRE_TESTS_API_RANGE_H
#define ACRE_TESTS_API_RANGE_H

#include "api_memory.h"

enum { STAMP = 4096 }; /* bytes written at both ends of a piece */
static const uint64_t piece = 2 << 20;

static inline char *piece_at(const acre_range *range, uint64_t index) {
    return (char *)acre_range_data(range) + index * piece;
}

/* Queues fills of both ends of a piece. */
static inline void piece_stamp(acre_device *device, const acre_range *range, uint64_t index,
                               unsigned char value, acre_stream stream) {
    api_ok(acre_fill(device, piece_at(range, index), value, STAMP, stream));
    api_ok(acre_fill(device, piece_at(range, index) + piece - STAMP, value, STAMP, stream));
}

/* Checks both ends of a piece, after the work on the stream. */
static inline void piece_check(acre_device *device, const acre_range *range, uint64_t index,
                               unsigned char value, acre_stream stream) {
    static const uint64_t ends[2] = {0, ((uint64_t)2 << 20) - STAMP};
    for (int i = 0; i < 2; i++) {
        unsigned char found[STAMP];
        api_ok(acre_copy(device, found, piece_at(range, index) + ends[i], STAMP, stream));
        api_ok(acre_stream_sync(device, stream));
        for (size_t k = 0; k < STAMP; k++)
            if (found[k] != value)
                fail_msg("piece %llu holds %u at %zu instead of %u", (unsigned long long)index,
                         found[k], k, value);
    }
}

static inline acre_status piece_commit(acre_range *range, uint64_t first, uint64_t count,
                                       acre_stream stream) {
    return acre_range_commit(range, first * piece, count * piece, stream);
}

static inline acre_status piece_decommit(acre_range *range, uint64_t first, uint64_t count,
                                         acre_stream stream) {
    return acre_range_decommit(range, first * piece, count * piece, stream);
}

static inline acre_range_stats range_stats(acre_range *range) {
    acre_range_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_range_get_stats(range, &stats));
    return stats;
}

static inline acre_range_stats budget_stats(acre_range_budget *budget) {
    acre_range_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_range_budget_get_stats(budget, &stats));
    return stats;
}

static inline acre_range *range_in(acre_device *device, acre_range_budget *budget, uint64_t count) {
    acre_range_options options = {.struct_size = sizeof options, .budget = budget};
    acre_range *range;
    api_ok(acre_range_create(device, count * piece, &options, &range));
    return range;
}

#endif
