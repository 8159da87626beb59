/* acre run with a report: the file that the processes record in, the program as a child, and the
 * reports of processes that end without one. */
#ifndef ACRE_CLI_RUN_WATCH_H
#define ACRE_CLI_RUN_WATCH_H

#include "run_file.h"

struct run_watch {
    unsigned wants; /* enum run_want */
    int file;       /* of records; the program finds it under /proc */
    int out;        /* where JSON goes; -1: stderr */
    struct run_file *base;
    const char *rules; /* path of the suppressions; NULL: none */
};

/* Creates the file and reads the suppressions. Without a file for JSON `out` is NULL, and "-" is
 * stdout. Returns an exit code, after a message if it is not CLI_OK. */
int run_watch_begin(struct run_watch *watch, const char *rules, const char *out);

/* Runs the program in a child, forwards signals to it and waits for it. `start` runs in the child
 * and replaces it by the program, or returns an exit code. Then prints the reports that processes
 * did not print themselves. Returns the exit code of the tool; if the program died by a signal, the
 * tool dies by the same one instead. */
int run_watch_program(struct run_watch *watch, int (*start)(const void *user), const void *user);

#endif
