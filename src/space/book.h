/* The book of blocks: all blocks that acre allocated, by address, for the whole process.
 *
 * Every layer that allocates memory registers its blocks here. So any address can be classified:
 * memory of acre, memory that the program got from the driver, or pageable memory. Addresses of all
 * devices are distinct, so one tree serves all of them. One lock guards the tree, held for a lookup
 * only. */
#ifndef ACRE_SPACE_BOOK_H
#define ACRE_SPACE_BOOK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "base/tree.h"
#include "device/limbo.h"

/* Source of a block's memory, which determines how it is released. */
enum acre__source {
    ACRE__FROM_DRIVER_DEVICE,  /* cuMemAlloc */
    ACRE__FROM_DRIVER_HOST,    /* cuMemHostAlloc */
    ACRE__FROM_DRIVER_MANAGED, /* cuMemAllocManaged */
    ACRE__FROM_PAGES,          /* acre's own pages, registered (host_pages.h) */
    ACRE__FROM_PROGRAM,        /* the program's pages, registered */
    ACRE__FROM_SPACE           /* chunks (extent.h) */
};

/* Owner of a block, which determines the call that frees it. */
enum acre__owned_by {
    ACRE__OWNED_BY_MEM,     /* acre_mem_free */
    ACRE__OWNED_BY_PROGRAM, /* acre_mem_unregister */
    ACRE__OWNED_BY_VEC,     /* acre_vec_destroy */
    ACRE__OWNED_BY_IMPORT,  /* acre_import_close */
    ACRE__OWNED_BY_POOL,    /* acre_pool_free, for the blocks inside */
    ACRE__OWNED_BY_HEAP,    /* acre_heap_destroy; blocks inside by acre_heap_free, in kernels */
    ACRE__OWNED_BY_PLAN,    /* acre_plan_destroy */
    ACRE__OWNED_BY_RANGE,   /* acre_range_destroy */
    ACRE__OWNED_BY_SPILL    /* acre_pool_free: a spillable block */
};

struct acre__extent;

/* A block. Its owner allocates this record, with everything needed to release the block. */
struct acre__block {
    struct acre__limbo_item item;
    struct acre__node node; /* key: first address */
    acre_device *dev;
    size_t bytes;       /* bytes requested */
    size_t whole_bytes; /* bytes of its pages, if they are registered */
    acre_kind kind;
    uint32_t flags;
    enum acre__source source;
    enum acre__owned_by owner;
    struct acre__extent *extent;  /* its chunks, for ACRE__FROM_SPACE; else NULL */
    acre_pool *pool;              /* for ACRE__OWNED_BY_POOL, if known; for ACRE__OWNED_BY_SPILL */
    acre_range *range;            /* for ACRE__OWNED_BY_RANGE, whose `bytes` are addresses */
    _Atomic uint64_t range_bytes; /* and how many of them have memory */
    unsigned pins;                /* number of objects that share it and keep it in the book */
    int is_entered;               /* 1: in the book */
    int is_held;                  /* 1: being changed; it has that one pin and gets no other */
};

/* Adds a block. Returns 0 if the book already has part of its address range. */
int acre__book_add(struct acre__block *block);

/* Returns ACRE_E_KIND if the address belongs to another owner; the detail names the call that frees
 * it. */
acre_status acre__book_check_owner(const void *p, enum acre__owned_by owner);

/* Removes a block by its first address, if it belongs to `dev` and to that owner and has no pins.
 * Otherwise returns NULL and sets *status, with a detail: POINTER, INTERIOR, HANDLE, KIND or
 * BUSY. */
struct acre__block *acre__book_remove(acre_device *dev, const void *p, enum acre__owned_by owner,
                                      acre_status *status);

/* Removes any one block of a device that is closing and of that owner, pinned or not; NULL when
 * none is left. */
struct acre__block *acre__book_remove_any(const acre_device *dev, enum acre__owned_by owner);

/* Checks as acre__book_remove, but keeps the block in the book and pins it for the caller, which
 * changes it. */
