/* User objects, which graphs keep alive, and their destructors.
 *
 * An object has references of the program and of works (struct soft_work): those of graphs and
 * those of executables, which launches keep until they are done. An object without references can
 * no longer be found, and its destructor is called, as on an H200. The thread whose call dropped
 * the last reference calls the destructor before that call returns. If a finished launch dropped
 * the last reference, a worker calls the destructor. With a seed there are no workers, and the
 * thread that ran the launch's last step calls it.
 *
 * A destructor must not call the driver: such calls return CUDA_ERROR_NOT_PERMITTED, as in host
 * functions.
 *
 * Guarded by acre__soft.lock, which is not held while a destructor runs. acre__soft.dying is empty
 * whenever the lock is free: a function that drops references settles the objects that they
 * leave. */
#include <stdlib.h>

#include "soft/soft_object.h"
#include "soft/soft_state.h"
#include "soft/soft_thread.h"

/* ---- destroying an object ---- */

void acre__soft_object_check(struct CUuserObject_st *object) {
    if (object->owned || object->held)
        return;
    acre__tree_remove(&acre__soft.objects, &object->node);
    struct CUuserObject_st **link = &acre__soft.dying; /* destructors run in this order */
    while (*link)
        link = &(*link)->next;
    *link = object;
}

/* Calls the destructor of the list's first object; 0: the list is empty. */
static int object_destroy(struct CUuserObject_st **list) {
    struct CUuserObject_st *object = *list;
    if (!object)
        return 0;
    *list = object->next;
    struct soft_thread *self = acre__soft_thread_self();
    int before = self ? self->in_host_function : 0;
    if (self)
        self->in_host_function = 1;
    acre__lock_give(&acre__soft.lock);
    object->destroy(object->argument);
    acre__lock_take(&acre__soft.lock);
    if (self)
        self->in_host_function = before;
    free(object);
    return 1;
}

int acre__soft_object_destroy_late(void) {
    return object_destroy(&acre__soft.dying_late);
}

void acre__soft_objects_settle(void) {
    struct CUuserObject_st *list = acre__soft.dying;
    acre__soft.dying = NULL;
    while (object_destroy(&list))
        ;
    while (!acre__soft.contexts && acre__soft_object_destroy_late())
        ; /* there are no workers without contexts */
}

int acre__soft_objects_settle_late(void) {
    if (!acre__soft.dying)
        return 0;
    if (acre__soft.config.seeded) {
        acre__soft_objects_settle();
        return 0;
    }
    struct CUuserObject_st **link = &acre__soft.dying_late;
    while (*link)
        link = &(*link)->next;
    *link = acre__soft.dying;
    acre__soft.dying = NULL;
    return 1;
}

static void list_forget(struct CUuserObject_st **list) {
    while (*list) {
        struct CUuserObject_st *object = *list;
        *list = object->next;
        free(object);
    }
}

void acre__soft_objects_forget(void) {
    struct acre__node *node;
    while ((node = acre__tree_first(&acre__soft.objects))) {
        acre__tree_remove(&acre__soft.objects, node);
        free(acre__tree_entry(node, struct CUuserObject_st, node));
    }
    list_forget(&acre__soft.dying);
    list_forget(&acre__soft.dying_late);
}

/* ---- references of graphs ---- */

static struct soft_hold *hold_find(struct soft_work *work, const struct CUuserObject_st *object) {
    for (size_t i = 0; i < work->hold_count; i++)
        if (work->holds[i].object == object)
            return &work->holds[i];
    return NULL;
}

CUresult acre__soft_object_hold(struct soft_work *work, struct CUuserObject_st *object,
                                uint64_t count) {
    struct soft_hold *hold = hold_find(work, object);
    if (!hold) {
        struct soft_hold *holds = realloc(work->holds, (work->hold_count + 1) * sizeof *holds);
        if (!holds)
            return CUDA_ERROR_OUT_OF_MEMORY;
        work->holds = holds;
        hold = &holds[work->hold_count++];
        *hold = (struct soft_hold){object, 0};
    }
    hold->count += count;
    object->held += count;
    return CUDA_SUCCESS;
}

int acre__soft_object_let_go(struct soft_work *work, struct CUuserObject_st *object,
                             uint64_t count) {
    struct soft_hold *hold = hold_find(work, object);
    if (!hold || hold->count < count)
        return 0;
    hold->count -= count;
    if (!hold->count)
        *hold = work->holds[--work->hold_count];
    object->held -= count;
    acre__soft_object_check(object);
    return 1;
}
