/* For white-box tests of the space layer: a small soft device, words in device memory, queries of
 * the driver's mappings, and driver tables in which a test replaces a function.
 *
 * Driver calls here bypass acre. They make the device's context current for that call only. */
#ifndef ACRE_TESTS_UNIT_SPACE_FIXTURE_H
#define ACRE_TESTS_UNIT_SPACE_FIXTURE_H

#include "api/api_memory.h"
#include "device/device.h"
#include "space/chunk.h"
#include "space/extent.h"
#include "space/range.h"

/* Opens a soft device of the given size; the environment does not matter. */
static inline acre_device *space_open_soft(uint64_t bytes, uint32_t devices, uint32_t number) {
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = bytes, .soft_devices = devices};
    acre_device *dev = NULL;
    char name[16];
    snprintf(name, sizeof name, "soft:%u", number);
    api_ok(acre_open(name, &options, &dev));
    return dev;
}

static inline void space_push(acre_device *dev, struct acre__current *current) {
    const char *what;
    assert_int_equal(acre__device_push(dev, current, &what), 0);
}

static inline uint64_t space_free_bytes(acre_device *dev) {
    struct acre__current current;
    size_t free_bytes = 0, total = 0;
    space_push(dev, &current);
    assert_int_equal(dev->drv->cuMemGetInfo(&free_bytes, &total), 0);
    acre__device_pop(dev, &current);
    return free_bytes;
}

/* ---- words in device memory ---- */

static inline void space_write(acre_device *dev, uint64_t at, uint64_t word) {
    struct acre__current current;
    space_push(dev, &current);
    assert_int_equal(dev->drv->cuMemcpyHtoD(at, &word, sizeof word), 0);
    acre__device_pop(dev, &current);
}

static inline uint64_t space_read(acre_device *dev, uint64_t at) {
    struct acre__current current;
    uint64_t word = 0;
    space_push(dev, &current);
    assert_int_equal(dev->drv->cuMemcpyDtoH(&word, at, sizeof word), 0);
    acre__device_pop(dev, &current);
    return word;
}

/* Writes the first and the last word of every unit in [from, to) of an extent. */
static inline void space_mark(struct acre__extent *extent, size_t from, size_t to, uint64_t mark) {
    for (size_t i = from / extent->unit; i < to / extent->unit; i++) {
        uint64_t at = extent->range.at + i * extent->unit;
        space_write(extent->dev, at, mark + 2 * i);
        space_write(extent->dev, at + extent->unit - 8, mark + 2 * i + 1);
    }
}

static inline void space_expect_marks(struct acre__extent *extent, size_t from, size_t to,
                                      uint64_t mark) {
    for (size_t i = from / extent->unit; i < to / extent->unit; i++) {
        uint64_t at = extent->range.at + i * extent->unit;
        assert_int_equal(space_read(extent->dev, at), mark + 2 * i);
        assert_int_equal(space_read(extent->dev, at + extent->unit - 8), mark + 2 * i + 1);
    }
}

/* ---- queries of the driver ---- */

/* Returns the access that a device has at an address, or -1 if nothing is mapped there. */
static inline int space_access_at(acre_device *dev, uint64_t at, CUdevice device) {
    struct acre__current current;
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    unsigned long long flags = 0;
    space_push(dev, &current);
    CUresult code = dev->drv->cuMemGetAccess(&flags, &location, at);
    acre__device_pop(dev, &current);
    return code ? -1 : (int)flags;
}

/* Returns the handle of the chunk that is mapped at an address, or 0. */
static inline CUmemGenericAllocationHandle space_handle_at(acre_device *dev, uint64_t at) {
    struct acre__current current;
    CUmemGenericAllocationHandle handle = 0;
    space_push(dev, &current);
    if (dev->drv->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at) == CUDA_SUCCESS)
        assert_int_equal(dev->drv->cuMemRelease(handle), 0);
    else
        handle = 0;
    acre__device_pop(dev, &current);
    return handle;
}

/* Returns NULL if the extent's record is consistent, or a description of the fault. */
static inline const char *extent_fault(struct acre__extent *extent) {
    const char *fault = NULL;
    acre__lock_take(&extent->lock);
    uint64_t at = extent->range.at;
    size_t sum = 0;
    for (size_t i = 0; i < extent->count && !fault; i++) {
        const struct acre__mapping *mapping = extent->mappings[i];
        if (mapping->at != at)
            fault = "a mapping does not begin where the one before it ends";
        if (!atomic_load_explicit(&mapping->chunk->users, memory_order_relaxed))
            fault = "a mapped chunk has no users";
        at += mapping->chunk->bytes;
        sum += mapping->chunk->bytes;
    }
    if (!fault && sum != extent->mapped)
        fault = "the mappings' bytes do not add up to the mapped bytes";
    if (!fault && extent->mapped > extent->range.bytes)
        fault = "more bytes are mapped than addresses are reserved";
    acre__lock_give(&extent->lock);
    return fault;
}

/* Expects that the extent's record is consistent and agrees with the driver's mappings. */
static inline void space_expect_truth(struct acre__extent *extent) {
    const char *fault = extent_fault(extent);
    if (fault)
        fail_msg("%s", fault);
    for (size_t i = 0; i < extent->count; i++) {
        const struct acre__mapping *mapping = extent->mappings[i];
        if (extent->dev->drv->is_soft)
            assert_int_equal(space_handle_at(extent->dev, mapping->at), mapping->chunk->handle);
        for (size_t k = 0; k < extent->access_count; k++) {
            const CUmemAccessDesc *access = &extent->access[k];
            if (access->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
                assert_int_equal(space_access_at(extent->dev, mapping->at + extent->unit - 1,
                                                 access->location.id),
                                 (int)access->flags);
        }
    }
    for (size_t at = extent->mapped; at < extent->range.bytes; at += extent->unit)
        assert_int_equal(space_access_at(extent->dev, extent->range.at + at, extent->dev->device),
                         -1);
}

/* Expects that the space layer holds nothing on the device, and closes the device. */
static inline void space_close_empty(acre_device *dev, uint64_t free_bytes) {
    uint64_t count, bytes, cached, reserved, taken;
    api_ok(acre_trim(dev));
    acre__chunk_count(dev, &count, &bytes, &cached);
    acre__range_count(dev, &reserved, &taken);
    assert_int_equal(count + bytes + cached, 0);
    assert_int_equal(reserved + taken, 0);
    assert_int_equal(api_stats(dev).limbo_count, 0);
    assert_int_equal(space_free_bytes(dev), free_bytes);
    api_ok(acre_close(dev));
}

/* ---- replaced driver functions ---- */

/* The device's driver table, and a copy in which a test replaces functions. */
struct space_table {
    const struct acre__driver *real;
    struct acre__driver table;
};

static inline void space_table_begin(struct space_table *t, acre_device *dev) {
    t->real = dev->drv;
    t->table = *dev->drv;
    dev->drv = &t->table;
}

static inline void space_table_end(const struct space_table *t, acre_device *dev) {
    dev->drv = t->real;
}

#endif
