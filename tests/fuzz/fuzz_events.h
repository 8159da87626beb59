/* The entry point of the fuzzed readers, under the name that libFuzzer calls. */
#ifndef ACRE_TESTS_FUZZ_EVENTS_H
#define ACRE_TESTS_FUZZ_EVENTS_H

#include <stddef.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t count);

#endif
