/* Contexts: their flags and their destruction (soft_context.c). */
#ifndef ACRE_SOFT_CONTEXT_H
#define ACRE_SOFT_CONTEXT_H

#include "soft/soft_types.h"

int acre__soft_ctx_flags_are_good(unsigned flags);
/* Destroys all contexts. The caller has stopped the workers. */
void acre__soft_contexts_forget(void);

#endif
