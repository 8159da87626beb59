/* A program exits without acre_close, with work in flight, or after dlclose of the library: it must
 * not crash and must keep its exit code. Each test starts this program again. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include "api_devices.h"

/* Starts streams that wait for each other, and records events repeatedly. */
static acre_device *begin_work(void) {
    const char *name = getenv("ACRE_TEST_DEVICE");
    acre_device *device;
    acre_stream streams[4];
    acre_event event;
    api_must(acre_open(name, NULL, &device) == ACRE_OK);
    api_must(acre_event_create(device, ACRE_EVENT_DEFAULT, &event) == ACRE_OK);
    for (size_t i = 0; i < 4; i++)
        api_must(acre_stream_create(device, ACRE_STREAM_DEFAULT, &streams[i]) == ACRE_OK);
    for (size_t i = 0; i < 400; i++) {
        api_must(acre_event_record(device, event, streams[i % 4]) == ACRE_OK);
        api_must(acre_stream_wait(device, streams[(i + 1) % 4], event) == ACRE_OK);
    }
    return device;
}

static int leave_open(void) {
    (void)begin_work();
    return 0;
}

static void *use_until_the_end(void *argument) {
    acre_device *device = argument;
    for (;;) {
        acre_stream stream;
        if (acre_stream_create(device, ACRE_STREAM_DEFAULT, &stream) != ACRE_OK)
            return NULL;
        (void)acre_stream_sync(device, stream);
        (void)acre_stream_destroy(device, stream);
    }
}

/* Other threads are inside the library when main returns. Only the soft device runs this test: on a
 * GPU the driver itself races with its threads. */
static int leave_with_threads(void) {
    acre_device *device = begin_work();
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        api_must(pthread_create(&thread, NULL, use_until_the_end, device) == 0);
        pthread_detach(thread);
    }
    usleep(20000);
    return 0;
}

static acre_device *device_at_exit;

/* Exit handlers run while the driver may be partly shut down. acre_close may return any status but
 * must not crash. */
static void close_at_exit(void) {
    acre_status status = acre_close(device_at_exit);
    if (status != ACRE_OK)
        _exit(3);
}

static int leave_closing_at_exit(void) {
    atexit(close_at_exit);
    device_at_exit = begin_work();
    return 0;
}

static void *exit_in_thread(void *argument) {
    (void)argument;
    exit(0);
}

static int leave_from_thread(void) {
    (void)begin_work();
    pthread_t thread;
    api_must(pthread_create(&thread, NULL, exit_in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    return 4;
}

static int leave_quickly(void) {
    (void)begin_work();
    quick_exit(0);
}

static int leave_after_dlclose(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libacre.so", getenv("ACRE_BUILD"));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    api_must(library);
    acre_status (*open)(const char *, const acre_open_options *, acre_device **) =
        (acre_status(*)(const char *, const acre_open_options *, acre_device **))dlsym(library,
                                                                                       "acre_open");
    api_must(open);
    acre_device *device;
    api_must(open(getenv("ACRE_TEST_DEVICE"), NULL, &device) == ACRE_OK);
    api_must(dlclose(library) == 0);
    return 0;
}

static const struct {
    const char *name;
    int (*leave)(void);
    int soft_only;
} ways[] = {
    {"open", leave_open, 0},
    {"threads", leave_with_threads, 1},
    {"at-exit", leave_closing_at_exit, 0},
    {"from-thread", leave_from_thread, 0},
    {"quickly", leave_quickly, 0},
    {"dlclose", leave_after_dlclose, 0},
};

enum { WAYS = sizeof ways / sizeof ways[0] };

TEST(exit_leaves_with_its_own_code) {
    for (API_EACH(name)) {
        char setting[64];
        snprintf(setting, sizeof setting, "ACRE_TEST_DEVICE=%s", name);
        for (size_t i = 0; i < WAYS; i++) {
            if (ways[i].soft_only && strcmp(name, "soft") != 0)
                continue;
            int end = api_start(ways[i].name, setting, (char *)NULL);
            if (!WIFEXITED(end) || WEXITSTATUS(end) != 0)
                fail_msg("%s on %s: exit status 0x%x", ways[i].name, name, (unsigned)end);
        }
    }
}

/* Without this flag, dlclose could unload code that threads and thread-exit handlers still run. */
TEST(library_is_marked_never_to_be_unloaded) {
#ifdef ACRE_COVERAGE
    skip(); /* with coverage the library is linked into this program */
#endif
    Dl_info info;
    struct link_map *map = NULL;
    assert_true(dladdr1((void *)(uintptr_t)acre_open, &info, (void **)&map, RTLD_DL_LINKMAP));
    uint64_t flags = 0;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_FLAGS_1)
            flags = (uint64_t)entry->d_un.d_val;
    assert_true(flags & DF_1_NODELETE);
}

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < WAYS; i++)
        if (strcmp(argv[1], ways[i].name) == 0)
            return ways[i].leave();
    return tests_run("exit");
}
