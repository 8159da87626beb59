/* Fails driver calls in tests in C++, which cannot include the headers of src/. */
#ifndef ACRE_TESTS_CPP_FAULT_H
#define ACRE_TESTS_CPP_FAULT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Call this first in main: the first open of a process puts the fault wrapper in front of the
 * driver. Returns 0 if the soft device does not open. */
int cpp_fault_begin(void);

/* Makes the driver call number `nth` from now on run out of memory, alone or with all later ones.
 */
void cpp_fault_on(uint32_t nth, int and_later);

/* Ends the plan. Returns how many calls failed. */
uint64_t cpp_fault_off(void);

#ifdef __cplusplus
}
#endif

#endif
