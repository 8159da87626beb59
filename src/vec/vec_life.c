/* Creates and destroys vecs; checks their options. */
#include <stdlib.h>

#include "base/log.h"
#include "base/options.h"
#include "base/round.h"
#include "base/run.h"
#include "base/status.h"
#include "base/thread.h"
#include "space/steps.h"
#include "vec/vec.h"
#include "watch/origin.h"

/* Exporting a chunk costs 1.1 ms whatever its size, so shareable vecs have few, large chunks. */
#define VEC_CHUNK_BYTES ((size_t)2 << 20)
#define VEC_CHUNK_BYTES_SHAREABLE ((size_t)64 << 20)
/* Managed memory is allocated for the whole reservation, so the default is less than the whole
 * card. */
#define VEC_MANAGED_BYTES ((size_t)256 << 20)

/* ---- options ---- */

static acre_status options_check(const acre_vec_options *options) {
    uint32_t known = ACRE_VEC_SHAREABLE | ACRE_VEC_RDMA;
    if (options->reserved || options->flags & ~known)
        return acre__fail(ACRE_E_OPTIONS,
                          "acre_vec_options: unknown flags 0x%x or reserved field %u not 0",
                          options->flags, options->reserved);
    if (options->address_bytes > PTRDIFF_MAX || options->ahead_bytes > PTRDIFF_MAX ||
        options->chunk_bytes > PTRDIFF_MAX)
        return acre__fail(ACRE_E_INVALID, "acre_vec_options: a size exceeds the address space");
    if (options->strategy != ACRE_VEC_AUTO && options->strategy != ACRE_VEC_VMM &&
        options->strategy != ACRE_VEC_COPY && options->strategy != ACRE_VEC_MANAGED)
        return acre__fail(ACRE_E_INVALID, "acre_vec_options: invalid strategy %d",
                          (int)options->strategy);
    return ACRE_OK;
}

/* Fills in kind and strategy and checks that they match. Flags need mapped device memory. */
static acre_status options_choose(acre_vec_options *options) {
    if (!options->kind)
        options->kind =
            options->strategy == ACRE_VEC_MANAGED ? ACRE_KIND_MANAGED : ACRE_KIND_DEVICE;
    if (options->kind != ACRE_KIND_DEVICE && options->kind != ACRE_KIND_PINNED &&
        options->kind != ACRE_KIND_MANAGED)
        return acre__fail(ACRE_E_INVALID, "acre_vec_options: kind %d is invalid for a vec",
                          (int)options->kind);
    int is_managed = options->kind == ACRE_KIND_MANAGED;
    if (is_managed && options->strategy == ACRE_VEC_AUTO)
        options->strategy = ACRE_VEC_MANAGED;
    if (is_managed != (options->strategy == ACRE_VEC_MANAGED))
        return acre__fail(ACRE_E_INVALID, "acre_vec_options: kind %d is invalid for strategy %d",
                          (int)options->kind, (int)options->strategy);
    if (options->flags && (options->kind != ACRE_KIND_DEVICE || options->strategy == ACRE_VEC_COPY))
        return acre__fail(ACRE_E_INVALID, "acre_vec_options: flags 0x%x need mapped device memory",
                          options->flags);
    return ACRE_OK;
}

/* Flags of the chunks of a vec that grows by mapping. Only shareable vecs use exportable chunks,
 * which may cost the driver more. */
static uint32_t chunk_flags(const acre_vec_options *options) {
    uint32_t flags = 0;
    if (options->kind == ACRE_KIND_PINNED)
        return ACRE__CHUNK_HOST;
    if (options->flags & ACRE_VEC_SHAREABLE)
        flags |= ACRE__CHUNK_SHAREABLE;
    if (options->flags & ACRE_VEC_RDMA)
        flags |= ACRE__CHUNK_RDMA;
    return flags;
}

/* Checks that the device supports the options, and resolves ACRE_VEC_AUTO. */
static acre_status options_fit(acre_device *dev, acre_vec_options *options) {
    int can_map = acre__chunk_unit(dev, chunk_flags(options)) != 0;
    if (options->strategy == ACRE_VEC_AUTO)
        options->strategy = can_map ? ACRE_VEC_VMM : ACRE_VEC_COPY;
    if (options->strategy == ACRE_VEC_VMM && !can_map)
        return acre__fail(ACRE_E_UNSUPPORTED, "%s cannot map %s memory", dev->label,
                          options->kind == ACRE_KIND_PINNED ? "host" : "device");
    if (options->strategy == ACRE_VEC_MANAGED && !dev->info.has_managed)
        return acre__fail(ACRE_E_UNSUPPORTED, "%s has no managed memory", dev->label);
    if (options->flags & ACRE_VEC_SHAREABLE && (!can_map || !dev->info.has_fd_sharing))
        return acre__fail(ACRE_E_UNSUPPORTED, "%s cannot share memory with other processes",
                          dev->label);
    return ACRE_OK;
}

