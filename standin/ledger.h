/* The ledger: what the program holds, which call made it and where that call stands. */
#ifndef ACRE_STANDIN_LEDGER_H
#define ACRE_STANDIN_LEDGER_H

#include "caller.h"

/* The calling thread's caller. */
struct acre_standin_caller acre__standin_caller(void);

#endif