struct acre__block *acre__book_hold(acre_device *dev, const void *p, enum acre__owned_by owner,
                                    acre_status *status);

/* Removes a block that the caller holds. */
void acre__book_remove_held(struct acre__block *block);

/* Pins the block that begins at `p`, which keeps it in the book until it is unpinned. On failure
 * returns NULL and sets *status: POINTER, INTERIOR, HANDLE, or BUSY while the block is held. */
struct acre__block *acre__book_pin(acre_device *dev, const void *p, acre_status *status);
void acre__book_unpin(struct acre__block *block);

/* Changes the owner of a block. */
void acre__book_pass_on(struct acre__block *block, enum acre__owned_by owner);

/* Changes the size of a block, or its address and size. No other block may have part of the new
 * range. Address 0: the block has no memory and leaves the book. */
void acre__book_change(struct acre__block *block, uint64_t address, size_t bytes);

/* Records that memory of acre which is not in the book was freed. */
void acre__book_note_freed(const void *p, size_t bytes);

/* Adds the device's blocks, bytes and registrations to the statistics. */
void acre__book_count(const acre_device *dev, acre_device_stats *stats);

/* Calls `fn` for every block of the device, or of all devices (NULL), with the book's lock held. */
void acre__book_visit(const acre_device *dev, void (*fn)(void *user, const struct acre__block *),
                      void *user);

/* Bytes of device memory in blocks of acre_mem_alloc that come from cuMemAlloc, outside of
 * pools. */
uint64_t acre__book_driver_bytes(const acre_device *dev);

/* Sets the function that describes blocks inside a pool's memory. It is called without the book's
 * lock, with `info` filled in for the whole memory. `pool` may be NULL or already destroyed. */
typedef void (*acre__book_parts_fn)(const void *p, acre_pool *pool, acre_mem_info *info);
void acre__book_set_parts(acre__book_parts_fn fn);

/* Sets the function that describes the committed pieces around an address of a range. Called as
 * acre__book_parts_fn; returns 0 if the address is in no committed piece. */
typedef int (*acre__book_range_fn)(const void *p, acre_range *range, acre_mem_info *info);
void acre__book_set_range(acre__book_range_fn fn);

/* What the book has at an address. */
enum acre__found {
    ACRE__FOUND_NONE, /* nothing */
    ACRE__FOUND_LIVE, /* a block */
    ACRE__FOUND_IDLE, /* memory of a pool, but no live block */
    ACRE__FOUND_HOLE  /* addresses of a range, but no committed piece */
};

/* Looks an address up in the book and fills in `info`. struct_size is set. */
enum acre__found acre__book_find(const void *p, acre_mem_info *info);

/* 1 if no byte of a range outside the book is in a block, or in memory that acre freed. */
int acre__book_is_clear(const void *p, size_t bytes);

/* 1 if the address is in a block that consists of chunks: host and device then use the same
 * address. */
int acre__book_is_mapped(const void *p);

/* Bytes from an address that is not in the book to the next block in it; SIZE_MAX if there is
 * none. */
size_t acre__book_gap(const void *p);

/* Classifies an address: from the book, else by `dev`'s driver. struct_size is set. */
acre_status acre__book_look(acre_device *dev, const void *p, acre_mem_info *info);

/* As acre__book_look, for `bytes` bytes that a call is about to use; returns ACRE_E_POINTER if acre
 * freed some of them. `which` names them in the detail. */
acre_status acre__book_look_live(acre_device *dev, const void *p, size_t bytes, const char *which,
                                 acre_mem_info *info);

/* While allowed, copies and fills of the calling thread may use memory of pools outside live
 * blocks: for pools that check their free blocks. */
void acre__book_allow_idle(int is_allowed);
int acre__book_idle_is_allowed(void);

/* Bytes from `p` to the end of its block; SIZE_MAX for pageable memory, whose end is unknown. */
size_t acre__book_room(const acre_mem_info *info, const void *p);

#endif
