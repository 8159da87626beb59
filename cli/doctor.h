/* The list of checks that `acre doctor` makes: filled by doctor_device.c and doctor_host.c, printed
 * by cmd_doctor.c. */
#ifndef ACRE_CLI_DOCTOR_H
#define ACRE_CLI_DOCTOR_H

#include "cli.h"

enum doctor_result { DOCTOR_OK, DOCTOR_WARN, DOCTOR_PROBLEM };

struct doctor_check {
    const char *area; /* "driver", "device", "host", "configuration" */
    char *name;
    enum doctor_result result;
    char *text;   /* what was found, one line */
    char *advice; /* what to do, one line; NULL when all is well */
};

struct doctor {
    struct doctor_check *checks;
    size_t count, room;
    uint32_t devices_opened;
    uint32_t gpu_count; /* GPUs that the driver sees */
    bool gpu_rdma;      /* one of them can be reached by other PCI devices */
};

/* Appends a check; `advice` may be NULL, texts are copied. */
void doctor_add(struct doctor *doctor, const char *area, const char *name,
                enum doctor_result result, const char *advice, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* The first line of a small file without its line end, in a buffer of `room` bytes; false if it
 * cannot be read. */
bool doctor_read_line(const char *path, char *line, size_t room);

void doctor_check_driver(struct doctor *doctor);
void doctor_check_devices(struct doctor *doctor);
void doctor_check_host(struct doctor *doctor);

#endif
