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
#include "driver/limbo.h"

/* Where a block's memory comes from, and so how it is given back. */
enum acre__source {
    ACRE__FROM_DRIVER_DEVICE,  /* cuMemAlloc */
    ACRE__FROM_DRIVER_HOST,    /* cuMemHostAlloc */
    ACRE__FROM_DRIVER_MANAGED, /* cuMemAllocManaged */
    ACRE__FROM_PAGES,          /* our own pages, registered (host_pages.h) */
    ACRE__FROM_PROGRAM         /* the program's pages, registered */
};

/* A block. Its owner allocates it, with everything needed to give it back. */
struct acre__block {
    struct acre__node node; /* key: first address */
    struct acre__limbo_item item;
    acre_device *dev;
    size_t bytes;       /* as asked for */
    size_t whole_bytes; /* of the pages behind it, where they are ours */
    acre_kind kind;
    uint32_t flags;
    enum acre__source source;
};

/* 0 if some of [address, address + bytes) is in the book already. */
int acre__book_add(struct acre__block *block);

/* Takes a block out by its first address, if it belongs to `dev` and, for ACRE__FROM_PROGRAM, was
 * registered, or was not, as `is_registered` says. Otherwise NULL and *status, with a detail:
 * POINTER, INTERIOR, HANDLE or KIND. */
struct acre__block *acre__book_remove(acre_device *dev, const void *p, int is_registered,
                                      acre_status *status);

/* Takes some block of the device out, for a device that ends; NULL when there is none left. */
struct acre__block *acre__book_remove_any(const acre_device *dev);

/* Adds the device's blocks, bytes and registrations to the statistics. */
void acre__book_count(const acre_device *dev, acre_stats *stats);

/* What the book knows about an address; 0 when it is not in it. struct_size is set. */
int acre__book_find(const void *p, acre_mem_info *info);

/* Bytes from an address outside the book to the next block in it; SIZE_MAX if there is none. */
size_t acre__book_gap(const void *p);

/* What an address is: from the book, else as `dev`'s driver sees it. struct_size is set. */
acre_status acre__book_look(acre_device *dev, const void *p, acre_mem_info *info);

/* The rest of the block from `p` on; SIZE_MAX for pageable memory, whose end nobody knows. */
size_t acre__book_room(const acre_mem_info *info, const void *p);

#endif
