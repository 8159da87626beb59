/* Declares the memory that it needs, and gets all of it placed once.
 *
 * A small network: weights last for all steps, activations for some. Activations that are never
 * live at the same time get the same memory. A request that does not fit fails without harm. After
 * acre_plan_release the next round gets the same memory, after the work of the round before. */
#include <acre.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
enum { LAYERS = 6, ROUNDS = 2 };

static acre_device *device;
static acre_stream stream;
static int wrong;

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, acre_status_text(status), acre_last_detail());
        exit(2);
    }
}

static void expect(int is_so, const char *what) {
    if (!is_so) {
        printf("THIS IS WRONG: %s\n", what);
        wrong++;
    }
}

/* Prints the lines that the plan logs at create and at commit. */
static void say(void *user, acre_log_level level, const char *area, const char *line) {
    (void)user, (void)level;
    if (strcmp(area, "plan") == 0) {
        printf("%s\n", line);
    }
}

static int show(void *user, const acre_plan_placed *wish) {
    (void)user;
    printf("  %-12s %6.1f MiB at %6.1f of %s", *wish->name ? wish->name : "(no name)",
           (double)wish->bytes / MIB, (double)wish->offset / MIB,
           wish->place == ACRE_PLACE_HOST ? "host" : "device");
    if (wish->flags & ACRE_WISH_STEPS) {
        printf(", steps %" PRIu64 " to %" PRIu64, wish->first_step, wish->last_step);
    }
    printf("\n");
    return 0;
}

/* The variables must exist until the plan has written them. */
struct network {
    void *input; /* pinned host memory */
    void *weights, *biases;
    void *activation[LAYERS];
};

static void wish(acre_plan *plan, struct network *net) {
    /* Placed at once: the address is written when the call returns. */
    need(acre_plan_want(plan, ACRE_PLACE_HOST, 3 * MIB + 100, 0, &net->input), "acre_plan_want");

    /* Side by side, so that one copy moves both. */
    acre_plan_wish both[] = {
        {.struct_size = sizeof *both, .name = "weights", .p = &net->weights, .bytes = 10 * MIB},
        {.struct_size = sizeof *both, .name = "biases", .p = &net->biases, .bytes = 4096},
    };
    need(acre_plan_want_many(plan, both, 2, ACRE_PLAN_ADJACENT), "acre_plan_want_many");
    expect((char *)net->biases == (char *)net->weights + 10 * MIB, "biases follow weights");

    /* Layer i writes its activation in step i, and layer i + 1 reads it in the next step. */
    for (size_t i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "layer %zu", i);
        acre_plan_wish one = {.struct_size = sizeof one,
                              .name = name,
                              .p = &net->activation[i],
                              .bytes = (8 - i) * MIB,
                              .first_step = i,
                              .last_step = i + 1,
                              .flags = ACRE_WISH_STEPS};
        need(acre_plan_want_many(plan, &one, 1, 0), "acre_plan_want_many");
    }
}

/* Fills and copies stand for kernels. */
static void work(const struct network *net) {
    memset(net->input, 1, 3 * MIB);
    need(acre_fill(device, net->weights, 2, 10 * MIB + 4096, stream), "acre_fill");
    need(acre_copy(device, net->activation[0], net->input, 3 * MIB, stream), "acre_copy");
    for (size_t i = 1; i < LAYERS; i++) {
        need(acre_copy(device, net->activation[i], net->activation[i - 1], MIB, stream),
             "acre_copy");
    }
}

int main(void) {
    need(acre_log_set(say, NULL, ACRE_LOG_INFO), "acre_log_set");
    need(acre_open("auto", NULL, &device), "acre_open");
    need(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream), "acre_stream_create");

    acre_plan_options options = {
        .struct_size = sizeof options, .device_bytes = 32 * MIB, .host_bytes = 4 * MIB};
    acre_plan *plan;
    need(acre_plan_create(device, &options, &plan), "acre_plan_create");

    struct network net = {0};
    void *first_weights = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        wish(plan, &net);
        /* A request that is too large changes nothing, and the rest of the plan still works. */
        void *more = NULL;
        expect(acre_plan_want(plan, ACRE_PLACE_HOST, 2 * MIB, 0, &more) == ACRE_E_HOST_MEMORY,
               "this does not fit");
        printf("refused: %s\n", acre_last_detail());
        expect(!more, "no address is written");

        need(acre_plan_commit(plan), "acre_plan_commit");
        expect(acre_plan_want(plan, ACRE_PLACE_HOST, 256, 0, &more) == ACRE_E_COMMITTED,
               "a committed plan accepts no more requests");
        if (round == 0) {
            need(acre_plan_walk(plan, show, NULL), "acre_plan_walk");
            first_weights = net.weights;
        }
        expect(net.weights == first_weights, "the next round has the same memory");
        work(&net);

        /* The work may still run: the next round's first request waits for it. */
        need(acre_plan_release(plan, stream), "acre_plan_release");
    }

    acre_plan_stats stats = {.struct_size = sizeof stats};
    need(acre_plan_get_stats(plan, &stats), "acre_plan_get_stats");
    printf("%" PRIu64 " rounds in %" PRIu64 " MiB of device memory, waited %" PRIu64 " times\n",
           stats.rounds, stats.device_bytes / MIB, stats.waits);
    need(acre_plan_destroy(plan), "acre_plan_destroy");
    need(acre_stream_destroy(device, stream), "acre_stream_destroy");
    need(acre_close(device), "acre_close");
    return wrong != 0;
}
