/* The objects that the program has loaded, by address: a copy of what the dynamic linker knows.
 *
 * dladdr waits for the lock that a thread holds while constructors run, and one of these may wait
 * for a thread that calls a hook. dl_iterate_phdr does not take that lock. Threads: any. Locks: one
 * mutex, which is never held during a call of the driver or of the ledger. */
#ifndef ACRE_SHIM_SHIM_MODULES_H
#define ACRE_SHIM_SHIM_MODULES_H

#include <stdint.h>

enum shim_module_kind {
    SHIM_MODULE_OTHER,  /* the program, and its libraries */
    SHIM_MODULE_NVIDIA, /* a library of CUDA, such as libcudart and libcublas */
    SHIM_MODULE_SYSTEM, /* libc and what calls back for it: pthread_once, std::call_once */
    SHIM_MODULE_SHIM    /* the shim itself */
};

struct shim_module {
    uintptr_t begin, end; /* addresses, from the first segment to the last */
    uintptr_t base;       /* added to addresses in the file */
    enum shim_module_kind kind;
    char name[96]; /* without folders */
};

/* Reads the list of objects again if it has changed. Call it before a group of searches. */
void acre__modules_update(void);
/* Copies the object that contains the address. Returns 0 if none does. */
int acre__module_find(uintptr_t address, struct shim_module *out);
/* Returns the kind of an object with this file name. */
enum shim_module_kind acre__module_kind(const char *name);
/* In a forked child: another thread of the parent may have held the lock. */
void acre__modules_forget(void);

#endif
