/* The book of blocks: what acre handed out, by address, for the whole process.
 *
 * Whoever hands out memory enters it here, so that any address can be told apart: memory of acre,
 * memory the program got from the driver itself, or pageable memory. Addresses of all devices are
 * distinct, so one tree serves all of them. One lock guards it, held for a lookup only. */
#ifndef ACRE_SPACE_BOOK_H
#define ACRE_SPACE_BOOK_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "base/tree.h"
#include "device/limbo.h"

/* Where a block's memory comes from, and so how it is given back. */
enum acre__source {
    ACRE__FROM_DRIVER_DEVICE,  /* cuMemAlloc */
    ACRE__FROM_DRIVER_HOST,    /* cuMemHostAlloc */
    ACRE__FROM_DRIVER_MANAGED, /* cuMemAllocManaged */
    ACRE__FROM_PAGES,          /* our own pages, registered (host_pages.h) */
    ACRE__FROM_PROGRAM,        /* the program's pages, registered */
    ACRE__FROM_SPACE           /* chunks (extent.h) */
};

/* Which object handed it out, and so which call ends it. */
enum acre__owned_by {
    ACRE__OWNED_BY_MEM,     /* acre_mem_free */
    ACRE__OWNED_BY_PROGRAM, /* acre_mem_unregister */
    ACRE__OWNED_BY_VEC,     /* acre_vec_destroy */
    ACRE__OWNED_BY_IMPORT,  /* acre_import_close */
    ACRE__OWNED_BY_POOL,    /* acre_pool_free, for its parts */
    ACRE__OWNED_BY_HEAP,    /* acre_heap_destroy; its parts by acre_heap_free, inside kernels */
    ACRE__OWNED_BY_PLAN     /* acre_plan_destroy */
};

struct acre__extent;

/* A block. Its owner allocates it, with everything needed to give it back. */
struct acre__block {
    struct acre__limbo_item item;
    struct acre__node node; /* key: first address */
    acre_device *dev;
    size_t bytes;       /* as asked for */
    size_t whole_bytes; /* of the pages behind it, where they are registered */
    acre_kind kind;
    uint32_t flags;
    enum acre__source source;
    enum acre__owned_by owner;
    struct acre__extent *extent; /* its chunks, with ACRE__FROM_SPACE; else NULL */
    acre_pool *pool;             /* with ACRE__OWNED_BY_POOL, if it is known */
    unsigned pins;               /* who shares it; the block stays meanwhile */
    int is_entered;              /* it is in the book */
    int is_held;                 /* somebody changes it: it has that one pin and gets no other */
};

/* 0 if some of [address, address + bytes) is in the book already. */
int acre__book_add(struct acre__block *block);

/* ACRE_E_KIND, with the call that ends it in the detail, if the address is another owner's. */
acre_status acre__book_check_owner(const void *p, enum acre__owned_by owner);

/* Takes a block out by its first address, if it belongs to `dev` and to that owner and has no pins.
 * Otherwise NULL and *status, with a detail: POINTER, INTERIOR, HANDLE, KIND or BUSY. */
struct acre__block *acre__book_remove(acre_device *dev, const void *p, enum acre__owned_by owner,
                                      acre_status *status);

/* Takes some block of the device and owner out, for a device that ends, pins or not; NULL when
 * there is none left. */
struct acre__block *acre__book_remove_any(const acre_device *dev, enum acre__owned_by owner);

/* The same checks, but the block stays in the book, pinned by who changes it. */
struct acre__block *acre__book_hold(acre_device *dev, const void *p, enum acre__owned_by owner,
                                    acre_status *status);

/* Takes a block out that the caller holds. */
void acre__book_remove_held(struct acre__block *block);

/* The block that begins at `p`, kept until it is unpinned; NULL and *status (POINTER, INTERIOR,
 * HANDLE, BUSY while it is held) otherwise. */
struct acre__block *acre__book_pin(acre_device *dev, const void *p, acre_status *status);
void acre__book_unpin(struct acre__block *block);

/* Another object ends it from now on. */
void acre__book_pass_on(struct acre__block *block, enum acre__owned_by owner);

/* A block gets another size, or place and size; addresses that nobody else has, or 0: it has none,
 * and is not in the book meanwhile. */
void acre__book_change(struct acre__block *block, uint64_t address, size_t bytes);

/* Adds the device's blocks, bytes and registrations to the statistics. */
void acre__book_count(const acre_device *dev, acre_device_stats *stats);

/* Bytes of the device's memory in blocks that came from the driver one by one, and are no pool's.
 */
uint64_t acre__book_driver_bytes(const acre_device *dev);

/* Who describes the blocks inside a pool's memory: called without locks, with what the book says of
 * the memory itself. `pool` may be NULL, and may have ended. */
typedef void (*acre__book_parts_fn)(const void *p, acre_pool *pool, acre_mem_info *info);
void acre__book_set_parts(acre__book_parts_fn fn);

/* What the book knows about an address; 0 when it is not in it. struct_size is set. */
int acre__book_find(const void *p, acre_mem_info *info);

/* 1 if the address is in a block made of chunks: host and device then have one address for it. */
int acre__book_is_mapped(const void *p);

/* Bytes from an address outside the book to the next block in it; SIZE_MAX if there is none. */
size_t acre__book_gap(const void *p);

/* What an address is: from the book, else as `dev`'s driver sees it. struct_size is set. */
acre_status acre__book_look(acre_device *dev, const void *p, acre_mem_info *info);

/* The rest of the block from `p` on; SIZE_MAX for pageable memory, whose end nobody knows. */
size_t acre__book_room(const acre_mem_info *info, const void *p);

#endif
