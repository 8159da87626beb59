/* Who called NVIDIA's library that called the driver: the first frame of the stack outside of these
 * libraries, for the ledger.
 *
 * The unwinder is that of the compiler, linked statically: nothing is loaded into the program. It
 * reads the tables of exceptions, takes no lock of the dynamic linker's, and takes about 0.5 us a
 * frame. If the caller of the driver is no library of NVIDIA's, it is not used.
 *
 * ACRE_STACKS is the number of frames to look at; 0 switches it off. Locks: see shim_modules.h. */
#include <stdio.h>
#include <unwind.h>

#include "base/config.h"
#include "base/parse.h"
#include "ledger.h"
#include "shim_modules.h"

enum { STACK_FRAMES = ACRE__STACK_MOST };

struct stack_walk {
    unsigned left; /* frames to look at */
    const void *outside;
};

/* A return address may be the first one behind a function that does not return. */
static _Unwind_Reason_Code stack_frame(struct _Unwind_Context *context, void *user) {
    struct stack_walk *walk = user;
    struct shim_module module;
    uintptr_t address = _Unwind_GetIP(context);
    if (!address)
        return _URC_END_OF_STACK;
    if (!acre__module_find(address - 1, &module))
        module.kind = SHIM_MODULE_OTHER; /* code that a compiler has made at run time */
    if (module.kind == SHIM_MODULE_SHIM)
        return _URC_NO_REASON;
    if (module.kind == SHIM_MODULE_OTHER) {
        walk->outside = (const void *)address;
        return _URC_END_OF_STACK;
    }
    return --walk->left ? _URC_NO_REASON : _URC_END_OF_STACK;
}

unsigned acre__ledger_stack_depth(int is_default) {
    const char *text = acre__config_string(ACRE__CONFIG_STACKS);
    unsigned frames = 0;
    int by_frame_pointers = 0;
    if (text && acre__parse_stacks(text, &frames, &by_frame_pointers) == 0)
        return frames;
    return is_default ? STACK_FRAMES : 0;
}

void acre__ledger_outside(struct acre_ledger_caller *caller, unsigned depth) {
    struct stack_walk walk = {depth, NULL};
    struct shim_module module;
    acre__modules_update();
    if (!acre__module_find((uintptr_t)caller->address - 1, &module) ||
        module.kind != SHIM_MODULE_NVIDIA)
        return;
    (void)_Unwind_Backtrace(stack_frame, &walk);
    if (walk.outside) {
        caller->from = walk.outside;
        caller->library = (const void *)module.begin;
    }
}

int acre__ledger_module(uintptr_t address, char *name, size_t name_bytes, uint64_t *offset) {
    struct shim_module module;
    acre__modules_update();
    if (!acre__module_find(address, &module))
        return 0;
    snprintf(name, name_bytes, "%s", module.name);
    *offset = address - module.base;
    return 1;
}
