/* The list of checks of `acre doctor`: doctor_device.c, doctor_host.c and doctor_program.c fill it,
 * cmd_doctor.c prints it. */
#ifndef ACRE_CLI_DOCTOR_H
#define ACRE_CLI_DOCTOR_H

#include "cli.h"

enum doctor_result { DOCTOR_OK, DOCTOR_WARN, DOCTOR_PROBLEM };

struct doctor_check {
    const char *area; /* "program", "driver", "device", "host", "configuration" */
    char *name;
    enum doctor_result result;
    char *text;   /* the finding, one line */
    char *advice; /* what to do, one line; NULL if there is nothing to do */
};

struct doctor {
    struct doctor_check *checks;
    size_t count, room;
    uint32_t devices_opened;
    uint32_t gpu_count; /* GPUs that the driver reports */
    bool gpu_rdma;      /* other PCI devices can access the memory of one of them */
};

/* Appends a check. `advice` may be NULL. Copies name, text and advice; `area` must outlive the
 * list. */
void doctor_add(struct doctor *doctor, const char *area, const char *name,
                enum doctor_result result, const char *advice, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Reads the first line of a small file, without its line end, into a buffer of `room` bytes.
 * Returns false if the file cannot be read. */
bool doctor_read_line(const char *path, char *line, size_t room);

void doctor_check_driver(struct doctor *doctor);
void doctor_check_devices(struct doctor *doctor);
void doctor_check_host(struct doctor *doctor);
/* Checks whether `acre run` can see the CUDA calls of a program, which is not run. */
void doctor_check_program(struct doctor *doctor, const char *program);

#endif
