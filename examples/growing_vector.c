/* An array on the device that grows in place, and the same array grown by copying.
 *
 * The program appends values until the limit refuses more. With mapping, the address stays and
 * nothing is copied. With copying, as in a program without acre, the array moves each time it is
 * full, and needs the old and the new memory at the same time. */
#include <acre.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
enum { PIECE = 1 << 20 }; /* values appended at a time: 4 MiB */

static acre_device *device;
static acre_stream stream;
static uint32_t *values; /* the values to append */
static int wrong;

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, acre_status_text(status), acre_last_detail());
        exit(2);
    }
}

static void expect(int is_so, const char *what) {
    if (!is_so) {
        printf("THIS IS WRONG: %s\n", what);
        wrong++;
    }
}

static acre_vec_info about(const acre_vec *vec) {
    acre_vec_info info = {.struct_size = sizeof info};
    need(acre_vec_get_info(vec, &info), "acre_vec_get_info");
    return info;
}

static void show(const acre_vec *vec, const char *what) {
    acre_vec_info info = about(vec);
    printf("%-14s %10" PRIu64 " %8" PRIu64 " %8" PRIu64 " %7" PRIu64 " %8" PRIu64 "  %p\n", what,
           info.size, info.mapped_bytes / MIB, info.chunks, info.moves, info.copied_bytes / MIB,
           info.data);
}

/* Checks the first and the last piece. */
static void check(const acre_vec *vec) {
    uint32_t *found = malloc(PIECE * sizeof *found);
    if (!found) {
        exit(2);
    }
    const uint32_t *data = acre_vec_data(vec);
    size_t last = acre_vec_size(vec) - PIECE;
    need(acre_copy(device, found, data, PIECE * sizeof *found, stream), "acre_copy");
    expect(memcmp(found, values, PIECE * sizeof *found) == 0, "the first values differ");
    need(acre_copy(device, found, data + last, PIECE * sizeof *found, stream), "acre_copy");
    expect(memcmp(found, values, PIECE * sizeof *found) == 0, "the last values differ");
    free(found);
}

/* Appends until the limit. */
static acre_vec *fill(acre_vec_strategy strategy, const char *name) {
    acre_vec_options options = {
        .struct_size = sizeof options, .strategy = strategy, .limit_bytes = 96 * MIB};
    acre_vec *vec;
    char what[32];
    need(acre_vec_create(device, sizeof *values, &options, &vec), "acre_vec_create");
    acre_status status;
    for (size_t n = 1; (status = acre_vec_append(vec, values, PIECE, stream)) == ACRE_OK; n++) {
        if ((n & (n - 1)) == 0) {
            snprintf(what, sizeof what, "%s, %zu MiB", name, n * PIECE * sizeof *values / MIB);
            show(vec, what);
        }
    }
    show(vec, "  at its limit");
    expect(status == ACRE_E_LIMIT, "the limit refuses more");
    printf("               refused: %s\n", acre_last_detail());
    check(vec);
    return vec;
}

int main(void) {
    acre_device_info info = {.struct_size = sizeof info};
    need(acre_open("auto", NULL, &device), "acre_open");
    need(acre_device_get_info(device, &info), "acre_device_get_info");
    need(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream), "acre_stream_create");
    values = malloc(PIECE * sizeof *values);
    if (!values) {
        return 2;
    }
    for (uint32_t i = 0; i < PIECE; i++) {
        values[i] = i * 2654435761u;
    }
    printf("%s\n%-14s %10s %8s %8s %7s %8s  %s\n", info.name, "", "elements", "MiB", "chunks",
           "moves", "copied", "address");

    acre_vec *vec = fill(ACRE_VEC_AUTO, "vec");
    void *at = acre_vec_data(vec);
    uint64_t mapped = acre_vec_mapped_bytes(vec);
    if (about(vec).strategy == ACRE_VEC_VMM) {
        expect(about(vec).copied_bytes == 0 && about(vec).moves == 0, "a vec copies nothing");
    }

    /* Removes half of the elements. Chunks entirely behind the rest are released. */
    need(acre_vec_shrink(vec, acre_vec_size(vec) / 2, stream), "acre_vec_shrink");
    show(vec, "  half of it");
    expect(acre_vec_data(vec) == at, "shrinking keeps the address");
    if (about(vec).strategy == ACRE_VEC_VMM) {
        expect(acre_vec_mapped_bytes(vec) < mapped, "shrinking releases memory");
    }
    need(acre_vec_resize(vec, 0, stream), "acre_vec_resize");
    need(acre_vec_shrink_to_fit(vec, stream), "acre_vec_shrink_to_fit");
    show(vec, "  empty");
    need(acre_vec_destroy(vec, stream), "acre_vec_destroy");

    vec = fill(ACRE_VEC_COPY, "copy");
    expect(about(vec).copied_bytes > 0 && about(vec).moves > 0, "this one copies");
    need(acre_vec_destroy(vec, stream), "acre_vec_destroy");

    free(values);
    need(acre_stream_destroy(device, stream), "acre_stream_destroy");
    need(acre_close(device), "acre_close");
    return wrong != 0;
}
