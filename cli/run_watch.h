/* acre run with a report: the file that the processes record in, the program as a child, and the
 * reports of processes that end without one. */
#ifndef ACRE_CLI_RUN_WATCH_H
#define ACRE_CLI_RUN_WATCH_H

#include <stdbool.h>

#include "limit_file.h"
#include "run_file.h"

struct run_watch {
    unsigned wants;           /* enum run_want */
    const char *rules;        /* path of the suppressions; NULL: none */
    const char *json;         /* path for JSON; NULL: stderr; "-": stdout */
    bool force;               /* `json` may replace any file */
    const char *program;      /* its name, without folders */
    struct limit_file *limit; /* of the memory limit; NULL: none */
    /* Set by run_watch_begin. */
    int file; /* of records; the program finds it under /proc */
    int out;  /* to which processes append JSON; -1: stderr */
    struct run_file *base;
    int *start_failed; /* shared with the child until it is the program: 1 if it could not start */
};

/* Creates the file of records, reads the suppressions, and checks whether the file for JSON may be
 * written. Returns an exit code, after a message if it is not CLI_OK. */
int run_watch_begin(struct run_watch *watch);

/* Runs the program in a child, forwards signals to it and waits for it. `start` runs in the child
 * and replaces it by the program, or returns an exit code. Then prints the reports that processes
 * did not print themselves, and writes the file for JSON, unless the program could not be started.
 * Returns the exit code of the tool; if the program died by a signal, the tool dies by the same one
 * instead. */
int run_watch_program(struct run_watch *watch, int (*start)(const void *user), const void *user);

#endif
