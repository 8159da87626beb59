/* Copies and fills of the soft driver: when bytes are read and written, where they land (compared
 * with a naive model), and memory that is unmapped or freed under queued work. */
#include "soft_fixture.h"
#include "support/rounds.h"

#include "soft/soft_run.h"

/* ---- when ---- */

SOFT_TEST(copies_pageable_source_may_change_after_the_call) {
    struct gate gate;
    CUdeviceptr at = 0;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    unsigned char *source = malloc(100000);
    assert_non_null(source);
    assert_ok(drv->cuMemAlloc(&at, 100000));
    soft_gate_put(&gate, stream);
    memset(source, 1, 100000);
    assert_ok(drv->cuMemcpyHtoDAsync(at, source, 100000, stream));
    memset(source, 2, 100000);
    free(source);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_true(soft_is_filled(at, 100000, 1));
}

SOFT_TEST(copies_pinned_source_is_read_late) {
    struct gate gate;
    CUdeviceptr at = 0;
    void *pinned = NULL;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuMemAlloc(&at, 100000));
    assert_ok(drv->cuMemHostAlloc(&pinned, 100000, 0));
    memset(pinned, 1, 100000);
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuMemcpyHtoDAsync(at, pinned, 100000, stream));
    memset(pinned, 2, 100000);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_true(soft_is_filled(at, 100000, 2));
}

SOFT_TEST(copies_to_pageable_are_complete_on_return) {
    CUdeviceptr at = 0;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    unsigned char *target = malloc(4 * MIB);
    assert_non_null(target);
    assert_ok(drv->cuMemAlloc(&at, 4 * MIB));
    for (int i = 1; i < 20; i++) {
        assert_ok(drv->cuMemsetD8Async(at, (unsigned char)i, 4 * MIB, stream));
        assert_ok(drv->cuMemcpyDtoHAsync(target, at, 4 * MIB, stream));
        assert_int_equal(target[0], i);
        assert_int_equal(target[4 * MIB - 1], i);
    }
    free(target);
}

SOFT_TEST(copies_to_pinned_return_at_once) {
    struct gate gate;
    CUdeviceptr at = 0;
    unsigned char *pinned = NULL;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuMemHostAlloc((void **)&pinned, 64, 0));
    assert_ok(drv->cuMemsetD8(at, 3, 64));
    assert_ok(drv->cuCtxSynchronize());
    soft_gate_put(&gate, stream);
    /* A blocking copy would never return. */
    assert_ok(drv->cuMemcpyDtoHAsync(pinned, at, 64, stream));
    assert_int_equal(pinned[0], 0);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(pinned[63], 3);
}

/* ---- where: every kind of memory, compared with arrays ---- */

enum { PLANE_BYTES = 6 << 20, PLANE_KINDS = 5, PLANE_COPIES = ROUNDS(250, 80) };

enum plane_kind { PAGEABLE, PINNED, PLAIN, MANAGED, CHUNKS };

struct plane {
    enum plane_kind kind;
    uint64_t at;
    unsigned char *model; /* its expected bytes */
};

static uint64_t plane_memory(enum plane_kind kind) {
    void *host = NULL;
    CUdeviceptr at = 0;
    switch (kind) {
    case PAGEABLE:
        host = calloc(1, PLANE_BYTES);
        break;
    case PINNED:
        assert_ok(drv->cuMemHostAlloc(&host, PLANE_BYTES, 0));
        break;
    case PLAIN:
        assert_ok(drv->cuMemAlloc(&at, PLANE_BYTES));
        break;
    case MANAGED:
        assert_ok(drv->cuMemAllocManaged(&at, PLANE_BYTES, CU_MEM_ATTACH_GLOBAL));
        break;
    case CHUNKS: /* 2 MiB and 4 MiB, so there is a border inside */
        at = soft_reserve(PLANE_BYTES);
        soft_map_at(at, soft_chunk(CHUNK, 0), CHUNK, 0);
        soft_map_at(at + CHUNK, soft_chunk(2 * CHUNK, 0), 2 * CHUNK, 0);
        break;
    }
    return host ? (uint64_t)(uintptr_t)host : at;
}

