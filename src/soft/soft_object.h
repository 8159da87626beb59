/* User objects: what graphs keep alive (soft_object.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_OBJECT_H
#define ACRE_SOFT_OBJECT_H

#include "soft/soft_types.h"

/* The graph's work holds so many references more, or less: 0 if it has not so many. */
CUresult acre__soft_object_hold(struct soft_work *work, struct CUuserObject_st *object,
                                uint64_t count);
int acre__soft_object_let_go(struct soft_work *work, struct CUuserObject_st *object,
                             uint64_t count);
/* The program has dropped references: without any the object cannot be found any more and waits for
 * its destructor. */
void acre__soft_object_check(struct CUuserObject_st *object);
/* Calls the destructors of objects whose last reference this call has dropped. The lock is given up
 * meanwhile. */
void acre__soft_objects_settle(void);
/* The same for references that finished work has dropped: with a seed the destructors are called
 * here, else by a worker. 1: a worker has to. */
int acre__soft_objects_settle_late(void);
/* What that worker does; 0: there is no such destructor. */
int acre__soft_object_destroy_late(void);
/* No destructor is called: as at the end of a process. */
void acre__soft_objects_forget(void);

#endif
