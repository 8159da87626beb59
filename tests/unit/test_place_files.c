/* The placer on known instances: those in tests/data/plans and, if present, in
 * ../shared/data/plans. Each plan must reach the instance's capacity or its lower bound. The test
 * runs each instance in the order of its rows and in two other orders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cases.h"
#include "plan/place.h"
#include "support/rounds.h"

enum { MOST = 2000 };

static const struct instance {
    const char *name;
    uint64_t capacity, lower_bound; /* capacity 0: the plan must reach the lower bound */
} instances[] = {
    {"A.1048576.csv", 1048576, 1048576}, {"B.1048576.csv", 1048576, 1048576},
    {"C.1048576.csv", 1048576, 1039360}, {"C.1048576.csv", 0, 1039360},
    {"E.1048576.csv", 1048576, 1048576}, {"F.1048576.csv", 1048576, 1048576},
    {"G.1048576.csv", 1048576, 1048576}, {"H.1048576.csv", 1048576, 1048576},
    {"I.1048576.csv", 1048576, 1048576}, {"G_1.csv", 0, 3030937746},
    {"resnet50.csv", 0, 1515472556},     {"input.12.csv", 12, 12},
};

static FILE *open_instance(const char *name) {
    static const char *const folders[] = {"tests/data/plans", "../shared/data/plans"};
    const char *source = getenv("ACRE_SOURCE");
    FILE *file = NULL;
    for (size_t i = 0; !file && i < 2; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s/%s", source ? source : ".", folders[i], name);
        file = fopen(path, "re");
    }
    return file;
}

/* Reads rows of id,lower,upper,size. Returns 0 if the file of the instance is missing. */
static size_t read_instance(const char *name, struct acre__place_buffer *buffers) {
    FILE *file = open_instance(name);
    char line[256];
    size_t count = 0;
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        struct acre__place_buffer row = {0};
        if (sscanf(line, "%*[^,],%" SCNd64 ",%" SCNd64 ",%" SCNu64, &row.lower, &row.upper,
                   &row.size) == 3) {
            assert_true(count < MOST);
            buffers[count++] = row;
        }
    }
    fclose(file);
    return count;
}

/* Makes an equivalent instance that takes the search another way: how 1 permutes the rows, 2 also
 * reverses time. */
static void turn(struct acre__place_buffer *buffers, size_t count, int how) {
    for (size_t i = count - 1; how && i > 0; i--) {
        size_t k = (i * 7919 + (size_t)how * 104729) % (i + 1);
        struct acre__place_buffer row = buffers[i];
        buffers[i] = buffers[k];
        buffers[k] = row;
    }
    for (size_t i = 0; how == 2 && i < count; i++) {
        int64_t lower = buffers[i].lower;
        buffers[i].lower = -buffers[i].upper;
        buffers[i].upper = -lower;
    }
}

static void check(const struct instance *instance, struct acre__place_buffer *buffers,
                  size_t count) {
    struct acre__place_options options = {.capacity = instance->capacity};
    struct acre__place_result result;
    assert_int_equal(acre__place(buffers, count, &options, &result), 0);
    assert_int_equal(acre__place_verify(buffers, count, result.bytes, NULL, NULL), 0);
    printf("%s: %" PRIu64 " bytes, %.6f of the lower bound, %" PRIu64 " nodes\n", instance->name,
           result.bytes, (double)result.bytes / (double)result.lower_bound, result.nodes);
    assert_int_equal(result.lower_bound, instance->lower_bound);
    assert_true(result.is_fitting);
    assert_true(result.bytes <= (instance->capacity ? instance->capacity : instance->lower_bound));
}

TEST(place_known_instances_reach_what_can_be_reached) {
    static struct acre__place_buffer buffers[MOST];
    int found = 0;
    for (size_t i = 0; i < sizeof instances / sizeof instances[0]; i++) {
        for (int how = 0; how < ROUNDS(3, 1); how++) {
            size_t count = read_instance(instances[i].name, buffers);
            if (count == 0)
                break;
            turn(buffers, count, how);
            check(&instances[i], buffers, count);
            found++;
        }
    }
    if (!found)
        skip();
}

int main(void) {
    return tests_run("place_files");
}
