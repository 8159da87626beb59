/* Copies between the host and a heap's records. They use the heap's own stream and pinned memory,
 * so that they run while kernels keep every SM busy. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "heap/heap.h"
#include "heap/heap_image.h"
#include "space/mapped.h"

/* If an earlier wait failed, a copy may still use the pinned memory. */
static acre_status copy_settle(acre_heap *heap) {
    if (!heap->is_in_flight)
        return ACRE_OK;
    acre_status status = acre__in_call(acre_stream_sync(heap->dev, heap->stream), NULL);
    heap->is_in_flight = status != ACRE_OK;
    return status;
}

/* Copies one piece from or to pinned memory, and waits for the copy. */
static acre_status copy_piece(acre_heap *heap, uint64_t device, void *pinned, size_t bytes,
                              int is_write) {
    acre_device *dev = heap->dev;
    const struct acre__driver *drv = dev->drv;
    struct acre__current call;
    const char *what = is_write ? "cuMemcpyHtoDAsync" : "cuMemcpyDtoHAsync";
    acre__gate_enter(ACRE__GATE_COPY);
    acre_status status = acre__away_check((void *)(uintptr_t)device, bytes, "heap's records");
    if (status) {
        acre__gate_leave(ACRE__GATE_COPY);
        return status;
    }
    if (acre__device_call_relaxed(dev, &call))
        call.code = is_write ? drv->cuMemcpyHtoDAsync(device, pinned, bytes, heap->stream)
                             : drv->cuMemcpyDtoHAsync(pinned, device, bytes, heap->stream);
    if (call.status == ACRE_OK && call.code == CUDA_SUCCESS) {
        what = "cuStreamSynchronize";
        call.code = drv->cuStreamSynchronize(heap->stream);
        heap->is_in_flight = call.code != CUDA_SUCCESS;
    }
    acre__gate_leave(ACRE__GATE_COPY);
    return acre__device_done(dev, &call, what);
}

/* Copies in pieces, through pinned memory. */
static acre_status copy_all(acre_heap *heap, uint64_t device, char *host, size_t bytes,
                            int is_write) {
    char *pinned = (char *)heap->pinned->batch;
    acre_status status = copy_settle(heap);
    for (size_t at = 0, part; at < bytes && !status; at += part) {
        part = bytes - at;
        part = part < sizeof heap->pinned->batch ? part : sizeof heap->pinned->batch;
        if (is_write)
            memcpy(pinned, host + at, part);
        status = copy_piece(heap, device + at, pinned, part, is_write);
        if (!is_write && !status)
            memcpy(host + at, pinned, part);
    }
    return status;
}

acre_status acre__heap_write(acre_heap *heap, uint64_t to, const void *from, size_t bytes) {
    return copy_all(heap, to, (char *)(uintptr_t)from, bytes, 1);
}

acre_status acre__heap_read(acre_heap *heap, void *to, uint64_t from, size_t bytes) {
    return copy_all(heap, from, to, bytes, 0);
}

/* Removes the pages on desks from the free pages of a batch of records. */
static void copy_desked(acre_heap_segment *batch, uint64_t first, uint64_t count,
                        const uint64_t *desks) {
    for (uint32_t i = 0; desks && i < 1u << ACRE__HEAP_DESKS_LOG2; i++) {
        uint64_t segment = ACRE__HEAP_DESK_SEGMENT(desks[i]);
        if (desks[i] && segment >= first && segment - first < count)
            batch[segment - first].free_pages &= ~acre__heap_desk_pages(desks[i]);
    }
}

acre_status acre__heap_write_free(acre_heap *heap, uint64_t count, const uint64_t *desks) {
    acre_heap_segment *batch = heap->pinned->batch;
    acre_status status = copy_settle(heap);
    if (status)
        return status;
    memset(batch, 0, sizeof heap->pinned->batch);
    for (uint64_t done = 0; done < count && !status;) {
        uint64_t part = count - done < ACRE__HEAP_BATCH ? count - done : ACRE__HEAP_BATCH;
        acre__heap_image_free(batch, ACRE__HEAP_BATCH);
        copy_desked(batch, done, part, desks);
        status = copy_piece(heap, acre__heap_segment_at(heap, done), batch,
                            (size_t)part * sizeof *batch, 1);
        done += part;
    }
    return status;
}

/* Writes the host's answer into the control's first line. */
static void copy_line(const acre_heap *heap, acre_heap_control *control) {
    control->committed = heap->committed;
    control->answers = acre__heap_answer(heap);
    control->host = heap->wish_address;
    control->wait_ns = heap->wait_ns;
}

acre_status acre__heap_write_trees(acre_heap *heap, const acre_heap_control *image,
                                   uint32_t trees) {
    size_t words = (size_t)trees * acre__heap_tree_words(heap->h.max_segments);
    return acre__heap_write(heap, (uintptr_t)(heap->h.control + 1), image + 1,
                            words * sizeof(uint64_t));
}

acre_status acre__heap_write_control(acre_heap *heap, uint32_t opened, const uint64_t *desks) {
    acre_heap_control *image = malloc(acre__heap_control_bytes(heap->h.max_segments));
    if (!image)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the records of a heap");
    acre__heap_image_control(image, heap->h.max_segments, opened);
    if (desks) {
        memcpy(image->desks, desks, sizeof image->desks);
        memset(image->desked, 0xff, sizeof image->desked);
    }
    copy_line(heap, image);
    acre_status status = acre__heap_write(heap, (uintptr_t)heap->h.control, image,
                                          acre__heap_control_bytes(heap->h.max_segments));
    free(image);
    return status;
}

void acre__heap_say(acre_heap *heap) {
    heap->answers++;
    __atomic_store_n(&heap->pinned->wish.committed, heap->committed, __ATOMIC_RELEASE);
    __atomic_store_n(&heap->pinned->wish.answers, acre__heap_answer(heap), __ATOMIC_RELEASE);
}

acre_status acre__heap_publish(acre_heap *heap) {
    _Static_assert(offsetof(acre_heap_control, opened) == ACRE__HEAP_LINE_BYTES,
                   "what the host writes is one line");
    heap->is_unsaid = 1;
    acre__heap_say(heap);
    acre_status status = copy_settle(heap);
    if (status)
        return status;
    acre_heap_control *line = (acre_heap_control *)(void *)heap->pinned->batch;
    memset(line, 0, ACRE__HEAP_LINE_BYTES);
    copy_line(heap, line);
    memcpy(heap->pinned->line, line, ACRE__HEAP_LINE_BYTES);
    status =
        copy_piece(heap, (uintptr_t)heap->h.control, heap->pinned->line, ACRE__HEAP_LINE_BYTES, 1);
    heap->is_unsaid = status != ACRE_OK;
    return status;
}