static void planes_make(struct plane planes[PLANE_KINDS], uint64_t *random) {
    for (int i = 0; i < PLANE_KINDS; i++) {
        planes[i] = (struct plane){(enum plane_kind)i, plane_memory((enum plane_kind)i),
                                   malloc(PLANE_BYTES)};
        assert_true(planes[i].at && planes[i].model);
        for (size_t k = 0; k < PLANE_BYTES; k++)
            planes[i].model[k] = (unsigned char)(k * 7 + (size_t)i * 31);
        planes[i].model[random_draw(random, PLANE_BYTES)] ^= 0xff;
        assert_ok(
            drv->cuMemcpy(planes[i].at, (CUdeviceptr)(uintptr_t)planes[i].model, PLANE_BYTES));
    }
    assert_ok(drv->cuCtxSynchronize());
}

static void planes_check(struct plane planes[PLANE_KINDS]) {
    unsigned char *seen = malloc(PLANE_BYTES);
    assert_non_null(seen);
    for (int i = 0; i < PLANE_KINDS; i++) {
        assert_ok(drv->cuMemcpy((CUdeviceptr)(uintptr_t)seen, planes[i].at, PLANE_BYTES));
        if (memcmp(seen, planes[i].model, PLANE_BYTES))
            fail_msg("memory of kind %d differs from the model", i);
    }
    free(seen);
}

static void planes_free(struct plane planes[PLANE_KINDS]) {
    for (int i = 0; i < PLANE_KINDS; i++) {
        if (planes[i].kind == PAGEABLE)
            free((void *)(uintptr_t)planes[i].at);
        free(planes[i].model);
    }
}

/* Source or destination of a copy: a plane and a position in it. */
struct side {
    struct plane *plane;
    size_t pitch, x, y;
};

static struct side side_draw(struct plane *planes, size_t width, size_t rows, uint64_t *random) {
    struct side side = {&planes[random_draw(random, PLANE_KINDS)], 0, 0, 0};
    side.x = random_draw(random, 300);
    side.pitch = side.x + width + random_draw(random, 3) * random_draw(random, 2000);
    size_t fit = PLANE_BYTES / side.pitch; /* whole rows */
    assert_true(fit >= rows);
    side.y = random_draw(random, fit - rows + 1);
    return side;
}

static void describe(struct side to, struct side from, size_t width, size_t rows,
                     CUDA_MEMCPY2D *copy) {
    memset(copy, 0, sizeof *copy);
    copy->WidthInBytes = width;
    copy->Height = rows;
    copy->srcXInBytes = from.x;
    copy->srcY = from.y;
    copy->srcPitch = from.pitch;
    copy->dstXInBytes = to.x;
    copy->dstY = to.y;
    copy->dstPitch = to.pitch;
    if (from.plane->kind == PAGEABLE || from.plane->kind == PINNED) {
        copy->srcMemoryType = CU_MEMORYTYPE_HOST;
        copy->srcHost = (const void *)(uintptr_t)from.plane->at;
    } else {
        copy->srcMemoryType = from.y % 2 ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
        copy->srcDevice = from.plane->at;
    }
    if (to.plane->kind == PAGEABLE || to.plane->kind == PINNED) {
        copy->dstMemoryType = CU_MEMORYTYPE_HOST;
        copy->dstHost = (void *)(uintptr_t)to.plane->at;
    } else {
        copy->dstMemoryType = to.y % 2 ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
        copy->dstDevice = to.plane->at;
    }
}

SOFT_TEST(copies_random_planes_agree_with_model) {
    uint64_t random = random_seed("2-D copies");
    struct plane planes[PLANE_KINDS];
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    planes_make(planes, &random);
    for (int i = 0; i < PLANE_COPIES; i++) {
        size_t width = 1 + random_draw(&random, i % 10 ? 3000 : 100000);
        size_t rows = 1 + random_draw(&random, 40);
        struct side to = side_draw(planes, width, rows, &random);
        struct side from = side_draw(planes, width, rows, &random);
        if (to.plane == from.plane) /* an overlap is undefined */
            continue;
        CUDA_MEMCPY2D copy;
        describe(to, from, width, rows, &copy);
        if (random_draw(&random, 2))
            assert_ok(drv->cuMemcpy2DAsync(&copy, stream));
        else
            assert_ok(drv->cuMemcpy2D(&copy));
        assert_ok(drv->cuCtxSynchronize()); /* the next copy may be on another stream */
        for (size_t row = 0; row < rows; row++)
            memcpy(to.plane->model + (to.y + row) * to.pitch + to.x,
                   from.plane->model + (from.y + row) * from.pitch + from.x, width);
    }
    planes_check(planes);
    planes_free(planes);
}

