/* The live view of `acre top`, on a terminal. */
#ifndef ACRE_CLI_TOP_SCREEN_H
#define ACRE_CLI_TOP_SCREEN_H

#include "top_model.h"

struct top_options {
    enum top_sort sort;
    bool is_reversed;
    char filter[128];
    int64_t pid;       /* the process whose holders are shown; 0: the list of processes */
    double interval_s; /* between readings */
};

/* Runs until the user quits. Returns an exit code. */
int top_screen(struct top_options *options);

#endif
