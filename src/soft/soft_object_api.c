/* The driver calls for user objects (soft_object.c): creation, and references of the program and of
 * graphs. */
#include <limits.h>
#include <stdlib.h>

#include "soft/soft_api.h"
#include "soft/soft_enter.h"
#include "soft/soft_object.h"
#include "soft/soft_state.h"

/* Enters and finds the object. The limits of `count` are those of the real driver. */
static CUresult object_enter(CUuserObject object, unsigned count) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!object || !count || count > INT_MAX ||
        !acre__tree_find(&acre__soft.objects, (uint64_t)(uintptr_t)object))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult acre__soft_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                                       unsigned count, unsigned flags) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!object_out || !destroy || !count || count > INT_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct CUuserObject_st *object = calloc(1, sizeof *object);
    if (!object)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    object->node.key = (uint64_t)(uintptr_t)object;
    object->argument = ptr;
    object->destroy = destroy;
    object->owned = count;
    acre__tree_insert(&acre__soft.objects, &object->node);
    *object_out = object;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuUserObjectRetain(CUuserObject object, unsigned count) {
    CUresult result = object_enter(object, count);
    if (result)
        return result;
    object->owned += count;
    return acre__soft_leave(CUDA_SUCCESS);
}

/* Releasing or moving more references than the caller has is undefined in CUDA (an H200 accepts
 * it). The soft driver refuses it, also for graphs. */
CUresult acre__soft_cuUserObjectRelease(CUuserObject object, unsigned count) {
    CUresult result = object_enter(object, count);
    if (result)
        return result;
    if (object->owned < count)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    object->owned -= count;
    acre__soft_object_check(object);
    acre__soft_objects_settle();
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                            unsigned flags) {
    CUresult result = object_enter(object, count);
    if (result)
        return result;
    int is_moved = flags & CU_GRAPH_USER_OBJECT_MOVE;
    struct CUgraph_st *found = acre__soft_graph_find(graph);
    if (!found || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE ||
        (is_moved && object->owned < count))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_object_hold(found->work, object, count)))
        return acre__soft_leave(result);
    if (is_moved)
        object->owned -= count;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
    CUresult result = object_enter(object, count);
    if (result)
        return result;
    struct CUgraph_st *found = acre__soft_graph_find(graph);
    if (!found || !acre__soft_object_let_go(found->work, object, count))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    acre__soft_objects_settle();
    return acre__soft_leave(CUDA_SUCCESS);
}