SOFT_TEST(copies_random_lines_agree_with_model) {
    uint64_t random = random_seed("1-D copies");
    struct plane planes[PLANE_KINDS];
    planes_make(planes, &random);
    for (int i = 0; i < PLANE_COPIES; i++) {
        struct plane *to = &planes[random_draw(&random, PLANE_KINDS)];
        struct plane *from = &planes[random_draw(&random, PLANE_KINDS)];
        if (to == from)
            continue;
        /* Half of the sources cross the border at 2 MiB. */
        size_t bytes = 1 + random_draw(&random, 2 * CHUNK);
        size_t to_at = random_draw(&random, PLANE_BYTES - bytes + 1);
        size_t from_at = random_draw(&random, 2) ? random_draw(&random, PLANE_BYTES - bytes + 1)
                                                 : CHUNK - bytes / 2;
        assert_ok(drv->cuMemcpyAsync(to->at + to_at, from->at + from_at, bytes, NULL));
        assert_ok(drv->cuCtxSynchronize());
        memcpy(to->model + to_at, from->model + from_at, bytes);
    }
    planes_check(planes);
    planes_free(planes);
}

static void fill_plane(struct plane *plane, uint64_t *random, CUstream stream) {
    size_t rows = 1 + random_draw(random, 50), width = 1 + random_draw(random, 20000);
    size_t pitch = width + random_draw(random, 5000);
    size_t offset = random_draw(random, PLANE_BYTES - rows * pitch);
    unsigned char value = (unsigned char)random_draw(random, 256);
    assert_ok(drv->cuMemsetD2D8Async(plane->at + offset, pitch, value, width, rows, stream));
    for (size_t row = 0; row < rows; row++)
        memset(plane->model + offset + row * pitch, value, width);
}

static void fill_line(struct plane *plane, uint64_t *random, CUstream stream) {
    size_t count = random_draw(random, 300000), offset = 4 * random_draw(random, 1000000);
    unsigned value = (unsigned)random_draw(random, UINT32_MAX);
    if (offset + count * 4 > PLANE_BYTES)
        count = (PLANE_BYTES - offset) / 4;
    assert_ok(drv->cuMemsetD32Async(plane->at + offset, value, count, stream));
    for (size_t i = 0; i < count; i++)
        memcpy(plane->model + offset + i * 4, &value, 4);
    offset += 1;
    count = count ? count - 1 : 0;
    assert_ok(drv->cuMemsetD8Async(plane->at + offset, (unsigned char)value, count, stream));
    memset(plane->model + offset, (unsigned char)value, count);
}

SOFT_TEST(copies_random_fills_agree_with_model) {
    uint64_t random = random_seed("fills");
    struct plane planes[PLANE_KINDS];
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    planes_make(planes, &random);
    for (int i = 0; i < 200; i++) {
        struct plane *plane = &planes[1 + random_draw(&random, PLANE_KINDS - 1)];
        if (random_draw(&random, 2))
            fill_plane(plane, &random, stream);
        else
            fill_line(plane, &random, stream);
    }
    assert_ok(drv->cuStreamSynchronize(stream));
    planes_check(planes);
    planes_free(planes);
}

/* ---- invalid copies ---- */

SOFT_TEST(copies_of_nothing_succeed_and_do_nothing) {
    CUdeviceptr at = 0;
    CUDA_MEMCPY2D copy = {0};
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuMemcpy(at, at, 0));
    assert_ok(drv->cuMemsetD8(at, 1, 0));
    assert_ok(drv->cuMemsetD32(at, 1, 0));
    assert_ok(drv->cuMemcpy2D(&copy));
    assert_true(soft_is_filled(at, 64, 0));
}

