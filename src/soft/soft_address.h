/* Device addresses (soft_address.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_ADDRESS_H
#define ACRE_SOFT_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

/* Allocates device addresses. `alignment` is a power of two of at least 2 MiB. Uses the hint if
 * those addresses are free. Returns 0 if no addresses are left. */
uint64_t acre__soft_address_take(size_t bytes, size_t alignment, uint64_t hint);
void acre__soft_address_give(uint64_t address, size_t bytes);
/* Returns 1 if the address lies in a window, mapped or not. Such an address is never pageable
 * memory. */
int acre__soft_address_is_device(uint64_t address);
void acre__soft_address_reset(void);

#endif
