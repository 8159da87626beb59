/* A program that uses libacre, for tests/cli/test_cli_suspend_acre.sh: two devices, each with
 * blocks of 16 MiB with the tags "weights" and "kv" and one of 8 MiB without a tag. It obeys the
 * lines on standard input and answers each with one line:
 *
 *   alloc    a thread allocates and fills a block; "state" says whether it is done
 *   copy     a thread checks the contents with the tag weights
 *   state    "idle", "waits", "done" or what has failed
 *   free     frees the blocks with the tag kv
 *   check    checks the contents with the tag weights, and those without a tag
 *   close    closes the second device
 *   exit     leaves at once
 *
 * Answers: "ok", or what has failed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <acre.h>

enum { DEVICES = 2, MIB = 1 << 20, LARGE = 16 * MIB, PLAIN = 8 * MIB };

static struct {
    acre_device *device;
    uint8_t *weights, *kv, *plain;
} cards[DEVICES];

static const char *failed(acre_status status, const char *what) {
    static _Thread_local char text[600];
    snprintf(text, sizeof text, "%s: %s", what, acre_last_detail());
    return status ? text : "ok";
}

static acre_status tagged(acre_device *device, const char *tag, uint8_t **block) {
    void *p = NULL;
    acre_status status = acre_tag_push(tag);
    if (!status)
        status = acre_alloc(device, LARGE, NULL, &p);
    (void)acre_tag_pop();
    *block = p;
    return status;
}

static const char *begin(void) {
    acre_status status = ACRE_OK;
    for (int i = 0; !status && i < DEVICES; i++) {
        void *plain = NULL;
        status = acre_open(i ? "soft:1" : "soft:0", NULL, &cards[i].device);
        if (!status)
            status = tagged(cards[i].device, "weights", &cards[i].weights);
        if (!status)
            status = tagged(cards[i].device, "kv", &cards[i].kv);
        if (!status)
            status = acre_alloc(cards[i].device, PLAIN, NULL, &plain);
        cards[i].plain = plain;
        for (int k = 0; !status && k < LARGE / MIB; k++)
            status = acre_fill_sync(cards[i].device, cards[i].weights + (size_t)k * MIB,
                                    (uint8_t)(i * 100 + k), MIB);
        if (!status)
            status = acre_fill_sync(cards[i].device, cards[i].plain, (uint8_t)(i + 77), PLAIN);
    }
    return failed(status, "begin");
}

static const char *is_all(const uint8_t *bytes, size_t count, int value) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != value)
            return "wrong contents";
    }
    return "ok";
}

static const char *check_weights(int card) {
    uint8_t *host = malloc(MIB);
    const char *answer = host ? "ok" : "no memory";
    for (int k = 0; strcmp(answer, "ok") == 0 && k < LARGE / MIB; k++) {
        acre_status status =
            acre_copy_sync(cards[card].device, host, cards[card].weights + (size_t)k * MIB, MIB);
        answer = status ? failed(status, "copy") : is_all(host, MIB, card * 100 + k);
    }
    free(host);
    return answer;
}

static const char *check(void) {
    static uint8_t host[PLAIN];
    const char *answer = "ok";
    for (int i = 0; strcmp(answer, "ok") == 0 && i < DEVICES; i++) {
        if (!cards[i].device)
            continue;
        answer = check_weights(i);
        if (strcmp(answer, "ok") == 0)
            answer = failed(acre_copy_sync(cards[i].device, host, cards[i].plain, PLAIN), "copy");
        if (strcmp(answer, "ok") == 0)
            answer = is_all(host, PLAIN, i + 77);
    }
    return answer;
}

/* ---- a thread that may wait ---- */

static struct {
    pthread_t thread;
    int is_begun;
    const char *_Atomic state;
} worker = {.state = "idle"};

static void *do_alloc(void *unused) {
    void *p = NULL;
    acre_status status = acre_alloc(cards[0].device, 4 * MIB, NULL, &p);
    if (!status)
        status = acre_fill_sync(cards[0].device, p, 3, 4 * MIB);
    if (!status)
        status = acre_free(p, NULL);
    atomic_store(&worker.state, status ? strdup(failed(status, "alloc")) : "done");
    return unused;
}

static void *do_copy(void *unused) {
    const char *answer = check_weights(0);
    atomic_store(&worker.state, strcmp(answer, "ok") == 0 ? "done" : strdup(answer));
    return unused;
}

static const char *start(void *(*run)(void *)) {
    if (worker.is_begun)
        pthread_join(worker.thread, NULL);
    atomic_store(&worker.state, "waits");
    worker.is_begun = pthread_create(&worker.thread, NULL, run, NULL) == 0;
    return worker.is_begun ? "ok" : "no thread";
}

static const char *obey(const char *line) {
    acre_status status = ACRE_OK;
    if (strcmp(line, "alloc") == 0)
        return start(do_alloc);
    if (strcmp(line, "copy") == 0)
        return start(do_copy);
    if (strcmp(line, "state") == 0)
        return atomic_load(&worker.state);
    if (strcmp(line, "check") == 0)
        return check();
    for (int i = 0; strcmp(line, "free") == 0 && !status && i < DEVICES; i++) {
        status = acre_free(cards[i].kv, NULL);
        cards[i].kv = NULL;
    }
    if (strcmp(line, "close") == 0) {
        status = acre_close(cards[1].device);
        cards[1].device = NULL;
    }
    return failed(status, line);
}

int main(void) {
    char line[64];
    puts(begin());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "exit") == 0) {
            if (strcmp(atomic_load(&worker.state), "waits") != 0 && worker.is_begun)
                pthread_join(worker.thread, NULL);
            exit(0);
        }
        puts(obey(line));
        fflush(stdout);
    }
    return 0;
}