SOFT_TEST(copies_outside_of_memory_are_refused) {
    CUdeviceptr at = 0, range = soft_reserve(4 * CHUNK);
    char *host = malloc(2 * MIB);
    assert_non_null(host);
    assert_ok(drv->cuMemAlloc(&at, 1000));
    soft_map_at(range, soft_chunk(CHUNK, 0), CHUNK, 0);
    soft_map_at(range + 2 * CHUNK, soft_chunk(CHUNK, 0), CHUNK, 0);
    assert_refused(drv->cuMemcpyHtoD(at, host, 1001));
    assert_refused(drv->cuMemcpyHtoD(at + 1, host, 1000));
    assert_refused(drv->cuMemcpyDtoH(host, range + CHUNK - 1, 2)); /* into the gap */
    assert_refused(drv->cuMemcpyDtoH(host, range + CHUNK, 1));
    assert_refused(drv->cuMemcpyDtoD(range, range + 3 * CHUNK, 1));
    assert_refused(drv->cuMemcpyHtoD(at, NULL, 1));
    assert_refused(drv->cuMemcpyDtoH(NULL, at, 1));
    assert_refused(drv->cuMemcpyHtoD(at, host, SIZE_MAX));
    assert_refused(drv->cuMemsetD8(at, 1, SIZE_MAX));
    assert_refused(drv->cuMemsetD32(at, 1, SIZE_MAX));
    assert_refused(drv->cuMemsetD32(at + 2, 1, 1));
    assert_refused(drv->cuMemsetD8(range, 1, CHUNK + 1));
    assert_refused(drv->cuMemsetD8((CUdeviceptr)(uintptr_t)host, 1, 1));
    assert_refused(drv->cuMemsetD2D8Async(at, SIZE_MAX, 1, 1, 2, NULL));
    assert_refused(drv->cuMemsetD2D8Async(at, 1, 1, 1, SIZE_MAX, NULL));
    assert_refused(drv->cuMemsetD2D8Async(at, 4, 1, 8, 2, NULL));
    assert_ok(drv->cuCtxSynchronize());
    assert_true(soft_is_filled(at, 1000, 0));
    free(host);
}

SOFT_TEST(copies_of_wrong_planes_are_refused) {
    CUdeviceptr at = 0;
    char host[64] = {0};
    assert_ok(drv->cuMemAlloc(&at, 4096));
    const CUDA_MEMCPY2D good = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = host,
                                .srcPitch = 16,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = at,
                                .dstPitch = 16,
                                .WidthInBytes = 16,
                                .Height = 4};
    CUDA_MEMCPY2D bad[14];
    for (size_t i = 0; i < 14; i++)
        bad[i] = good;
    bad[0].srcPitch = 15;
    bad[1].dstPitch = 1;
    bad[2].srcMemoryType = CU_MEMORYTYPE_ARRAY;
    bad[3].dstMemoryType = (CUmemorytype)9;
    bad[4].srcHost = NULL;
    bad[5].dstDevice = 0;
    bad[6].WidthInBytes = SIZE_MAX;
    bad[7].Height = SIZE_MAX;
    bad[8].srcXInBytes = SIZE_MAX - 8;
    bad[9].dstXInBytes = 1;
    bad[10].srcY = SIZE_MAX / 16 + 2; /* wraps around to a small address */
    bad[11].dstY = SIZE_MAX / 16 + 2;
    bad[12].dstY = 253;
    bad[13].dstPitch = SIZE_MAX;
    for (size_t i = 0; i < 14; i++)
        if (drv->cuMemcpy2D(&bad[i]) != CUDA_ERROR_INVALID_VALUE)
            fail_msg("the invalid copy %zu was accepted", i);
    assert_refused(drv->cuMemcpy2D(NULL));
    assert_ok(drv->cuMemcpy2D(&good));
}

/* ---- memory removed under work ---- */

