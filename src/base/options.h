/* Options structs, in and out. Each begins with size_t struct_size; zero means default. */
#ifndef ACRE_BASE_OPTIONS_H
#define ACRE_BASE_OPTIONS_H

#include "acre.h"

/* Copies the caller's options into `to` (of `size` bytes) and zeroes the rest. `from` may be NULL
 * (all defaults). In `to`, struct_size is `size`; after a failure `to` is unchanged. Returns
 * ACRE_E_OPTIONS if struct_size is less than a size_t, if the tail that this version does not know
 * has a non-zero byte, or if that tail exceeds 64 KiB. `what` names the struct in the detail. */
acre_status acre__options_in(void *to, size_t size, const void *from, const char *what);

/* Fills the caller's result struct from `from` (of `size` bytes). Copies the bytes that both
 * versions know and zeroes a longer tail; struct_size keeps the caller's value. Returns ACRE_E_NULL
 * if `to` is NULL, and ACRE_E_OPTIONS for an implausible struct_size, as acre__options_in. */
acre_status acre__options_out(void *to, size_t size, const void *from, const char *what);

#endif
