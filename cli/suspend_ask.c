/* See suspend_ask.h. The answer comes from another program: it is checked before it is used. */
#include "suspend_ask.h"

#include <inttypes.h>

#include "cli.h"
#include "control_ask.h"

enum { SUSPEND_DEVICES = 256 };

uint64_t suspend_number(const json_t *device, const char *name) {
    json_int_t value = json_integer_value(json_object_get(device, name));
    return value > 0 ? (uint64_t)value : 0;
}

uint64_t suspend_sum(const struct suspend_answer *answer, const char *name) {
    uint64_t sum = 0;
    for (size_t i = 0; i < json_array_size(answer->devices); i++) {
        sum += suspend_number(json_array_get(answer->devices, i), name);
    }
    return sum;
}

/* Copies the fields of a device that acre writes. */
static json_t *suspend_copy(const json_t *from) {
    const char *name = json_string_value(json_object_get(from, "device"));
    json_t *device = json_object();
    cli_json_set(device, "device", cli_json_text(name ? name : "?"));
#define SUSPEND_COPY(field, meaning)                                                               \
    cli_json_set(device, #field, cli_json_number(suspend_number(from, #field)));
    ACRE_SUSPEND_INFO_LIST(SUSPEND_COPY)
#undef SUSPEND_COPY
    cli_json_set(device, "driver_pool_bytes",
                 cli_json_number(suspend_number(from, "driver_pool_bytes")));
    return device;
}

static bool suspend_read(struct suspend_answer *answer, const char *text) {
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const json_t *devices = json_object_get(root, "devices");
    bool is_valid = json_is_array(devices) && json_array_size(devices) <= SUSPEND_DEVICES;
    for (size_t i = 0; is_valid && i < json_array_size(devices); i++) {
        cli_json_append(answer->devices, suspend_copy(json_array_get(devices, i)));
    }
    answer->program_bytes += suspend_number(root, "program_bytes");
    double seconds = (double)suspend_number(root, "ns") / 1e9;
    answer->seconds = seconds > answer->seconds ? seconds : answer->seconds;
    json_decref(root);
    return is_valid;
}

bool suspend_ask(long pid, const char *request, struct suspend_answer *answer) {
    struct control_answers answers;
    *answer = (struct suspend_answer){.devices = json_array()};
    bool is_valid = control_ask_all(pid, request, &answers);
    for (size_t i = 0; is_valid && i < answers.count; i++) {
        is_valid = suspend_read(answer, answers.texts[i]);
        if (!is_valid) {
            cli_say("process %ld: its answer is damaged", pid);
        }
    }
    answer->is_whole = is_valid && !answers.refused;
    control_answers_end(&answers);
    return is_valid;
}

json_t *suspend_json(const char *schema, long pid, const struct suspend_answer *answer) {
    json_t *root = cli_json_begin(schema);
    cli_json_set(root, "pid", cli_json_number((uint64_t)pid));
    cli_json_set(root, "seconds", json_real(answer->seconds));
#define SUSPEND_SUM(field, meaning)                                                                \
    cli_json_set(root, #field, cli_json_number(suspend_sum(answer, #field)));
    ACRE_SUSPEND_INFO_LIST(SUSPEND_SUM)
#undef SUSPEND_SUM
    cli_json_set(root, "devices", json_incref(answer->devices));
    return root;
}
