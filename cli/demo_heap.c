/* The part of `acre demo` that calls malloc inside a kernel: every thread makes a node of a list.
 * The host follows the list by copies, and another kernel frees it.
 *
 * On a GPU the kernels are those of demo_kernels.cu, if the tool was built with nvcc. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "acre_soft.h"
#include "demo.h"
#include "demo_list.h"
#include "device/device.h"

enum { LISTED = DEMO_LIST_BLOCKS * DEMO_LIST_THREADS };

#ifdef ACRE_HAVE_KERNELS
extern const unsigned char acre__demo_kernels_fatbin[];
static const unsigned char *const listed_image = acre__demo_kernels_fatbin;
#else
static const unsigned char *const listed_image = NULL;
#endif

struct listed {
    acre_device *device;
    acre_heap *heap;
    void *list; /* struct demo_list, in mapped memory of host and device */
    struct demo_list *seen;
    CUmodule module; /* GPU only */
    bool is_right;
    uint64_t build_ns;
    const char *doing;
};

/* ---- kernels of a soft device ---------------------------------------------------------------- */

static void listed_build(void *arg) {
    struct demo_list *list = *(struct demo_list **)arg;
    struct demo_node *node = acre_heap_malloc(list->heap, sizeof *node);
    if (node) {
        node->value = acre_soft_block_index(0) * DEMO_LIST_THREADS + acre_soft_thread_index(0);
        node->next = __atomic_exchange_n(&list->first, (unsigned long long)(uintptr_t)node,
                                         __ATOMIC_ACQ_REL);
    }
}

static void listed_free(void *arg) {
    struct demo_list *list = *(struct demo_list **)arg;
    while (list->first) {
        struct demo_node *node = (void *)(uintptr_t)list->first;
        list->first = node->next;
        acre_heap_free(list->heap, node);
    }
}

/* ---- launching ------------------------------------------------------------------------------- */

/* Launches a kernel on a GPU and waits for it. */
static bool listed_launch_gpu(struct listed *listed, const char *name, unsigned blocks,
                              unsigned threads) {
    const struct acre__driver *drv = listed->device->drv;
    CUfunction function = NULL;
    void *params[] = {&listed->list};
    CUresult result = drv->cuCtxSetCurrent(listed->device->context);
    if (!result && !listed->module) {
        result = drv->cuModuleLoadData(&listed->module, listed_image);
    }
    if (!result) {
        result = drv->cuModuleGetFunction(&function, listed->module, name);
    }
    if (!result) {
        result = drv->cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, params, NULL);
    }
    return !result && !drv->cuStreamSynchronize(NULL);
}

static bool listed_launch(struct listed *listed, bool is_soft, bool builds) {
    unsigned blocks = builds ? DEMO_LIST_BLOCKS : 1, threads = builds ? DEMO_LIST_THREADS : 1;
    if (!is_soft) {
        return listed_launch_gpu(listed, builds ? "demo_build_list" : "demo_free_list", blocks,
                                 threads);
    }
    return acre_soft_launch(listed->device, NULL, builds ? listed_build : listed_free,
                            (uint32_t[]){blocks, 1, 1}, (uint32_t[]){threads, 1, 1}, 0,
                            &listed->list) == ACRE_OK &&
           acre_stream_sync(listed->device, NULL) == ACRE_OK;
}

/* Follows the list in device memory: every thread has made one node. */
static bool listed_check(struct listed *listed) {
    static bool is_seen[LISTED];
    struct demo_node node;
    uint64_t at = listed->seen->first;
    int count = 0;
    memset(is_seen, 0, sizeof is_seen);
    for (; at && count <= LISTED; at = node.next, count++) {
        if (acre_copy_sync(listed->device, &node, (void *)(uintptr_t)at, sizeof node) != ACRE_OK ||
            node.value >= LISTED || is_seen[node.value]) {
            return false;
        }
        is_seen[node.value] = true;
    }
    return count == LISTED;
}

/* ---- the part -------------------------------------------------------------------------------- */

#define LISTED_TRY(listed, what, call)                                                             \
    do {                                                                                           \
        (listed)->doing = (what);                                                                  \
        acre_status listed_status = (call);                                                        \
        if (listed_status != ACRE_OK) {                                                            \
            return listed_status;                                                                  \
        }                                                                                          \
    } while (0)

static acre_status listed_run(struct listed *listed, bool is_soft, struct demo_part *part) {
    uint64_t leaked = 0;
    LISTED_TRY(listed, "create a heap on", acre_heap_create(listed->device, NULL, &listed->heap));
    LISTED_TRY(
        listed, "allocate mapped memory on",
        acre_mem_alloc(listed->device, ACRE_KIND_MAPPED, sizeof *listed->seen, 0, &listed->list));
    listed->seen = listed->list; /* one address for host and device */
    memset(listed->seen, 0, sizeof *listed->seen);
    LISTED_TRY(listed, "prepare kernels on",
               acre_heap_get_handle(listed->heap, &listed->seen->heap));
    (void)listed_launch(listed, is_soft, true); /* loads code and starts threads */
    (void)listed_launch(listed, is_soft, false);
    uint64_t begin = cli_now_ns();
    listed->is_right = listed_launch(listed, is_soft, true);
    listed->build_ns = cli_now_ns() - begin;
    listed->is_right =
        listed->is_right && listed_check(listed) && listed_launch(listed, is_soft, false);
    LISTED_TRY(listed, "destroy a heap on", acre_heap_destroy(listed->heap, &leaked, NULL));
    LISTED_TRY(listed, "free mapped memory of", acre_mem_free(listed->device, listed->list));
    char time[CLI_NUMBER_BYTES];
    part->ok = listed->is_right && leaked == 0;
    snprintf(part->text, sizeof part->text,
             "%d threads called malloc in a kernel (%s with the launch): the host found every "
             "node, another kernel freed them, %" PRIu64 " left",
             LISTED, cli_duration(listed->build_ns, time), leaked);
    return ACRE_OK;
}

acre_status demo_heap(acre_device *device, bool is_soft, struct demo_part *part,
                      const char **doing) {
    struct listed listed = {.device = device, .doing = "use the heap of"};
    uint64_t begin = cli_now_ns();
    *part = (struct demo_part){.name = "malloc in a kernel", .ok = true};
    if (!is_soft && !listed_image) {
        snprintf(part->text, sizeof part->text,
                 "skipped: this tool was built without nvcc, so it has no kernels for a GPU");
        return ACRE_OK;
    }
    acre_status status = listed_run(&listed, is_soft, part);
    if (status == ACRE_E_UNSUPPORTED) {
        snprintf(part->text, sizeof part->text, "skipped: %.150s", cli_detail());
        status = ACRE_OK;
    }
    part->time_ns = cli_now_ns() - begin;
    *doing = listed.doing;
    return status;
}
