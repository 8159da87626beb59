/* Contexts: their flags and their end (soft_context.c). */
#ifndef ACRE_SOFT_CONTEXT_H
#define ACRE_SOFT_CONTEXT_H

#include "soft/soft_types.h"

int acre__soft_ctx_flags_are_good(unsigned flags);
/* All of them end. Workers are stopped. */
void acre__soft_contexts_forget(void);

#endif