/* ---- opening and closing ---- */

static size_t chunk_least(acre_device *dev, const acre_vec_options *options) {
    size_t unit = acre__chunk_unit(dev, chunk_flags(options));
    size_t least = (size_t)options->chunk_bytes;
    if (!least)
        least = options->flags & ACRE_VEC_SHAREABLE ? VEC_CHUNK_BYTES_SHAREABLE : VEC_CHUNK_BYTES;
    return least < unit ? unit : acre__round_up(least, unit);
}

static acre_status vec_open(acre_vec *vec, const acre_vec_options *options) {
    if (vec->strategy != ACRE_VEC_VMM) {
        vec->way = &acre__vec_segment;
        vec->address_bytes = (size_t)options->address_bytes;
        if (!vec->address_bytes && vec->strategy == ACRE_VEC_MANAGED)
            vec->address_bytes = VEC_MANAGED_BYTES;
        return ACRE_OK;
    }
    vec->way = &acre__vec_vmm;
    return acre__vec_vmm_open(vec, chunk_flags(options), (size_t)options->address_bytes,
                              chunk_least(vec->dev, options));
}

static acre_vec *vec_make(acre_device *dev, size_t element_bytes, const acre_vec_options *options) {
    acre_vec *vec = calloc(1, sizeof *vec);
    if (!vec)
        return NULL;
    vec->dev = dev;
    vec->element_bytes = element_bytes;
    vec->kind = options->kind;
    vec->strategy = options->strategy;
    vec->flags = options->flags;
    vec->limit_bytes = SIZE_MAX;
    if (options->limit_bytes && options->limit_bytes < SIZE_MAX)
        vec->limit_bytes = (size_t)options->limit_bytes;
    /* Whole chunks; the thread maps half of it per step. */
    size_t step = 2 * (dev->info.granularity_bytes ? (size_t)dev->info.granularity_bytes : 1);
    vec->ahead_bytes = acre__round_up(options->ahead_bytes, step);
    acre__uses_open(&vec->uses, dev);
    acre__lock_init(&vec->change, "vec", ACRE__RANK_VEC);
    acre__lock_init(&vec->size, "vec size", ACRE__RANK_VEC + 1);
    acre__cond_init(&vec->wake);
    return vec;
}

static void vec_free(acre_vec *vec) {
    acre__cond_destroy(&vec->wake);
    acre__lock_destroy(&vec->size);
    acre__lock_destroy(&vec->change);
    free(vec);
}

/* Removes the block of a vec that grows by mapping from the book: ACRE_E_BUSY while it is
 * shared. */
static acre_status vec_unbook(acre_vec *vec) {
    acre_status status = ACRE_OK;
    if (vec->block.is_entered)
        (void)acre__book_remove(vec->dev, (void *)(uintptr_t)vec->block.node.key,
                                ACRE__OWNED_BY_VEC, &status);
    return status;
}

/* Called after all steps that may fail. */
static void vec_close(acre_vec *vec) {
    acre__vec_ahead_end(vec);
    vec->way->close(vec);
    acre__uses_close(&vec->uses);
    vec_free(vec);
}

static void vec_end(acre_vec *vec) {
    acre__vec_ahead_end(vec); /* before the vec's block leaves the book */
    (void)vec_unbook(vec);
    if (!acre__device_is_lost(vec->dev)) /* the streams that use the vec are unknown */
        (void)acre__step_quiesce_users(vec->dev);
    vec_close(vec);
}

/* ---- devices ---- */

static const struct acre__what vec_what = {"acre_vec_create", "vec", "vec", "vecs"};

/* Destroys the vecs that are left when the program closes the device. */
static void vecs_close(acre_device *dev) {
    unsigned long long count = 0, bytes = 0;
    for (acre_vec *vec; (vec = acre__live_take_any(&acre__vecs, dev)); count++) {
        acre__vec_ahead_end(vec);
        bytes += vec->now.mapped;
        vec_end(vec);
    }
    if (!count || acre__origin_log_leaks(dev, &vec_what))
        return;
    acre__log(ACRE_LOG_WARN, "vec", "%s: closed with %llu vecs not destroyed (%llu bytes)",
              dev->label, count, bytes);
    acre__run_leaked("acre_vec_create", count, bytes, NULL);
}