SOFT_TEST(copies_unmapped_under_queued_work_are_reported_and_stick) {
    struct gate gate;
    char text[512] = "";
    CUdeviceptr more = 0;
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr at = soft_map(chunk, CHUNK, 0);
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING), other = soft_stream(1);
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuMemsetD8Async(at + 4096, 1, 64, stream));
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
    assert_ok(drv->cuMemUnmap(at, CHUNK)); /* does not wait, like the real driver */
    assert_int_equal(acre__soft_reports(text, sizeof text), 1);
    assert_non_null(strstr(text, "unmapped"));
    assert_ok(drv->cuStreamSynchronize(other)); /* the invalid fill has not run yet */
    soft_gate_open(&gate);
    const CUresult lost = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_int_equal(drv->cuStreamSynchronize(stream), lost);
    assert_int_equal(drv->cuStreamSynchronize(stream), lost);
    assert_int_equal(drv->cuCtxSynchronize(), lost);
    assert_int_equal(drv->cuMemAlloc(&more, 64), lost);
    assert_int_equal(drv->cuMemsetD8Async(at, 1, 64, other), lost);
    assert_int_equal(acre__soft_reports(NULL, 0), 2); /* the use is reported too */
}

/* The operation is in a worker and no longer in the queue, but the stream still reports it as
 * running. */
SOFT_TEST(copies_unmapped_under_running_work_are_reported) {
    CUdeviceptr at = soft_map(soft_chunk(32 * MIB, 0), 32 * MIB, 0);
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    int is_seen = 0;
    for (int i = 0; i < 10000 && !is_seen; i++) {
        assert_ok(drv->cuMemsetD8Async(at, 1, 32 * MIB, stream));
        sleep_ms(1);
        acre__lock_take(&acre__soft.lock); /* a running operation cannot end now */
        const struct soft_stream *found = acre__soft.devices[0].ctx.streams;
        is_seen = found->is_running && found->head == found->tail;
        if (is_seen)
            acre__soft_report_pending(at + 32 * MIB - 1, 1, 0, "unmapped");
        acre__lock_give(&acre__soft.lock);
        assert_ok(drv->cuStreamSynchronize(stream));
    }
    assert_true(is_seen);
    assert_int_equal(acre__soft_reports(NULL, 0), 1);
}

SOFT_TEST(copies_remapped_elsewhere_are_not_reported) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr at = soft_map(chunk, CHUNK, 0), beside = soft_map(chunk, CHUNK, 0);
    struct gate gate;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuMemsetD8Async(at, 1, CHUNK, stream));
    /* Unmaps another mapping of the chunk, which the fill does not use. */
    assert_ok(drv->cuMemUnmap(beside, CHUNK));
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
}

/* A device is lost while calls wait for copies to pageable memory: the calls return, and the
 * workers must not write to the calls' memory afterwards. */
static void *copy_until_lost(void *argument) {
    CUdeviceptr at = *(const CUdeviceptr *)argument;
    CUstream stream = NULL;
    unsigned char *target = malloc(8 * MIB);
    CUresult result = drv->cuCtxPushCurrent(soft_ctx[0]);
    if (!result)
        result = drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    while (target && !result)
        result = drv->cuMemcpyDtoHAsync(target, at, 8 * MIB, stream);
    free(target);
    return result == CUDA_ERROR_ILLEGAL_ADDRESS ? NULL : argument;
}

SOFT_TEST(copies_that_wait_return_when_the_device_is_lost) {
    for (int round = 0; round < 5; round++) {
        pthread_t threads[3];
        CUdeviceptr at = 0;
        CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
        CUdeviceptr gone = soft_map(chunk, CHUNK, 0);
        CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
        struct gate gate;
        assert_ok(drv->cuMemAlloc(&at, 8 * MIB));
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, copy_until_lost, &at), 0);
        soft_gate_put(&gate, stream);
        assert_ok(drv->cuMemsetD8Async(gone, 1, 64, stream));
        assert_ok(drv->cuMemUnmap(gone, CHUNK));
        sleep_ms(5);
        soft_gate_open(&gate);
        for (int i = 0; i < 3; i++) {
            void *failed = &gate;
            pthread_join(threads[i], &failed);
            assert_null(failed);
        }
        soft_teardown(state);
        soft_setup(state);
    }
}

int main(void) {
    return tests_run("soft_copies");
}
