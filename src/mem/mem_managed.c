/* Functions for managed memory only: prefetch, advice, attachment. */
#include "base/status.h"
#include "mem/mem_block.h"

/* Looks up the managed block that holds [p, p + bytes). Otherwise ACRE_E_KIND, ACRE_E_RANGE,
 * ACRE_E_NULL or ACRE_E_HANDLE. */
static acre_status check_managed(acre_device *dev, const void *p, size_t bytes,
                                 acre_mem_info *info) {
    if (!p)
        return acre__fail(ACRE_E_NULL, "the address is NULL");
    acre_status status = acre__book_look(dev, p, info);
    if (status)
        return status;
    if (info->kind != ACRE_KIND_MANAGED)
        return acre__fail(ACRE_E_KIND, "%p is not managed memory", p);
    if ((status = acre__mem_check_driver(dev, p, info)))
        return status;
    if (bytes > acre__book_room(info, p))
        return acre__fail(ACRE_E_RANGE, "%zu bytes at %p run past the end of the block", bytes, p);
    return ACRE_OK;
}

static acre_status place_of(acre_device *dev, uint32_t place, CUmemLocation *location) {
    if (place > ACRE_PLACE_HOST)
        return acre__fail(ACRE_E_INVALID, "invalid place %u for managed memory", place);
    location->type =
        place == ACRE_PLACE_HOST ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
    location->id = place == ACRE_PLACE_HOST ? 0 : dev->device;
    return ACRE_OK;
}

static acre_status mem_prefetch(acre_device *device, const void *p, size_t bytes, uint32_t place,
                                acre_stream stream) {
    acre_mem_info info;
    CUmemLocation location;
    struct acre__current call;
    acre_status status = acre__mem_enter(device);
    if (status == ACRE_OK && !bytes)
        status = acre__fail(ACRE_E_INVALID, "acre_mem_prefetch: 0 bytes");
    if (status == ACRE_OK)
        status = check_managed(device, p, bytes, &info);
    if (status == ACRE_OK)
        status = place_of(device, place, &location);
    if (status == ACRE_OK)
        status = acre__stream_check(device, stream);
    if (status)
        return status;
    if (acre__device_call(device, &call))
        call.code =
            device->drv->cuMemPrefetchAsync((CUdeviceptr)(uintptr_t)p, bytes, location, 0, stream);
    return acre__device_done(device, &call, "cuMemPrefetchAsync");
}

acre_status acre_mem_prefetch(acre_device *device, const void *p, size_t bytes, uint32_t place,
                              acre_stream stream) {
    return acre__in_call(mem_prefetch(device, p, bytes, place, stream), "acre_mem_prefetch");
}

static acre_status mem_advise(acre_device *device, const void *p, size_t bytes, acre_advice advice,
                              uint32_t place) {
    acre_mem_info info;
    CUmemLocation location;
    struct acre__current call;
    acre_status status = acre__mem_enter(device);
    if (status == ACRE_OK &&
        (!bytes || (int)advice < ACRE_ADVICE_READ_MOSTLY || advice > ACRE_ADVICE_NOT_ACCESSED_BY))
        status = acre__fail(ACRE_E_INVALID,
                            "acre_mem_advise: invalid size or advice: %zu bytes, advice %d", bytes,
                            (int)advice);
    if (status == ACRE_OK)
        status = check_managed(device, p, bytes, &info);
    if (status == ACRE_OK)
        status = place_of(device, place, &location);
    if (status)
        return status;
    if (acre__device_call(device, &call))
        call.code = device->drv->cuMemAdvise((CUdeviceptr)(uintptr_t)p, bytes, (CUmem_advise)advice,
                                             location);
    return acre__device_done(device, &call, "cuMemAdvise");
}

acre_status acre_mem_advise(acre_device *device, const void *p, size_t bytes, acre_advice advice,
                            uint32_t place) {
    return acre__in_call(mem_advise(device, p, bytes, advice, place), "acre_mem_advise");
}

static acre_status mem_attach(acre_device *device, void *p, uint32_t attach, acre_stream stream) {
    acre_mem_info info;
    struct acre__current call;
    acre_status status = acre__mem_enter(device);
    if (status == ACRE_OK && attach != ACRE_ATTACH_GLOBAL && attach != ACRE_ATTACH_HOST &&
        attach != ACRE_ATTACH_SINGLE)
        status = acre__fail(ACRE_E_INVALID, "acre_mem_attach: invalid attachment %u", attach);
    if (status == ACRE_OK)
        status = check_managed(device, p, 0, &info);
    if (status == ACRE_OK && info.base != p)
        status = acre__fail(
            ACRE_E_INTERIOR,
            "acre_mem_attach: %p lies inside a block; pass the block's first address", p);
    if (status == ACRE_OK)
        status = acre__stream_check(device, stream);
    if (status == ACRE_OK && attach == ACRE_ATTACH_SINGLE && !stream)
        status = acre__fail(
            ACRE_E_INVALID,
            "acre_mem_attach: ACRE_ATTACH_SINGLE needs a stream other than the legacy stream");
    if (status)
        return status;
    if (attach == ACRE_ATTACH_SINGLE)
        acre__stream_note_attached(device, stream);
    if (acre__device_call(device, &call))
        call.code =
            device->drv->cuStreamAttachMemAsync(stream, (CUdeviceptr)(uintptr_t)p, 0, attach);
    return acre__device_done(device, &call, "cuStreamAttachMemAsync");
}

acre_status acre_mem_attach(acre_device *device, void *p, uint32_t attach, acre_stream stream) {
    return acre__in_call(mem_attach(device, p, attach, stream), "acre_mem_attach");
}
