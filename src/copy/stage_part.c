/* Parts of staging: see stage_part.h. No state; a list belongs to its caller. */
#include "copy/stage_part.h"

#include <stdlib.h>

#include "device/driver_status.h"
#include "space/host_pages.h"

static CUresult give_back_event(const struct acre__driver *drv, struct acre__limbo_item *item) {
    return drv->cuEventDestroy(((struct acre__stage_part *)item)->event);
}

static CUresult give_back_stream(const struct acre__driver *drv, struct acre__limbo_item *item) {
    return drv->cuStreamDestroy(((struct acre__stage_part *)item)->stream);
}

static CUresult give_back_pages(const struct acre__driver *drv, struct acre__limbo_item *item) {
    return drv->cuMemHostUnregister(((struct acre__stage_part *)item)->pages);
}

static void part_forget(struct acre__limbo_item *item) {
    struct acre__stage_part *part = (struct acre__stage_part *)item;
    if (part->pages)
        acre__host_pages_free(part->pages, part->bytes);
    free(part);
}

static const struct acre__limbo_kind kind_event = {"cuEventDestroy", give_back_event, part_forget};
static const struct acre__limbo_kind kind_stream = {"cuStreamDestroy", give_back_stream,
                                                    part_forget};
static const struct acre__limbo_kind kind_pages = {"cuMemHostUnregister", give_back_pages,
                                                   part_forget};

static struct acre__stage_part *part_create(const struct acre__limbo_kind *kind) {
    struct acre__stage_part *part = calloc(1, sizeof *part);
    if (part)
        part->item.kind = kind;
    return part;
}

/* Adds the part to the list, or frees it if the driver failed. */
static int part_enter(acre_device *dev, struct acre__stage_part **list,
                      struct acre__stage_part *part, CUresult code, const char *what) {
    if (code) {
        (void)acre__driver_fail(dev, code, what);
        part_forget(&part->item);
        return 0;
    }
    part->next = *list;
    *list = part;
    return 1;
}

int acre__stage_event(acre_device *dev, struct acre__stage_part **list, CUevent *event) {
    struct acre__stage_part *part = part_create(&kind_event);
    if (!part)
        return 0;
    CUresult code = dev->drv->cuEventCreate(&part->event, CU_EVENT_DISABLE_TIMING);
    *event = part->event;
    return part_enter(dev, list, part, code, "cuEventCreate");
}

int acre__stage_stream(acre_device *dev, struct acre__stage_part **list, CUstream *stream) {
    struct acre__stage_part *part = part_create(&kind_stream);
    if (!part)
        return 0;
    CUresult code = dev->drv->cuStreamCreate(&part->stream, CU_STREAM_NON_BLOCKING);
    *stream = part->stream;
    return part_enter(dev, list, part, code, "cuStreamCreate");
}

int acre__stage_pages(acre_device *dev, struct acre__stage_part **list, size_t bytes,
                      char **pages) {
    struct acre__stage_part *part = part_create(&kind_pages);
    struct acre__touching touching;
    void *made = NULL;
    if (!part)
        return 0;
    if (acre__host_pages_begin(bytes, &made, &part->bytes, &touching)) {
        part_forget(&part->item);
        return 0;
    }
    *pages = part->pages = made;
    CUresult code =
        dev->drv->cuMemHostRegister(part->pages, part->bytes, CU_MEMHOSTREGISTER_DEVICEMAP);
    acre__host_pages_end(&touching);
    return part_enter(dev, list, part, code, "cuMemHostRegister");
}

void acre__stage_parts_free(acre_device *dev, struct acre__stage_part **list,
                            struct acre__stage_part *until) {
    while (*list != until) {
        struct acre__stage_part *part = *list;
        *list = part->next;
        acre__limbo_let_go(dev, &part->item);
    }
}
