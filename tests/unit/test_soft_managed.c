/* Advice and prefetches of managed memory, compared page by page with a table that has one row per
 * page. */
#include "soft_fixture.h"

enum { PAGES = 40, DEVICES = 3 };

struct page {
    int is_read_mostly, preferred, prefetched, by[DEVICES + 1]; /* the last entry is the host */
};

static int ask(CUmem_range_attribute attribute, CUdeviceptr ptr, size_t bytes) {
    int value = 99;
    assert_ok(drv->cuMemRangeGetAttribute(&value, sizeof value, attribute, ptr, bytes));
    return value;
}

static CUmemLocation place(int device) {
    return device < DEVICES ? (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device}
                            : (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0};
}

static int number(int device) {
    return device < DEVICES ? device : CU_DEVICE_CPU;
}

/* Advises or prefetches [first, end) in the driver and in the table. */
static void change(uint64_t *random, CUdeviceptr base, struct page *pages, size_t first,
                   size_t end) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (end - first) * page;
    CUdeviceptr at = base + first * page;
    int what = (int)random_draw(random, 7), device = (int)random_draw(random, DEVICES + 1);
    if (bytes > 2 && random_draw(random, 2)) { /* a part of a page counts as the page */
        at++;
        bytes -= 2;
    }
    if (what == 0)
        assert_ok(drv->cuMemPrefetchAsync(at, bytes, place(device), 0, NULL));
    else
        assert_ok(drv->cuMemAdvise(at, bytes, (CUmem_advise)what, place(device)));
    for (struct page *p = pages + first; p < pages + end; p++) {
        if (what == 0)
            p->prefetched = number(device);
        else if (what <= 2)
            p->is_read_mostly = what == 1;
        else if (what <= 4)
            p->preferred = what == 3 ? number(device) : CU_DEVICE_INVALID;
        else
            p->by[device] = what == 5;
    }
}

static void compare(CUdeviceptr base, const struct page *pages, size_t first, size_t end) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (end - first) * page;
    CUdeviceptr at = base + first * page;
    struct page all = pages[first];
    for (const struct page *p = pages + first; p < pages + end; p++) {
        all.is_read_mostly &= p->is_read_mostly;
        if (all.preferred != p->preferred)
            all.preferred = CU_DEVICE_INVALID;
        if (all.prefetched != p->prefetched)
            all.prefetched = CU_DEVICE_INVALID;
        for (int i = 0; i <= DEVICES; i++)
            all.by[i] &= p->by[i];
    }
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, bytes), all.is_read_mostly);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, bytes), all.preferred);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, bytes), all.prefetched);
    int by[DEVICES + 2], seen[DEVICES + 1] = {0};
    assert_ok(
        drv->cuMemRangeGetAttribute(by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, bytes));
    assert_int_equal(by[DEVICES + 1], CU_DEVICE_INVALID);
    for (int i = 0; i <= DEVICES; i++)
        if (by[i] != CU_DEVICE_INVALID)
            seen[by[i] == CU_DEVICE_CPU ? DEVICES : by[i]] = 1;
    assert_memory_equal(seen, all.by, sizeof seen);
}

SOFT_TEST_BARE(managed_advice_is_kept_for_every_page) {
    soft_begin(64 * MIB, DEVICES);
    uint64_t random = random_seed("managed_advice_is_kept_for_every_page");
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct page pages[PAGES];
    CUdeviceptr base = 0;
    assert_ok(drv->cuMemAllocManaged(&base, PAGES * page, CU_MEM_ATTACH_GLOBAL));
    memset(pages, 0, sizeof pages);
    for (int i = 0; i < PAGES; i++)
        pages[i].preferred = pages[i].prefetched = CU_DEVICE_INVALID;
    for (int i = 0; i < 500; i++) {
        size_t first = random_draw(&random, PAGES),
               end = first + 1 + random_draw(&random, PAGES - first);
        change(&random, base, pages, first, end);
        first = random_draw(&random, PAGES);
        compare(base, pages, first, first + 1 + random_draw(&random, PAGES - first));
        compare(base, pages, 0, PAGES);
    }
    assert_ok(drv->cuMemFree(base));
}

/* Ranges smaller than a page, and ranges whose last page is incomplete. */
SOFT_TEST(managed_advice_of_odd_sizes_is_kept) {
    const size_t sizes[] = {1, 100, 4097, 70001};
    for (int i = 0; i < 4; i++) {
        CUdeviceptr at = 0;
        assert_ok(drv->cuMemAllocManaged(&at, sizes[i], CU_MEM_ATTACH_GLOBAL));
        assert_ok(drv->cuMemAdvise(at + sizes[i] - 1, 1, CU_MEM_ADVISE_SET_READ_MOSTLY, place(0)));
        assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at + sizes[i] - 1, 1), 1);
        assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, sizes[i]), sizes[i] <= 4096);
        assert_refused(drv->cuMemAdvise(at, sizes[i] + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, place(0)));
        assert_ok(drv->cuMemFree(at));
    }
}

SOFT_TEST(managed_places_have_types) {
    CUdeviceptr at = 0;
    CUmemLocation node = {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 5};
    assert_ok(drv->cuMemAllocManaged(&at, 4096, CU_MEM_ATTACH_GLOBAL));
    assert_ok(drv->cuMemPrefetchAsync(at, 4096, node, 0, NULL));
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, at, 4096),
                     CU_MEM_LOCATION_TYPE_HOST_NUMA);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID, at, 4096), 0);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 4096), CU_DEVICE_CPU);
    assert_ok(drv->cuMemPrefetchAsync(at, 4096, place(0), 0, NULL));
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, at, 4096),
                     CU_MEM_LOCATION_TYPE_DEVICE);
    assert_ok(drv->cuMemFree(at));
}

/* A captured prefetch does not run, so the memory does not record it. */
SOFT_TEST(managed_captured_prefetch_is_not_remembered) {
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = 0;
    CUgraph graph = NULL;
    assert_ok(drv->cuMemAllocManaged(&at, 4096, CU_MEM_ATTACH_GLOBAL));
    assert_ok(drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(drv->cuMemPrefetchAsync(at, 4096, place(0), 0, stream));
    assert_ok(drv->cuStreamEndCapture(stream, &graph));
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 4096),
                     CU_DEVICE_INVALID);
    assert_ok(drv->cuGraphDestroy(graph));
}

int main(void) {
    return tests_run("soft_managed");
}