static void vec_stats(acre_device *dev, acre_device_stats *stats) {
    stats->vecs += acre__live_count(&acre__vecs, dev);
}

/* ---- creating ---- */

static acre_status vec_create(acre_device *device, size_t element_bytes,
                              const acre_vec_options *options, acre_vec **vec) {
    static const struct acre__device_hooks hooks = {.close = vecs_close, .stats = vec_stats};
    acre_vec_options wishes;
    if (vec)
        *vec = NULL;
    acre_status status = acre__device_enter(device);
    if (status || (status = acre__not_null(vec, "acre_vec_create: vec")))
        return status;
    if (!element_bytes || element_bytes > PTRDIFF_MAX)
        return acre__fail(ACRE_E_INVALID, "acre_vec_create: invalid element size: %zu bytes",
                          element_bytes);
    if ((status = acre__options_in(&wishes, sizeof wishes, options, "acre_vec_options")) ||
        (status = options_check(&wishes)) || (status = options_choose(&wishes)) ||
        (status = options_fit(device, &wishes)))
        return status;
    acre__device_hooks_add(&hooks);
    acre_vec *made = vec_make(device, element_bytes, &wishes);
    if (!made)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a vec's record");
    if ((status = vec_open(made, &wishes))) {
        vec_free(made);
        return status;
    }
    acre__lock_take(&made->size);
    acre__vec_tell(made);
    acre__lock_give(&made->size);
    if ((status = acre__vec_ahead_begin(made))) {
        vec_end(made);
        return status;
    }
    acre__live_add(&acre__vecs, &made->live, device);
    if (acre__stacks_are_on()) { /* a thread may map ahead already */
        acre__lock_take(&made->change);
        (void)acre__origin_add(made, made->now.mapped, &vec_what, device, device->label);
        acre__lock_give(&made->change);
    }
    *vec = made;
    return ACRE_OK;
}

acre_status acre_vec_create(acre_device *device, size_t element_bytes,
                            const acre_vec_options *options, acre_vec **vec) {
    return acre__in_call(vec_create(device, element_bytes, options, vec), "acre_vec_create");
}

/* ---- sharing ---- */

struct acre__block *acre__vec_pin(acre_vec *vec, acre_status *status) {
    if (vec->way != &acre__vec_vmm) {
        *status = acre__fail(ACRE_E_KIND, "the vec grows by copying and cannot be shared");
        return NULL;
    }
    acre__lock_take(&vec->change);
    void *at = (void *)(uintptr_t)vec->extent.range.at;
    struct acre__block *block = acre__book_pin(vec->dev, at, status);
    acre__lock_give(&vec->change);
    return block;
}

/* ---- destroying ---- */

/* The change lock is held. */
static acre_status destroy_begin(acre_vec *vec, acre_stream stream) {
    acre_status status = vec_unbook(vec);
    if (status || !vec->now.mapped || acre__device_is_lost(vec->dev))
        return status;
    status = acre__uses_settle(&vec->uses, stream);
    /* A device that was lost meanwhile has no work in flight either. */
    if (status && !acre__device_is_lost(vec->dev)) {
        if (vec->extent.range.at)
            (void)acre__book_add(&vec->block);
        return status;
    }
    return ACRE_OK;
}

static acre_status vec_destroy(acre_vec *vec, acre_stream stream) {
    acre_status status = acre__enter();
    if (status || !vec)
        return status;
    status = acre__vec_check(vec);
    if (status)
        return status;
    acre__lock_take(&vec->change);
    status = destroy_begin(vec, stream);
    /* From here on the grow-ahead thread does not map. */
    if (status == ACRE_OK && vec->has_thread) {
        acre__lock_take(&vec->size);
        vec->is_ending = 1;
        acre__lock_give(&vec->size);
    }
    acre__lock_give(&vec->change);
    if (status)
        return status;
    if (!acre__live_take(&acre__vecs, vec, &status))
        return status;
    (void)acre__origin_free(vec);
    vec_close(vec);
    return ACRE_OK;
}

acre_status acre_vec_destroy(acre_vec *vec, acre_stream stream) {
    return acre__in_call(vec_destroy(vec, stream), "acre_vec_destroy");
}
