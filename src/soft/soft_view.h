/* Views: device memory mapped at its device addresses (soft_view.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_VIEW_H
#define ACRE_SOFT_VIEW_H

#include "soft/soft_types.h"

/* Updates the view of the mapping for this access. Returns 0 if the system refused; the view is
 * then unchanged. */
int acre__soft_view_mapping(struct soft_mapping *mapping, const unsigned char *access,
                            unsigned host_access);
/* Updates the view of plain memory: a slab, or an allocation with its own chunks. */
int acre__soft_view_plain(struct soft_view *view, uint64_t address,
                          const struct soft_backing *backing);
/* Updates the view of a pool's segment. */
int acre__soft_view_segment(struct soft_segment *segment);
/* Removes the view: the addresses are PROT_NONE without memory again. Returns 0 if the system
 * refused. */
int acre__soft_view_end(struct soft_view *view, uint64_t address, size_t bytes);
/* Updates all views. Returns 0 if the system refused some. */
int acre__soft_views_update(void);
/* Called when a kernel of the device begins, and when it ends. A failed open needs a close, too. */
int acre__soft_views_open(struct soft_device *device);
void acre__soft_views_close(struct soft_device *device);

#endif
