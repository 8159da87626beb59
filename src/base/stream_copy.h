/* A copy for memory that is not read again soon: the destination bypasses the caches. */
#ifndef ACRE_BASE_STREAM_COPY_H
#define ACRE_BASE_STREAM_COPY_H

#include <stddef.h>

/* As memcpy. An ordinary store reads its cache line before it writes it. Non-temporal stores skip
 * that read, which saves a third of the traffic for a destination that is in no cache. Processors
 * without SSE2 use memcpy. */
void acre__stream_copy(void *to, const void *from, size_t bytes);

#endif
