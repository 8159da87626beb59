/* Destruction of graphs and of their executables (soft_graph.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_GRAPH_H
#define ACRE_SOFT_GRAPH_H

#include "soft/soft_types.h"

void acre__soft_execs_end(const struct CUctx_st *ctx); /* those of the context; NULL: all */
void acre__soft_graphs_forget(void);

#endif
