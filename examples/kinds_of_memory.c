/* Every kind of memory once: allocated, used, checked, freed.
 *
 * The same bytes are copied from kind to kind. After each step the host checks them. */
#include <acre.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4 << 20, PAGE = 4096 };

static acre_device *device;
static acre_stream stream;
static unsigned char *numbers; /* pageable memory from malloc: the expected bytes */
static int wrong;              /* number of failed checks */

/* Ends the program if a call fails. The end of the process frees everything. */
static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, acre_status_text(status), acre_last_detail());
        exit(2);
    }
}

/* Queues a copy of all bytes. */
static void copy(void *to, const void *from) {
    need(acre_copy(device, to, from, BYTES, stream), "acre_copy");
}

/* Waits for the stream, then checks memory that the host can read. */
static void check(const void *found, const char *what) {
    need(acre_stream_sync(device, stream), "acre_stream_sync");
    int is_right = memcmp(found, numbers, BYTES) == 0;
    wrong += !is_right;
    printf("%-11s %s\n", what, is_right ? "the bytes are right" : "THE BYTES ARE WRONG");
}

static void *take(acre_kind kind, uint32_t flags, const char *what) {
    void *p;
    need(acre_mem_alloc(device, kind, BYTES, flags, &p), what);
    if ((uintptr_t)p % 256 != 0) {
        printf("%s: %p is not a multiple of 256\n", what, p);
        wrong++;
    }
    return p;
}

static void give(void *p) {
    need(acre_mem_free(device, p), "acre_mem_free");
}

/* Device memory. Copies of pageable memory return when it has been read or written. */
static void use_device(void *memory) {
    unsigned char *again = malloc(BYTES);
    if (!again) {
        exit(2);
    }
    need(acre_copy_as(device, ACRE_HOST_TO_DEVICE, memory, numbers, BYTES, stream), "to device");
    need(acre_copy_as(device, ACRE_DEVICE_TO_HOST, again, memory, BYTES, stream), "to host");
    check(again, "device");
    void *other = take(ACRE_KIND_DEVICE, 0, "device memory");
    need(acre_fill(device, other, 0, BYTES, stream), "acre_fill");
    need(acre_copy_as(device, ACRE_DEVICE_TO_DEVICE, other, memory, BYTES, stream), "d2d");
    memset(again, 0, BYTES);
    copy(again, other);
    check(again, "device 2");
    give(other);
    free(again);
}

/* Pinned memory: the device copies it asynchronously, while the program continues. */
static void use_pinned(const void *memory) {
    void *pinned = take(ACRE_KIND_PINNED, ACRE_MEM_PORTABLE, "pinned memory");
    copy(pinned, memory);
    check(pinned, "pinned");
    give(pinned);
    /* Write-combined memory: for bytes that the host only writes. Reading it is slow. */
    void *combined = take(ACRE_KIND_PINNED, ACRE_MEM_WRITE_COMBINED, "write-combined memory");
    void *back = take(ACRE_KIND_PINNED, 0, "pinned memory");
    void *there = take(ACRE_KIND_DEVICE, 0, "device memory");
    memcpy(combined, numbers, BYTES);
    copy(there, combined);
    copy(back, there);
    check(back, "write-comb.");
    give(there);
    give(back);
    give(combined);
}

/* Mapped memory: kernels access host memory in place, at a device address. */
static void use_mapped(const void *memory) {
    void *seen;
    void *mapped = take(ACRE_KIND_MAPPED, 0, "mapped memory");
    need(acre_mem_device_pointer(device, mapped, &seen), "acre_mem_device_pointer");
    copy(seen, memory); /* a kernel would write to `seen` in the same way */
    check(mapped, "mapped");
    give(mapped);
}

/* Managed memory: one address for host and device. Pages migrate on access or by prefetch. */
static void use_managed(const void *memory) {
    void *managed = take(ACRE_KIND_MANAGED, 0, "managed memory");
    need(acre_mem_advise(device, managed, BYTES, ACRE_ADVICE_PREFER, ACRE_PLACE_DEVICE), "advice");
    need(acre_mem_prefetch(device, managed, BYTES, ACRE_PLACE_DEVICE, stream), "prefetch");
    copy(managed, memory);
    need(acre_mem_prefetch(device, managed, BYTES, ACRE_PLACE_HOST, stream), "prefetch back");
    check(managed, "managed");
    give(managed);
}

/* Registered memory: memory of the program, page-locked while it is copied often. */
static void use_registered(const void *memory) {
    acre_mem_info info = {.struct_size = sizeof info};
    void *own = aligned_alloc(PAGE, BYTES);
    if (!own) {
        exit(2);
    }
    need(acre_mem_register(device, own, BYTES, 0), "acre_mem_register");
    need(acre_mem_query(device, (char *)own + 1000, &info), "acre_mem_query");
    wrong += info.base != own || !info.is_registered;
    copy(own, memory);
    check(own, "registered");
    need(acre_mem_unregister(device, own), "acre_mem_unregister");
    free(own);
}

int main(void) {
    acre_device_info info = {.struct_size = sizeof info};
    acre_device_stats stats = {.struct_size = sizeof stats};
    need(acre_open("auto", NULL, &device), "acre_open");
    need(acre_device_get_info(device, &info), "acre_device_get_info");
    need(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream), "acre_stream_create");
    numbers = malloc(BYTES);
    if (!numbers) {
        return 2;
    }
    for (size_t i = 0; i < BYTES; i++) {
        numbers[i] = (unsigned char)(i * 2654435761u >> 24);
    }
    printf("%s: %d MiB of each kind\n", info.name, BYTES >> 20);

    void *memory = take(ACRE_KIND_DEVICE, 0, "device memory");
    use_device(memory);
    use_pinned(memory);
    use_mapped(memory);
    if (info.has_managed) {
        use_managed(memory);
    } else {
        puts("managed     this device has none");
    }
    use_registered(memory);
    give(memory);

    need(acre_device_get_stats(device, &stats), "acre_device_get_stats");
    printf("all freed: %" PRIu64 " blocks and %" PRIu64 " registrations left\n", stats.mem_blocks,
           stats.mem_registered);
    free(numbers);
    need(acre_stream_destroy(device, stream), "acre_stream_destroy");
    need(acre_close(device), "acre_close");
    return wrong || stats.mem_blocks || stats.mem_registered;
}
