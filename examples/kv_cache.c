/* The memory of a KV cache that grows and shrinks: requests come, generate tokens, and go.
 *
 * The keys and the values of a model are two sparse ranges with one budget. Each request has a slot
 * with addresses for its longest context, in both ranges, and memory only for the tokens that it
 * has. Pages are committed one ahead of need, so that a step never waits for the driver. When a
 * request ends, its pages are decommitted and stay mapped for the next one. When the budget is used
 * up, acre takes the idle pages of other slots; when nothing is idle, the newest request is put
 * back into the queue. */
#include <acre.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

enum {
    SLOTS = 8,        /* requests that can run at the same time */
    REQUESTS = 64,    /* in all */
    TOKEN = 64 << 10, /* bytes of keys, or values, of one token */
    PAGE_TOKENS = 32, /* a page of 2 MiB */
    MOST_TOKENS = 512 /* the longest context: 16 pages */
};

#define PAGE ((uint64_t)TOKEN * PAGE_TOKENS)
#define SLOT (PAGE * (MOST_TOKENS / PAGE_TOKENS))
#define BUDGET (160 * MIB) /* less than a third of what all slots have addresses for */

struct request {
    uint32_t number; /* 0: the slot is free */
    uint32_t tokens, wanted;
    uint64_t committed; /* bytes, in each range */
};

static acre_device *device;
static acre_stream stream;
static acre_range_budget *budget;
static acre_range *ranges[2]; /* keys, values */
static struct request slots[SLOTS];
static uint32_t queue[REQUESTS]; /* waiting requests, the next one last */
static uint32_t waiting, put_back, wrong;
static uint32_t random_state = 12345;

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, acre_status_text(status), acre_last_detail());
        exit(2);
    }
}

static uint32_t draw(uint32_t below) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 16) % below;
}

/* The tokens that a request generates before it ends. */
static uint32_t request_tokens(uint32_t number) {
    return 16 + number * 2654435761u % (MOST_TOKENS - 16);
}

/* The byte that fills a token's keys or values. */
static uint8_t content(uint32_t number, uint32_t token, int which) {
    return (uint8_t)(1 + (number * 31 + token * 7 + (uint32_t)which * 101) % 255);
}

static char *token_at(size_t slot, uint32_t token, int which) {
    return (char *)acre_range_data(ranges[which]) + slot * SLOT + (uint64_t)token * TOKEN;
}

/* ---- pages ---- */

static void release(size_t slot) {
    for (int which = 0; which < 2; which++) {
        need(acre_range_decommit(ranges[which], slot * SLOT, slots[slot].committed, stream),
             "acre_range_decommit");
    }
    slots[slot] = (struct request){0};
}

/* Commits `bytes` of a slot in both ranges, or in none. Returns 0 if the budget is used up. */
static int commit(size_t slot, uint64_t bytes) {
    struct request *request = &slots[slot];
    uint64_t more = bytes - request->committed, offset = slot * SLOT + request->committed;
    for (int which = 0; which < 2; which++) {
        acre_status status = acre_range_commit(ranges[which], offset, more, stream);
        if (status == ACRE_E_LIMIT) {
            if (which == 1) {
                need(acre_range_decommit(ranges[0], offset, more, stream), "acre_range_decommit");
            }
            return 0;
        }
        need(status, "acre_range_commit");
    }
    request->committed = bytes;
    return 1;
}

/* Puts the newest other request back into the queue. It will start again later. */
static int preempt(size_t except) {
    size_t newest = SLOTS;
    for (size_t i = 0; i < SLOTS; i++) {
        if (i != except && slots[i].number &&
            (newest == SLOTS || slots[i].number > slots[newest].number)) {
            newest = i;
        }
    }
    if (newest == SLOTS) {
        return 0;
    }
    queue[waiting++] = slots[newest].number;
    put_back++;
    release(newest);
    return 1;
}

/* ---- requests ---- */

static acre_range_stats stats(void) {
    acre_range_stats now = {.struct_size = sizeof now};
    need(acre_range_budget_get_stats(budget, &now), "acre_range_budget_get_stats");
    return now;
}

/* Starts waiting requests while a third of the budget is free, so that those that run can grow. */
static void admit(void) {
    for (size_t i = 0; i < SLOTS && waiting && stats().committed_bytes < BUDGET / 3 * 2; i++) {
        if (!slots[i].number && draw(8) == 0) {
            uint32_t number = queue[--waiting];
            slots[i] = (struct request){.number = number, .wanted = request_tokens(number)};
        }
    }
}

