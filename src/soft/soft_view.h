/* Device memory at its own addresses (soft_view.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_VIEW_H
#define ACRE_SOFT_VIEW_H

#include "soft/soft_types.h"

/* Shows the mapping as it would have to be with this access; 0: the system refused, and it is as
 * before. */
int acre__soft_view_mapping(struct soft_mapping *mapping, const unsigned char *access,
                            unsigned host_access);
/* acre__soft_view_mapping for plain memory: a slab, or chunks of its own. */
int acre__soft_view_plain(struct soft_view *view, uint64_t address,
                          const struct soft_backing *backing);
/* acre__soft_view_mapping for memory of a pool. */
int acre__soft_view_segment(struct soft_segment *segment);
/* The addresses are bare again. 0: the system refused. */
int acre__soft_view_end(struct soft_view *view, uint64_t address, size_t bytes);
/* All views as they have to be now; 0: the system refused some. */
int acre__soft_views_update(void);
/* A kernel of the device begins, and ends. A refused open is to be closed too. */
int acre__soft_views_open(struct soft_device *device);
void acre__soft_views_close(struct soft_device *device);

#endif
