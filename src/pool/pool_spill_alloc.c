/* acre_pool_alloc_spillable: checks, and small blocks, which are ordinary ones. */
#include "base/status.h"
#include "base/thread.h"
#include "device/held.h"
#include "pool/pool_list.h"
#include "pool/pool_spill.h"
#include "pool/pool_watch.h"
#include "space/mapped.h"

static acre_status alloc_check(acre_pool *pool, acre_stream stream, void **p) {
    acre_status status = acre__pool_enter(pool);
    if (status || (status = acre__not_null(p, "p")) ||
        (status = acre__stream_check(pool->dev, stream)) ||
        (status =
             acre__stream_not_captured(pool->dev, stream, "a graph cannot have spillable memory")))
        return status;
    if (pool->kind != ACRE_KIND_DEVICE)
        return acre__fail(ACRE_E_KIND, "only pools of device memory have spillable blocks");
    if (!acre__chunk_unit(pool->dev, 0))
        return acre__fail(ACRE_E_UNSUPPORTED, "%s cannot map memory", pool->dev->label);
    return acre__device_has_memory(pool->dev);
}

static acre_status alloc_spillable(acre_pool *pool, size_t bytes, acre_stream stream, void **p) {
    if (p)
        *p = NULL;
    acre_status status = alloc_check(pool, stream, p);
    if (status)
        return status;
    if (bytes < pool->dev->info.granularity_bytes) {
        acre__inner_begin();
        return acre__inner_end(acre_pool_alloc(pool, bytes, 0, stream, p));
    }
    if ((status = acre__held_check(pool->dev, bytes)))
        return status;
    return acre__spill_alloc(pool, bytes, p);
}

acre_status acre_pool_alloc_spillable(acre_pool *pool, size_t bytes, acre_stream stream, void **p) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = alloc_spillable(pool, bytes, stream, p);
    while (acre__must_retry(status, &seen));
    if (acre__is_watched())
        acre__pool_watch_alloc(pool, bytes, stream, status, p ? *p : NULL);
    return acre__in_call(status, "acre_pool_alloc_spillable");
}
