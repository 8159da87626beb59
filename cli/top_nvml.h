/* Cards and their processes, from NVIDIA's management library libnvidia-ml.so.1, if there is one.
 */
#ifndef ACRE_CLI_TOP_NVML_H
#define ACRE_CLI_TOP_NVML_H

#include "top_model.h"

/* A process on a card. */
struct top_nvml_use {
    int64_t pid;
    unsigned card;  /* index in `cards` */
    uint64_t bytes; /* TOP_UNKNOWN: NVML does not say */
};

struct top_nvml {
    struct top_card cards[TOP_CARDS];
    size_t card_count;
    struct top_nvml_use *uses;
    size_t use_count;
};

/* Asks NVML, which is loaded and initialised by the first call. Returns false if there is none. The
 * caller frees `uses`. */
bool top_nvml_look(struct top_nvml *now);

#endif
