/* USDT probes, for bpftrace, perf and SystemTap: provider "acre". Where the build has no sys/sdt.h
 * (Debian package systemtap-sdt-dev) there are none. A probe that nobody uses is one no-op
 * instruction.
 *
 *   alloc(pool, address, bytes, stream)   a block was allocated from a pool
 *   free(address, stream)                 acre_pool_free or acre_free was called
 *   refuse(pool, bytes, status)           a pool cannot serve a request
 *   chunk_create(bytes), chunk_release(bytes)   physical memory */
#ifndef ACRE_WATCH_PROBES_H
#define ACRE_WATCH_PROBES_H

#if defined(ACRE_HAVE_SDT) && ACRE_HAVE_SDT
#include <sys/sdt.h>

#define acre__probe_alloc(pool, p, bytes, stream) DTRACE_PROBE4(acre, alloc, pool, p, bytes, stream)
#define acre__probe_free(p, stream) DTRACE_PROBE2(acre, free, p, stream)
#define acre__probe_refuse(pool, bytes, status) DTRACE_PROBE3(acre, refuse, pool, bytes, status)
#define acre__probe_chunk_create(bytes) DTRACE_PROBE1(acre, chunk_create, bytes)
#define acre__probe_chunk_release(bytes) DTRACE_PROBE1(acre, chunk_release, bytes)
#else
#define acre__probe_alloc(pool, p, bytes, stream) ((void)0)
#define acre__probe_free(p, stream) ((void)0)
#define acre__probe_refuse(pool, bytes, status) ((void)0)
#define acre__probe_chunk_create(bytes) ((void)0)
#define acre__probe_chunk_release(bytes) ((void)0)
#endif

#endif
