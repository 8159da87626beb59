/* fork: every call returns ACRE_E_FORKED in the child, and the parent continues to work. */
#include <pthread.h>
#include <semaphore.h>

#include "api_calls.h"
#include "api_devices.h"
#include "support/leave.h"

/* Runs in the child. Returns 0, or the number of the first call that returned another status. */
static int child_calls(const struct api_arguments *with) {
    for (size_t i = 0; i < API_CALLS; i++)
        if (api_calls[i].call(with) != ACRE_E_FORKED)
            return (int)i + 1;
    acre_device *device = (acre_device *)1;
    uint32_t count;
    if (acre_open("soft", NULL, &device) != ACRE_E_FORKED || device)
        return 101;
    if (acre_device_count("soft", &count) != ACRE_E_FORKED)
        return 102;
    if (acre_close(NULL) != ACRE_E_FORKED)
        return 103;
    if (!strstr(acre_last_detail(), "fork"))
        return 105;
    /* Functions without a device and without a lock still work. */
    if (!acre_status_text(ACRE_E_FORKED)[0] || !acre_version()[0])
        return 106;
    return 0;
}

static void expect_child(const struct api_arguments *with) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        leave(child_calls(with));
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static struct api_arguments make_arguments(const char *name) {
    struct api_arguments with = {.device = api_open(name)};
    api_ok(acre_stream_create(with.device, ACRE_STREAM_NON_BLOCKING, &with.stream));
    api_ok(acre_event_create(with.device, ACRE_EVENT_TIMING, &with.event));
    api_ok(api_arguments_memory(&with));
    return with;
}

TEST(forked_child_gets_the_status_from_every_call) {
    for (API_EACH(name)) {
        struct api_arguments with = make_arguments(name);
        expect_child(&with);
        /* The parent still works. */
        api_ok(acre_event_record(with.device, with.event, with.stream));
        api_ok(acre_event_sync(with.device, with.event));
        assert_int_equal(api_stats(with.device).streams_live, 1);
        api_ok(acre_stream_destroy(with.device, with.stream));
        api_ok(acre_close(with.device));
    }
}

TEST(forked_after_close_is_forked_too) {
    struct api_arguments with = make_arguments("soft");
    api_ok(acre_close(with.device));
    expect_child(&with);
    api_ok(acre_close(api_open("soft")));
}

/* Other threads hold locks of the library at the moment of the fork: the child must not block. */
struct busy {
    acre_device *device;
    sem_t started;
    _Atomic int stop;
};

static void *keep_busy(void *argument) {
    struct busy *busy = argument;
    sem_post(&busy->started);
    while (!busy->stop) {
        acre_stream stream;
        if (acre_stream_create(busy->device, ACRE_STREAM_DEFAULT, &stream) == ACRE_OK)
            (void)acre_stream_destroy(busy->device, stream);
    }
    return NULL;
}

TEST(forked_while_threads_are_inside_does_not_hang) {
    struct api_arguments with = make_arguments("soft");
    struct busy busy = {.device = with.device};
    pthread_t threads[3];
    assert_int_equal(sem_init(&busy.started, 0, 0), 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, &busy), 0);
    for (size_t i = 0; i < 3; i++)
        sem_wait(&busy.started);
    for (int i = 0; i < 20; i++)
        expect_child(&with);
    busy.stop = 1;
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    sem_destroy(&busy.started);
    api_ok(acre_close(with.device));
}

/* The child calls exec. The new program can open a device. */
TEST(started_program_can_open) {
    acre_device *device = api_open("soft");
    api_started_ok("open");
    api_ok(acre_close(device));
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "open") == 0) {
        acre_device *device;
        api_must(acre_open("soft", NULL, &device) == ACRE_OK);
        api_must(acre_close(device) == ACRE_OK);
        return 0;
    }
    return tests_run("fork");
}
