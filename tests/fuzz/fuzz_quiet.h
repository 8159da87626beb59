/* What the fuzzed entry points share: checks, and what was said instead of on stderr. */
#ifndef ACRE_TESTS_FUZZ_QUIET_H
#define ACRE_TESTS_FUZZ_QUIET_H

#include <stddef.h>

/* The entry point, under the name that libFuzzer calls. */
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t count);

/* Ends the program if it is not so. */
#define FUZZ_CHECK(condition) fuzz_check((condition), #condition, __FILE__, __LINE__)
void fuzz_check(int good, const char *what, const char *file, int line);

/* Forgets what was said; lines since then. */
void fuzz_begin(void);
unsigned fuzz_said(void);

/* The code of a refusal, of a file called "input", and what was said about it. */
void fuzz_check_refusal(int code);

#endif
