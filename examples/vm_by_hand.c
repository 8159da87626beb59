/* Virtual memory by hand: the driver's steps, one after the other.
 *
 * The program reserves addresses, creates chunks of physical memory, maps them, sets access, and
 * undoes all of it. In between it shows three things: an access without permission (in a child
 * process, which that kills), one chunk mapped at two addresses, and memory that grows in place. */
#include <acre.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static acre_device *device;
static int wrong; /* number of failed checks */

/* Ends the program if a call fails. The end of the process frees everything. */
static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, acre_status_text(status), acre_last_detail());
        exit(2);
    }
}

static void expect(int is_right, const char *what) {
    wrong += !is_right;
    printf("%s%s\n", is_right ? "" : "WRONG: ", what);
}

static char *reserve(size_t bytes) {
    void *address;
    need(acre_vm_reserve(device, bytes, 0, NULL, &address, NULL), "acre_vm_reserve");
    return address;
}

static acre_vm_chunk *create(size_t bytes, size_t *real_bytes) {
    acre_vm_chunk *chunk;
    need(acre_vm_create(device, bytes, 0, &chunk, real_bytes), "acre_vm_create");
    return chunk;
}

static void map_and_open(char *at, acre_vm_chunk *chunk, size_t bytes) {
    need(acre_vm_map(device, at, chunk), "acre_vm_map");
    need(acre_vm_set_access(device, at, bytes, device, ACRE_ACCESS_READ_WRITE), "access");
}

/* ---- the child ---- */

/* Accesses mapped memory before access is set: the device's access fails, and the host's access
 * kills the process. Returns only if that does not happen. */
static int touch(void) {
    struct rlimit none = {0, 0};
    size_t bytes;
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL);
    acre_vm_chunk *chunk = create(1, &bytes);
    char *at = reserve(bytes);
    need(acre_vm_map(device, at, chunk), "acre_vm_map");
    acre_status status = acre_fill(device, at, 1, bytes, NULL);
    if (status == ACRE_OK) {
        status = acre_device_sync(device);
    }
    if (status == ACRE_OK) {
        puts("  the device could write to it");
        return 1;
    }
    printf("  child: the device has no access: %s\n", acre_last_detail());
    fflush(stdout);
    printf("  child: the host reads %d\n", *(volatile char *)at);
    return 1;
}

/* Starts this program again in a child; CUDA does not work after a plain fork. */
static void touch_in_child(void) {
    int state = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "vm_by_hand", "touch", (char *)NULL);
        _exit(126);
    }
    if (child < 0 || waitpid(child, &state, 0) != child) {
        perror("child");
        exit(2);
    }
    expect(WIFSIGNALED(state) && (WTERMSIG(state) == SIGSEGV || WTERMSIG(state) == SIGBUS),
           "an access without permission kills the process");
}

/* ---- the steps ---- */

/* Writes bytes through one address and reads them through the other. */
static void check(char *to, const char *from, size_t bytes, const char *what) {
    char *in = malloc(bytes), *out = malloc(bytes);
    if (!in || !out) {
        exit(2);
    }
    memset(in, 7 + (int)strlen(what), bytes);
    need(acre_copy(device, to, in, bytes, NULL), "copy in");
    need(acre_copy(device, out, from, bytes, NULL), "copy out");
    expect(memcmp(in, out, bytes) == 0, what);
    free(in);
    free(out);
}

static void show_access(const char *at) {
    static const char *const names[] = {"none", "read", "?", "read and write"};
    acre_access of_device, of_host;
    need(acre_vm_get_access(device, at, device, &of_device), "acre_vm_get_access");
    need(acre_vm_get_access(device, at, NULL, &of_host), "acre_vm_get_access");
    printf("access: device %s, host %s\n", names[of_device & 3], names[of_host & 3]);
}

/* Uses a chunk of host memory, if the device supports that: the host accesses it directly. */
static void use_host_chunk(size_t bytes) {
    acre_vm_chunk *chunk;
    acre_status status = acre_vm_create(device, bytes, ACRE_VM_HOST, &chunk, &bytes);
    if (status != ACRE_OK) {
        printf("no chunks of host memory here: %s\n", acre_last_detail());
        return;
    }
    char *at = reserve(bytes);
    map_and_open(at, chunk, bytes);
    need(acre_vm_set_access(device, at, bytes, NULL, ACRE_ACCESS_READ_WRITE), "host access");
    need(acre_fill_sync(device, at, 42, bytes), "acre_fill_sync");
    expect(at[0] == 42 && at[bytes - 1] == 42, "a host chunk: the device writes, the host reads");
    need(acre_vm_unmap(device, at, bytes), "acre_vm_unmap");
    need(acre_vm_release(device, chunk), "acre_vm_release");
    need(acre_vm_address_free(device, at), "acre_vm_address_free");
}

/* Maps one chunk at two addresses, then another chunk behind it. */
static void use_chunks(void) {
    size_t bytes;
    acre_vm_chunk *first = create(3000000, &bytes);
    printf("a chunk for 3000000 bytes has %zu\n", bytes);
    char *at = reserve(2 * bytes);
    need(acre_vm_map(device, at, first), "acre_vm_map");
    show_access(at);
    touch_in_child();
    need(acre_vm_set_access(device, at, bytes, device, ACRE_ACCESS_READ_WRITE), "access");
    show_access(at);
    check(at, at, bytes, "with access: the bytes that were copied in come out");

    char *mirror = reserve(bytes);
    map_and_open(mirror, first, bytes);
    check(at, mirror, bytes, "the same chunk at a second address: the same bytes");

    acre_vm_chunk *second = create(bytes, NULL);
    map_and_open(at + bytes, second, bytes);
    check(at, at, 2 * bytes, "a second chunk behind the first: twice as long, same address");

    /* A handle may be released before its mappings; the memory stays until the last unmap. */
    need(acre_vm_release(device, first), "acre_vm_release");
    need(acre_vm_release(device, second), "acre_vm_release");
    need(acre_vm_unmap(device, mirror, bytes), "acre_vm_unmap");
    check(at, at, 2 * bytes, "handles released: the memory stays while it is mapped");
    need(acre_vm_unmap(device, at, 2 * bytes), "acre_vm_unmap"); /* both mappings at once */
    need(acre_vm_address_free(device, mirror), "acre_vm_address_free");
    need(acre_vm_address_free(device, at), "acre_vm_address_free");
}

int main(int argc, char **argv) {
    acre_device_info info = {.struct_size = sizeof info};
    size_t minimum, recommended;
    need(acre_open("auto", NULL, &device), "acre_open");
    if (argc > 1 && strcmp(argv[1], "touch") == 0) {
        return touch();
    }
    need(acre_device_get_info(device, &info), "acre_device_get_info");
    if (!info.has_vmm) {
        printf("%s has no virtual memory management\n", info.name);
        return 0;
    }
    need(acre_vm_granularity(device, 0, &minimum, &recommended), "acre_vm_granularity");
    printf("%s: chunks are multiples of %zu bytes, better of %zu\n", info.name, minimum,
           recommended);
    uint64_t before = info.free_bytes;
    use_chunks();
    if (info.has_host_vmm) {
        use_host_chunk(minimum);
    }
    need(acre_device_get_info(device, &info), "acre_device_get_info");
    printf("%llu MiB were free before, %llu are free now\n", (unsigned long long)(before >> 20),
           (unsigned long long)(info.free_bytes >> 20));
    need(acre_close(device), "acre_close");
    return wrong != 0;
}
