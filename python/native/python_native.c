/* What ctypes cannot do safely for the Python package: deleters of DLPack tensors, and callbacks of
 * acre's walks.
 *
 * A consumer may call a deleter in any thread, with or without the interpreter's lock, and also
 * when the interpreter ends; a callback made by ctypes would crash there. A walk holds a lock of
 * acre, and Python code under it could collect garbage and call acre again.
 *
 * The few functions of Python's stable ABI are declared here, so that the file needs no header of
 * Python, and one binary serves every version since 3.9. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "acre.h"
#include "acre_heap.h"

#define NATIVE_API __attribute__((visibility("default")))

/* ---- Python's stable ABI ---- */

typedef struct _object PyObject;
typedef void (*PyCapsule_Destructor)(PyObject *);

extern void Py_IncRef(PyObject *object);
extern void Py_DecRef(PyObject *object);
extern int Py_IsInitialized(void);
extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int state);
extern PyObject *PyErr_NoMemory(void);
extern PyObject *PyCapsule_New(void *pointer, const char *name, PyCapsule_Destructor destructor);
extern int PyCapsule_IsValid(PyObject *capsule, const char *name);
extern void *PyCapsule_GetPointer(PyObject *capsule, const char *name);
/* The first since Python 3.13, the second before. */
extern int Py_IsFinalizing(void) __attribute__((weak));
extern int _Py_IsFinalizing(void) __attribute__((weak));

static int is_ending(void) {
    if (!Py_IsInitialized())
        return 1;
    if (Py_IsFinalizing)
        return Py_IsFinalizing();
    return _Py_IsFinalizing ? _Py_IsFinalizing() : 0;
}

/* ---- DLPack (dlpack.h, version 1.0) ---- */

struct dl_device {
    int32_t type;
    int32_t id;
};

struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t ndim;
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
};

/* Before version 1.0, capsule "dltensor". */
struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
};

/* Since version 1.0, capsule "dltensor_versioned". */
struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags; /* 1: read-only, 2: a copy */
    struct dl_tensor tensor;
};

static const char *const plain_name = "dltensor";
static const char *const versioned_name = "dltensor_versioned";

/* When the interpreter ends, all objects go, and acre frees nothing at exit. */
static void drop(void *owner) {
    if (is_ending())
        return;
    int state = PyGILState_Ensure();
    Py_DecRef(owner);
    PyGILState_Release(state);
}

static void delete_plain(struct dl_managed *self) {
    drop(self->context);
    free(self);
}

static void delete_versioned(struct dl_versioned *self) {
    drop(self->context);
    free(self);
}

/* A consumer renames the capsule that it takes; the tensor of any other goes with it. */
static void capsule_end(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, plain_name))
        delete_plain(PyCapsule_GetPointer(capsule, plain_name));
    else if (PyCapsule_IsValid(capsule, versioned_name))
        delete_versioned(PyCapsule_GetPointer(capsule, versioned_name));
}

/* What Python fills in. */
struct acre_python_tensor {
    void *data;
    int32_t device_type, device_id;
    uint32_t code, bits;
    int32_t ndim;
    uint32_t is_versioned;
    const int64_t *shape;
};

static void tensor_fill(struct dl_tensor *tensor, const struct acre_python_tensor *from,
                        int64_t *room) {
    *tensor = (struct dl_tensor){.data = from->data,
                                 .device = {from->device_type, from->device_id},
                                 .ndim = from->ndim,
                                 .code = (uint8_t)from->code,
                                 .bits = (uint8_t)from->bits,
                                 .lanes = 1,
                                 .shape = room,
                                 .strides = room + from->ndim};
    int64_t stride = 1;
    for (int32_t i = from->ndim - 1; i >= 0; i--) {
        tensor->shape[i] = from->shape[i];
        tensor->strides[i] = stride;
        stride *= from->shape[i];
    }
}

/* Returns a capsule whose tensor keeps `owner` alive. Call it with the interpreter's lock held. */
NATIVE_API PyObject *acre_python_capsule(PyObject *owner, const struct acre_python_tensor *from);
NATIVE_API PyObject *acre_python_capsule(PyObject *owner, const struct acre_python_tensor *from) {
    size_t dims = 2 * (size_t)from->ndim * sizeof(int64_t);
    size_t head = from->is_versioned ? sizeof(struct dl_versioned) : sizeof(struct dl_managed);
    void *made = calloc(1, head + dims);
    if (!made)
        return PyErr_NoMemory();
    int64_t *room = (int64_t *)((char *)made + head);
    if (from->is_versioned) {
        struct dl_versioned *versioned = made;
        versioned->major = 1;
        versioned->context = owner;
        versioned->deleter = delete_versioned;
        tensor_fill(&versioned->tensor, from, room);
    } else {
        struct dl_managed *managed = made;
        managed->context = owner;
        managed->deleter = delete_plain;
        tensor_fill(&managed->tensor, from, room);
    }
    const char *name = from->is_versioned ? versioned_name : plain_name;
    PyObject *capsule = PyCapsule_New(made, name, capsule_end);
    if (!capsule) {
        free(made);
        return NULL;
    }
    Py_IncRef(owner);
    return capsule;
}

/* ---- walks ---- */

enum { NAME_BYTES = 64 };

/* The items of a walk, as bytes. Python frees `items` with acre_python_end. */
struct acre_python_items {
    void *items;
    size_t used, room; /* bytes */
    int is_short;      /* out of host memory */
};

static int add(struct acre_python_items *all, const void *item, size_t bytes) {
    if (all->used + bytes > all->room) {
        size_t room = all->room ? 2 * all->room : 4096;
        void *items = realloc(all->items, room);
        if (!items) {
            all->is_short = 1;
            return 1;
        }
        all->items = items;
        all->room = room;
    }
    memcpy((char *)all->items + all->used, item, bytes);
    all->used += bytes;
    return 0;
}

NATIVE_API void acre_python_end(struct acre_python_items *all);
NATIVE_API void acre_python_end(struct acre_python_items *all) {
    free(all->items);
    memset(all, 0, sizeof *all);
}

NATIVE_API int acre_python_pool(void *user, void *p, size_t bytes);
NATIVE_API int acre_python_pool(void *user, void *p, size_t bytes) {
    uint64_t item[2] = {(uintptr_t)p, bytes};
    return add(user, item, sizeof item);
}

NATIVE_API int acre_python_heap(void *user, const acre_heap_block *block);
NATIVE_API int acre_python_heap(void *user, const acre_heap_block *block) {
    return add(user, block, sizeof *block);
}

NATIVE_API int acre_python_range(void *user, const acre_range_part *part);
NATIVE_API int acre_python_range(void *user, const acre_range_part *part) {
    return add(user, part, sizeof *part);
}

/* Paths of tags are valid until the process ends. */
NATIVE_API int acre_python_tag(void *user, const acre_tag_info *info);
NATIVE_API int acre_python_tag(void *user, const acre_tag_info *info) {
    return add(user, info, sizeof *info);
}

/* A name is valid only here, so that it is copied behind the struct. */
NATIVE_API int acre_python_plan(void *user, const acre_plan_placed *wish);
NATIVE_API int acre_python_plan(void *user, const acre_plan_placed *wish) {
    struct {
        acre_plan_placed placed;
        char name[NAME_BYTES];
    } item = {.placed = *wish};
    strncpy(item.name, wish->name, NAME_BYTES - 1);
    item.placed.name = NULL;
    return add(user, &item, sizeof item);
}