/* Reads all tokens of a request back and compares them. */
static void verify(size_t slot) {
    static uint8_t found[TOKEN];
    const struct request *request = &slots[slot];
    for (int which = 0; which < 2; which++) {
        for (uint32_t token = 0; token < request->tokens; token += 5) {
            uint8_t wanted = content(request->number, token, which);
            need(acre_copy(device, found, token_at(slot, token, which), TOKEN, stream),
                 "acre_copy");
            need(acre_stream_sync(device, stream), "acre_stream_sync");
            wrong += found[0] != wanted || memcmp(found, found + 1, TOKEN - 1) != 0;
        }
    }
}

/* Generates one token: in a real engine a kernel writes its keys and values. */
static void generate(size_t slot) {
    struct request *request = &slots[slot];
    uint64_t used = (uint64_t)request->tokens * TOKEN;
    if (used == request->committed) { /* no page was free when there was time for it */
        while (!commit(slot, request->committed + PAGE)) {
            if (!preempt(slot)) {
                fprintf(stderr, "the budget is too small for one request\n");
                exit(2);
            }
        }
    }
    for (int which = 0; which < 2; which++) {
        need(acre_fill(device, token_at(slot, request->tokens, which),
                       content(request->number, request->tokens, which), TOKEN, stream),
             "acre_fill");
    }
    request->tokens++;
    /* One page ahead of need. If there is none, the request asks again when it needs the page. */
    if (request->committed - used - TOKEN < PAGE && request->committed < SLOT &&
        request->tokens + PAGE_TOKENS < request->wanted) {
        (void)commit(slot, request->committed + PAGE);
    }
}

static int step(uint32_t *done) {
    int is_busy = 0;
    admit();
    for (size_t i = 0; i < SLOTS; i++) {
        if (!slots[i].number) {
            continue;
        }
        is_busy = 1;
        generate(i);
        if (slots[i].tokens == slots[i].wanted) {
            verify(i);
            release(i);
            ++*done;
        }
    }
    return is_busy || waiting;
}

static void create(void) {
    need(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream), "acre_stream_create");
    need(acre_range_budget_create(device, BUDGET, &budget), "acre_range_budget_create");
    for (int which = 0; which < 2; which++) {
        acre_range_options options = {
            .struct_size = sizeof options, .budget = budget, .piece_bytes = PAGE};
        acre_status status = acre_range_create(device, SLOTS * SLOT, &options, &ranges[which]);
        if (status == ACRE_E_UNSUPPORTED) {
            printf("this device cannot map memory: %s\n", acre_last_detail());
            exit(0);
        }
        need(status, "acre_range_create");
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        queue[waiting++] = REQUESTS - i;
    }
}

int main(void) {
    acre_device_info info = {.struct_size = sizeof info};
    uint32_t steps = 0, done = 0;
    need(acre_open("auto", NULL, &device), "acre_open");
    need(acre_device_get_info(device, &info), "acre_device_get_info");
    create();
    printf("%s: %d requests, addresses for %" PRIu64 " MiB, memory for %" PRIu64 " MiB\n",
           info.name, REQUESTS, 2 * SLOTS * SLOT / MIB, BUDGET / MIB);
    while (step(&done)) {
        if (++steps % 500 == 0) {
            acre_range_stats now = stats();
            printf("step %5" PRIu32 ": %2" PRIu32 " done, %3" PRIu64 " MiB committed, %3" PRIu64
                   " MiB idle\n",
                   steps, done, now.committed_bytes / MIB, now.idle_bytes / MIB);
        }
    }
    acre_range_stats now = stats();
    printf("%" PRIu32 " requests done, %" PRIu32 " put back; at most %" PRIu64 " MiB\n", done,
           put_back, now.peak_bytes / MIB);
    printf("pages: %" PRIu64 " still mapped, %" PRIu64 " mapped, %" PRIu64
           " of them with memory of other slots\n",
           now.pieces_reused, now.pieces_mapped, now.pieces_moved);
    if (wrong || done != REQUESTS || now.peak_bytes > BUDGET || !now.pieces_reused) {
        printf("THIS IS WRONG: %" PRIu32 " tokens differ\n", wrong);
        return 1;
    }
    for (int which = 0; which < 2; which++) {
        need(acre_range_destroy(ranges[which], stream), "acre_range_destroy");
    }
    need(acre_range_budget_destroy(budget), "acre_range_budget_destroy");
    need(acre_stream_destroy(device, stream), "acre_stream_destroy");
    need(acre_close(device), "acre_close");
    return 0;
}
