/* User objects, which graphs keep alive (soft_object.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_OBJECT_H
#define ACRE_SOFT_OBJECT_H

#include "soft/soft_types.h"

/* Adds `count` references of a graph's work to the object, or drops them. Dropping returns 0 if the
 * work has fewer references. */
CUresult acre__soft_object_hold(struct soft_work *work, struct CUuserObject_st *object,
                                uint64_t count);
int acre__soft_object_let_go(struct soft_work *work, struct CUuserObject_st *object,
                             uint64_t count);
/* Checks an object after references were dropped. Without references, the object can no longer be
 * found and waits for its destructor. */
void acre__soft_object_check(struct CUuserObject_st *object);
/* Calls the destructors of objects whose last reference this call has dropped. Releases the lock
 * meanwhile. */
void acre__soft_objects_settle(void);
/* Handles objects whose last reference finished work has dropped. With a seed, calls their
 * destructors; otherwise leaves them to a worker and returns 1. */
int acre__soft_objects_settle_late(void);
/* Calls one destructor that acre__soft_objects_settle_late left to a worker. Returns 0 if there is
 * none. */
int acre__soft_object_destroy_late(void);
/* Frees all objects without calling destructors, as at the end of a process. */
void acre__soft_objects_forget(void);

#endif
