/* Options structs, in and out. Each begins with size_t struct_size; zero means default. */
#ifndef ACRE_BASE_OPTIONS_H
#define ACRE_BASE_OPTIONS_H

#include "acre.h"

/* Copies the caller's options into `to` (of `size` bytes), the rest zeroed; `from` may be NULL (all
 * defaults). A struct_size of less than a size_t, or a non-zero byte in a tail that this version
 * does not know, is ACRE_E_OPTIONS; `what` names the struct in the detail. At most 64 KiB of tail
 * are believed. In `to`, struct_size is `size`; after a failure `to` is as before. */
acre_status acre__options_in(void *to, size_t size, const void *from, const char *what);

/* Fills the caller's result struct from `from` (of `size` bytes): as many bytes as both know, a
 * longer tail zeroed; struct_size stays the caller's. ACRE_E_NULL / ACRE_E_OPTIONS as above. */
acre_status acre__options_out(void *to, size_t size, const void *from, const char *what);

#endif
