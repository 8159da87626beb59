/* Asks a running program to suspend or resume, for `acre suspend` and `acre resume`. */
#ifndef ACRE_CLI_SUSPEND_ASK_H
#define ACRE_CLI_SUSPEND_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

/* What a program answers, from all copies of acre in it. */
struct suspend_answer {
    json_t *devices;        /* an array of objects: "device", and the bytes of acre_suspend_info */
    double seconds;         /* the longest */
    uint64_t program_bytes; /* device memory that the program has created itself */
    bool is_whole;          /* no copy of acre has refused */
};

/* Sends the request and reads the answers. Returns false after a message. */
bool suspend_ask(long pid, const char *request, struct suspend_answer *answer);

/* A number of a device, or of all of them together. */
uint64_t suspend_number(const json_t *device, const char *name);
uint64_t suspend_sum(const struct suspend_answer *answer, const char *name);

/* Begins the JSON document of a command, with the answer. */
json_t *suspend_json(const char *schema, long pid, const struct suspend_answer *answer);

#endif
