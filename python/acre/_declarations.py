"""The C API for ctypes: constants, structs, callbacks and functions.

Generated from include/acre.h, include/acre/heap/host.h and include/acre/soft.h by
scripts/python-declarations; do not edit. Handles are c_void_p, and enums are c_int.
"""

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)

ACRE_OK = 0
ACRE_E_INVALID = -1
ACRE_E_NULL = -2
ACRE_E_HANDLE = -3
ACRE_E_OPTIONS = -4
ACRE_E_CONFIG = -5
ACRE_E_NO_DRIVER = -6
ACRE_E_DRIVER_OLD = -7
ACRE_E_NO_DEVICE = -8
ACRE_E_DEVICE_LOST = -9
ACRE_E_FORKED = -10
ACRE_E_HOST_MEMORY = -11
ACRE_E_DEVICE_MEMORY = -12
ACRE_E_ADDRESS_SPACE = -13
ACRE_E_BUSY = -14
ACRE_E_NOT_READY = -15
ACRE_E_CAPTURING = -16
ACRE_E_UNSUPPORTED = -17
ACRE_E_SYSTEM = -18
ACRE_E_DRIVER = -19
ACRE_E_POINTER = -20
ACRE_E_INTERIOR = -21
ACRE_E_KIND = -22
ACRE_E_RANGE = -23
ACRE_E_OVERLAP = -24
ACRE_E_DIRECTION = -25
ACRE_E_REGISTERED = -26
ACRE_E_LIMIT = -27
ACRE_E_PEER = -28
ACRE_E_PROTOCOL = -29
ACRE_E_GONE = -30
ACRE_E_COMMITTED = -31
ACRE_E_SUSPENDED = -32
ACRE_LOG_ERROR = 1
ACRE_LOG_WARN = 2
ACRE_LOG_INFO = 3
ACRE_LOG_DEBUG = 4
ACRE_KIND_DEVICE = 1
ACRE_KIND_PINNED = 2
ACRE_KIND_MAPPED = 3
ACRE_KIND_MANAGED = 4
ACRE_KIND_PAGEABLE = 5
ACRE_ACCESS_NONE = 0
ACRE_ACCESS_READ = 1
ACRE_ACCESS_READ_WRITE = 3
ACRE_ADVICE_READ_MOSTLY = 1
ACRE_ADVICE_NOT_READ_MOSTLY = 2
ACRE_ADVICE_PREFER = 3
ACRE_ADVICE_NOT_PREFER = 4
ACRE_ADVICE_ACCESSED_BY = 5
ACRE_ADVICE_NOT_ACCESSED_BY = 6
ACRE_HOST_TO_HOST = 1
ACRE_HOST_TO_DEVICE = 2
ACRE_DEVICE_TO_HOST = 3
ACRE_DEVICE_TO_DEVICE = 4
ACRE_OOM_TEXT = 0
ACRE_OOM_JSON = 1
ACRE_VEC_AUTO = 0
ACRE_VEC_VMM = 1
ACRE_VEC_COPY = 2
ACRE_VEC_MANAGED = 3
ACRE_SUSPEND_KEEP = 0
ACRE_SUSPEND_FILE = 1
ACRE_SUSPEND_DROP = 2
ACRE_SUSPEND_STAY = 3
ACRE_SUSPEND_WAIT = 1
ACRE_SUSPEND_RETAIN = 2
ACRE_HEAP_CLASSES = 22
ACRE_HEAP_LARGE_CLASSES = 9
ACRE_ATTACH_GLOBAL = 1
ACRE_ATTACH_HOST = 2
ACRE_ATTACH_SINGLE = 4
ACRE_EVENT_DEFAULT = 0
ACRE_EVENT_TIMING = 1
ACRE_HEAP_BLOCK_MARKED = 1
ACRE_HEAP_BLOCK_OVERRUN = 2
ACRE_HEAP_NO_SERVICE = 1
ACRE_MEM_ATTACH_HOST = 4
ACRE_MEM_PORTABLE = 1
ACRE_MEM_READ_ONLY = 8
ACRE_MEM_WRITE_COMBINED = 2
ACRE_OPEN_NO_SOFT = 1
ACRE_PLACE_DEVICE = 0
ACRE_PLACE_HOST = 1
ACRE_PLAN_ADJACENT = 1
ACRE_PLAN_AS_NEEDED = 18446744073709551615
ACRE_PLAN_DEFERRED = 1
ACRE_POOL_DEBUG = 2
ACRE_POOL_ZERO = 1
ACRE_SHARE_READ_ONLY = 1
ACRE_STREAM_DEFAULT = 0
ACRE_STREAM_NON_BLOCKING = 1
ACRE_STREAM_NO_CAPTURE = 2
ACRE_TRACE_RING = 1
ACRE_VEC_RDMA = 2
ACRE_VEC_SHAREABLE = 1
ACRE_VERSION_MAJOR = 0
ACRE_VERSION_MINOR = 3
ACRE_VERSION_PATCH = 0
ACRE_VM_HOST = 1
ACRE_VM_RDMA = 4
ACRE_VM_SHAREABLE = 2
ACRE_WISH_FIXED = 2
ACRE_WISH_STEPS = 1

ENUMS = {
    "acre_status": [
        "ACRE_OK", "ACRE_E_INVALID", "ACRE_E_NULL", "ACRE_E_HANDLE", "ACRE_E_OPTIONS", "ACRE_E_CONFIG",
        "ACRE_E_NO_DRIVER", "ACRE_E_DRIVER_OLD", "ACRE_E_NO_DEVICE", "ACRE_E_DEVICE_LOST", "ACRE_E_FORKED",
        "ACRE_E_HOST_MEMORY", "ACRE_E_DEVICE_MEMORY", "ACRE_E_ADDRESS_SPACE", "ACRE_E_BUSY", "ACRE_E_NOT_READY",
        "ACRE_E_CAPTURING", "ACRE_E_UNSUPPORTED", "ACRE_E_SYSTEM", "ACRE_E_DRIVER", "ACRE_E_POINTER",
        "ACRE_E_INTERIOR", "ACRE_E_KIND", "ACRE_E_RANGE", "ACRE_E_OVERLAP", "ACRE_E_DIRECTION", "ACRE_E_REGISTERED",
        "ACRE_E_LIMIT", "ACRE_E_PEER", "ACRE_E_PROTOCOL", "ACRE_E_GONE", "ACRE_E_COMMITTED", "ACRE_E_SUSPENDED",
    ],
    "acre_log_level": ["ACRE_LOG_ERROR", "ACRE_LOG_WARN", "ACRE_LOG_INFO", "ACRE_LOG_DEBUG"],
    "acre_kind": [
        "ACRE_KIND_DEVICE", "ACRE_KIND_PINNED", "ACRE_KIND_MAPPED", "ACRE_KIND_MANAGED", "ACRE_KIND_PAGEABLE",
    ],
    "acre_access": ["ACRE_ACCESS_NONE", "ACRE_ACCESS_READ", "ACRE_ACCESS_READ_WRITE"],
    "acre_advice": [
        "ACRE_ADVICE_READ_MOSTLY", "ACRE_ADVICE_NOT_READ_MOSTLY", "ACRE_ADVICE_PREFER", "ACRE_ADVICE_NOT_PREFER",
        "ACRE_ADVICE_ACCESSED_BY", "ACRE_ADVICE_NOT_ACCESSED_BY",
    ],
    "acre_direction": [
        "ACRE_HOST_TO_HOST", "ACRE_HOST_TO_DEVICE", "ACRE_DEVICE_TO_HOST", "ACRE_DEVICE_TO_DEVICE",
    ],
    "acre_oom_format": ["ACRE_OOM_TEXT", "ACRE_OOM_JSON"],
    "acre_vec_strategy": ["ACRE_VEC_AUTO", "ACRE_VEC_VMM", "ACRE_VEC_COPY", "ACRE_VEC_MANAGED"],
    "acre_suspend_how": [
        "ACRE_SUSPEND_KEEP", "ACRE_SUSPEND_FILE", "ACRE_SUSPEND_DROP", "ACRE_SUSPEND_STAY",
    ],
}

# What each statistic means.
MEANINGS = {
    "acre_device_stats": {
        "streams_live": "streams created by acre that exist now",
        "events_live": "events created by acre that exist now",
        "streams_created": "streams created by acre",
        "events_created": "events created by acre",
        "driver_refusals": "driver calls that failed",
        "limbo_count": "frees that the driver refused and that wait for acre_trim now",
        "limbo_retired": "refused frees that succeeded later",
        "trims": "calls of acre_trim",
        "mem_blocks": "blocks of acre_mem_alloc that are live now",
        "mem_bytes": "bytes requested for the live blocks of acre_mem_alloc, now",
        "mem_registered": "registrations of acre_mem_register that exist now",
        "copies_direct": "copies passed to the driver as they are",
        "copies_staged": "copies of pageable memory that acre staged through pinned buffers",
        "staging_bytes": "pinned memory of the staging buffers now",
        "chunks": "chunks of physical memory that exist now",
        "chunk_bytes": "bytes of all chunks now, cached ones included",
        "chunk_cached_bytes": "bytes of unused chunks, cached for the next request, now",
        "chunks_created": "chunks created",
        "address_bytes": "virtual addresses reserved from the driver now",
        "vecs": "vecs that exist now",
        "vec_moves": "times that a growing vec or block was mapped at another address",
        "grow_copied_bytes": "bytes copied because a vec or a block grew",
        "shares": "shares that are open now",
        "imports": "imports that are open now",
        "driver_creates": "calls of cuMemCreate on all devices of the driver, since the process began",
        "driver_maps": "calls of cuMemMap on all devices of the driver, since the process began",
        "driver_accesses": "calls of cuMemSetAccess on all devices of the driver, since the process began",
        "driver_unmaps": "calls of cuMemUnmap on all devices of the driver, since the process began",
        "driver_releases": "calls of cuMemRelease on all devices of the driver, since the process began",
        "driver_allocs": "calls of cuMemAlloc on all devices of the driver, since the process began",
        "chunk_created_bytes": "bytes of all chunks created",
        "chunk_released_bytes": "bytes of all chunks released",
        "ranges": "sparse ranges that exist now",
        "range_bytes": "bytes of committed pieces of ranges now",
        "range_idle_bytes": "bytes of decommitted pieces that are still mapped now",
        "suspended_bytes": "bytes of suspended memory now, which the device does not hold",
        "streams_parked": "destroyed streams that acre keeps for acre_stream_create, now",
        "held_bytes": "device memory that acre holds now, as limit_bytes counts it",
        "limit_bytes": "limit of acre_device_set_limits; 0: none",
        "margin_bytes": "margin of acre_device_set_limits; 0: none",
    },
    "acre_pool_stats": {
        "live_blocks": "live blocks now, without spillable ones that are away",
        "live_bytes": "bytes of live blocks now, after rounding",
        "held_bytes": "physical memory that the pool holds now",
        "refills": "times that a thread took memory from the pool because its cache had none",
        "spills": "times that a thread's cache returned blocks to the pool",
        "events": "events recorded after frees; one event covers a batch of frees",
        "waits": "waits inserted into a stream so that it can reuse memory of another stream",
        "overruns": "blocks written past their end (ACRE_POOL_DEBUG)",
        "late_writes": "blocks written after they were freed (ACRE_POOL_DEBUG)",
        "used_bytes": "bytes of live and cached blocks now, which the limits apply to",
        "soft_limit_bytes": "the soft limit; 0: none",
        "limit_bytes": "the limit; 0: none",
        "over_soft": "times that the pool released memory because the soft limit was exceeded",
        "served_caches": "requests served after emptying threads' caches",
        "served_done": "requests served from memory that other streams had finished with",
        "served_moved": "requests served after remapping free memory of the pool",
        "served_behind": "requests served from memory of another stream, after inserting a wait",
        "served_pools": "requests served from free memory of other pools",
        "served_callback": "requests served after the callback freed memory",
        "served_waiting": "requests served after waiting on the host",
        "refused": "requests that failed because no step served them",
        "moved_chunks": "chunks mapped elsewhere, or released so that others could be mapped",
        "held_peak_bytes": "high-water mark of held_bytes",
        "served_spill": "requests served after spillable blocks left the device",
        "spillable_bytes": "bytes of live spillable blocks now, on the device or away",
        "away_bytes": "bytes of them that are away now",
        "left_blocks": "times that a spillable block left the device",
        "left_bytes": "bytes that left with them",
        "brought_blocks": "times that acre_bring brought a block back",
        "brought_bytes": "bytes that came back with them",
        "spill_wait_ns": "time that blocks which left waited for work of the device",
        "spill_copy_ns": "time that copying and unmapping them took",
    },
    "acre_range_stats": {
        "committed_bytes": "bytes of committed pieces now",
        "idle_bytes": "bytes of decommitted pieces that are still mapped now",
        "peak_bytes": "most memory that committed and idle pieces had together",
        "limit_bytes": "limit of the budget now; 0: none",
        "address_bytes": "reserved addresses now",
        "ranges": "ranges that use the budget now",
        "commits": "calls of acre_range_commit that succeeded",
        "decommits": "calls of acre_range_decommit that succeeded",
        "pieces_reused": "pieces that were still mapped when they were committed",
        "pieces_mapped": "pieces that acre mapped when they were committed",
        "pieces_moved": "idle pieces unmapped because a commit needed their memory",
        "pieces_trimmed": "idle pieces unmapped by trim, or because others needed memory",
        "stream_waits": "commits that made their stream wait for work on another one",
        "host_waits": "times that a commit waited on the host for work that used idle pieces",
    },
    "acre_suspend_info": {
        "released_bytes": "device memory that left",
        "kept_bytes": "contents kept",
        "copied_bytes": "contents copied from the device; the rest was unchanged",
        "dropped_bytes": "contents of live blocks and objects that were dropped",
        "host_bytes": "host memory that holds contents",
        "file_bytes": "file that holds contents",
        "stayed_bytes": "device memory of acre that stayed, because a rule says so or a block beside it in the same physical memory stays",
    },
    "acre_plan_stats": {
        "device_bytes": "device memory that the plan holds now",
        "host_bytes": "host memory that the plan holds now",
        "device_used_bytes": "device memory from the start of the arena to the end of its contents",
        "host_used_bytes": "host memory from the start of the arena to the end of its contents",
        "device_wanted_bytes": "bytes of this round's requests for the device",
        "host_wanted_bytes": "bytes of this round's requests for the host",
        "device_bound_bytes": "lower bound of any placement on the device; 0 before a commit of requests with steps",
        "host_bound_bytes": "lower bound of any placement on the host; 0 before a commit of requests with steps",
        "wishes": "requests of this round",
        "waiting": "requests of this round that are not placed yet",
        "is_committed": "1: the plan is committed",
        "is_optimal": "1: commit has proven that no placement uses less memory",
        "nodes": "search nodes of all placements since the plan was created",
        "rounds": "calls of acre_plan_release",
        "waits": "times that the host waited for the work of an earlier round",
        "steps": "steps of loops that have ended",
        "recorded": "allocations of the recorded step",
        "loop_bytes": "memory that serves the loop, on device and host together",
        "loop_bound_bytes": "lower bound of the memory that any plan of the loop needs",
        "hits": "allocations of steps that the plan served",
        "misses": "allocations after the recorded step that a pool served",
        "pool_calls": "allocations and frees of steps that went to a pool",
    },
    "acre_heap_stats": {
        "mapped_bytes": "memory for blocks that is mapped now",
        "record_bytes": "memory for bookkeeping that is mapped now",
        "limit_bytes": "the limit",
        "live_blocks": "live blocks now",
        "live_bytes": "bytes of live blocks now, after rounding",
        "peak_bytes": "highest live_bytes that acre_heap_get_stats or acre_heap_reset has seen",
        "free_bytes": "bytes of pages that belong to no block and no slab now",
        "failed": "requests that returned NULL",
        "failed_bytes": "bytes of the requests that returned NULL",
        "bad_alignment": "requests with an invalid alignment",
        "double_frees": "frees of memory that was already free",
        "foreign_frees": "frees of addresses outside the heap",
        "interior_frees": "frees of addresses inside a block",
        "grows": "times that memory was added",
        "asks": "times that the service thread answered a kernel that was out of memory",
        "overruns": "blocks written past their end, detected when debug builds freed them",
        "overrun_at": "address of the first block written past its end; 0: none",
        "unmarked_frees": "blocks without a debug mark that debug builds freed",
    },
}


class acre_tag_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("path", c_char_p), ("live_bytes", c_uint64), ("live_blocks", c_uint64),
        ("own_bytes", c_uint64), ("own_blocks", c_uint64), ("peak_bytes", c_uint64), ("limit_bytes", c_uint64),
    ]


class acre_range_part(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("address", c_void_p), ("offset", c_uint64), ("bytes", c_uint64),
        ("is_committed", c_uint32), ("reserved", c_uint32),
    ]


class acre_plan_placed(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("name", c_char_p), ("p", c_void_p), ("bytes", c_uint64), ("offset", c_uint64),
        ("first_step", c_uint64), ("last_step", c_uint64), ("place", c_uint32), ("flags", c_uint32),
    ]


class acre_heap_block(Structure):
    _fields_ = [
        ("address", c_void_p), ("bytes", c_uint64), ("asked_bytes", c_uint64), ("tag", c_uint32), ("flags", c_uint32),
    ]


class acre_open_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("soft_bytes", c_uint64), ("soft_devices", c_uint32), ("flags", c_uint32),
    ]


class acre_device_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("driver", c_char * 16), ("name", c_char * 128), ("bus_id", c_char * 32),
        ("uuid", c_uint8 * 16), ("ordinal", c_uint32), ("driver_version", c_uint32), ("total_bytes", c_uint64),
        ("free_bytes", c_uint64), ("granularity_bytes", c_uint64), ("compute_major", c_uint32),
        ("compute_minor", c_uint32), ("multiprocessors", c_uint32), ("copy_engines", c_uint32), ("has_vmm", c_uint32),
        ("has_host_vmm", c_uint32), ("has_fd_sharing", c_uint32), ("has_fabric", c_uint32), ("has_rdma", c_uint32),
        ("has_managed", c_uint32), ("is_integrated", c_uint32), ("open_count", c_uint32),
    ]


class acre_device_stats(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("streams_live", c_uint64), ("events_live", c_uint64), ("streams_created", c_uint64),
        ("events_created", c_uint64), ("driver_refusals", c_uint64), ("limbo_count", c_uint64),
        ("limbo_retired", c_uint64), ("trims", c_uint64), ("mem_blocks", c_uint64), ("mem_bytes", c_uint64),
        ("mem_registered", c_uint64), ("copies_direct", c_uint64), ("copies_staged", c_uint64),
        ("staging_bytes", c_uint64), ("chunks", c_uint64), ("chunk_bytes", c_uint64), ("chunk_cached_bytes", c_uint64),
        ("chunks_created", c_uint64), ("address_bytes", c_uint64), ("vecs", c_uint64), ("vec_moves", c_uint64),
        ("grow_copied_bytes", c_uint64), ("shares", c_uint64), ("imports", c_uint64), ("driver_creates", c_uint64),
        ("driver_maps", c_uint64), ("driver_accesses", c_uint64), ("driver_unmaps", c_uint64),
        ("driver_releases", c_uint64), ("driver_allocs", c_uint64), ("chunk_created_bytes", c_uint64),
        ("chunk_released_bytes", c_uint64), ("ranges", c_uint64), ("range_bytes", c_uint64),
        ("range_idle_bytes", c_uint64), ("suspended_bytes", c_uint64), ("streams_parked", c_uint64),
        ("held_bytes", c_uint64), ("limit_bytes", c_uint64), ("margin_bytes", c_uint64),
    ]


class acre_mem_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("kind", c_int), ("flags", c_uint32), ("base", c_void_p), ("bytes", c_uint64),
        ("device", c_void_p), ("ordinal", c_uint32), ("is_registered", c_uint32), ("pool", c_void_p),
        ("usable_bytes", c_uint64),
    ]


class acre_pool_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("kind", c_int), ("flags", c_uint32), ("initial_bytes", c_uint64),
        ("soft_limit_bytes", c_uint64), ("limit_bytes", c_uint64),
    ]


class acre_pool_stats(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("live_blocks", c_uint64), ("live_bytes", c_uint64), ("held_bytes", c_uint64),
        ("refills", c_uint64), ("spills", c_uint64), ("events", c_uint64), ("waits", c_uint64), ("overruns", c_uint64),
        ("late_writes", c_uint64), ("used_bytes", c_uint64), ("soft_limit_bytes", c_uint64), ("limit_bytes", c_uint64),
        ("over_soft", c_uint64), ("served_caches", c_uint64), ("served_done", c_uint64), ("served_moved", c_uint64),
        ("served_behind", c_uint64), ("served_pools", c_uint64), ("served_callback", c_uint64),
        ("served_waiting", c_uint64), ("refused", c_uint64), ("moved_chunks", c_uint64), ("held_peak_bytes", c_uint64),
        ("served_spill", c_uint64), ("spillable_bytes", c_uint64), ("away_bytes", c_uint64), ("left_blocks", c_uint64),
        ("left_bytes", c_uint64), ("brought_blocks", c_uint64), ("brought_bytes", c_uint64),
        ("spill_wait_ns", c_uint64), ("spill_copy_ns", c_uint64),
    ]


class acre_pool_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("device", c_void_p), ("kind", c_int), ("flags", c_uint32), ("is_default", c_uint32),
        ("reserved", c_uint32),
    ]


class acre_vec_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("kind", c_int), ("strategy", c_int), ("address_bytes", c_uint64),
        ("limit_bytes", c_uint64), ("ahead_bytes", c_uint64), ("chunk_bytes", c_uint64), ("flags", c_uint32),
        ("reserved", c_uint32),
    ]


class acre_vec_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("device", c_void_p), ("data", c_void_p), ("element_bytes", c_uint64),
        ("size", c_uint64), ("capacity", c_uint64), ("mapped_bytes", c_uint64), ("chunks", c_uint64),
        ("moves", c_uint64), ("copied_bytes", c_uint64), ("kind", c_int), ("strategy", c_int),
    ]


class acre_range_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("budget", c_void_p), ("limit_bytes", c_uint64), ("piece_bytes", c_uint64),
    ]


class acre_range_stats(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("committed_bytes", c_uint64), ("idle_bytes", c_uint64), ("peak_bytes", c_uint64),
        ("limit_bytes", c_uint64), ("address_bytes", c_uint64), ("ranges", c_uint64), ("commits", c_uint64),
        ("decommits", c_uint64), ("pieces_reused", c_uint64), ("pieces_mapped", c_uint64), ("pieces_moved", c_uint64),
        ("pieces_trimmed", c_uint64), ("stream_waits", c_uint64), ("host_waits", c_uint64),
    ]


class acre_suspend_rule(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("tag", c_char_p), ("pool", c_void_p), ("object", c_void_p), ("how", c_int),
        ("is_unchanged", c_uint32),
    ]


class acre_suspend_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("how", c_int), ("flags", c_uint32), ("rules", POINTER(acre_suspend_rule)),
        ("rule_count", c_size_t), ("folder", c_char_p), ("timeout_ms", c_uint64),
    ]


class acre_suspend_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("released_bytes", c_uint64), ("kept_bytes", c_uint64), ("copied_bytes", c_uint64),
        ("dropped_bytes", c_uint64), ("host_bytes", c_uint64), ("file_bytes", c_uint64), ("stayed_bytes", c_uint64),
    ]


class acre_share_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("uids", POINTER(c_uint32)), ("uid_count", c_uint32), ("importers", c_uint32),
        ("flags", c_uint32), ("reserved", c_uint32),
    ]


class acre_import_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("uids", POINTER(c_uint32)), ("uid_count", c_uint32), ("wait_ms", c_uint32),
    ]


class acre_import_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("device", c_void_p), ("data", c_void_p), ("bytes", c_uint64),
        ("mapped_bytes", c_uint64), ("element_bytes", c_uint64), ("refreshed_bytes", c_uint64), ("owner_pid", c_uint32),
        ("owner_uid", c_uint32), ("is_read_only", c_uint32), ("reserved", c_uint32),
    ]


class acre_trace_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("limit_bytes", c_uint64), ("flags", c_uint32), ("reserved", c_uint32),
    ]


class acre_plan_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("device_bytes", c_uint64), ("host_bytes", c_uint64), ("budget", c_uint64),
        ("host_kind", c_int), ("flags", c_uint32), ("device_pool", c_void_p), ("host_pool", c_void_p),
    ]


class acre_plan_wish(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("p", POINTER(c_void_p)), ("name", c_char_p), ("bytes", c_uint64),
        ("alignment", c_uint64), ("first_step", c_uint64), ("last_step", c_uint64), ("offset", c_uint64),
        ("place", c_uint32), ("flags", c_uint32),
    ]


class acre_plan_stats(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("device_bytes", c_uint64), ("host_bytes", c_uint64),
        ("device_used_bytes", c_uint64), ("host_used_bytes", c_uint64), ("device_wanted_bytes", c_uint64),
        ("host_wanted_bytes", c_uint64), ("device_bound_bytes", c_uint64), ("host_bound_bytes", c_uint64),
        ("wishes", c_uint64), ("waiting", c_uint64), ("is_committed", c_uint64), ("is_optimal", c_uint64),
        ("nodes", c_uint64), ("rounds", c_uint64), ("waits", c_uint64), ("steps", c_uint64), ("recorded", c_uint64),
        ("loop_bytes", c_uint64), ("loop_bound_bytes", c_uint64), ("hits", c_uint64), ("misses", c_uint64),
        ("pool_calls", c_uint64),
    ]


class acre_heap_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("initial_bytes", c_uint64), ("limit_bytes", c_uint64), ("step_bytes", c_uint64),
        ("wait_ns", c_uint64), ("flags", c_uint32), ("reserved", c_uint32), ("ahead_bytes", c_uint64),
    ]


class acre_heap_handle(Structure):
    _fields_ = [
        ("base", POINTER(c_char)), ("control", c_void_p), ("segments", c_void_p), ("max_segments", c_uint32),
        ("reserved", c_uint32),
    ]


class acre_heap_class_stats(Structure):
    _fields_ = [("bytes", c_uint64), ("live_blocks", c_uint64), ("free_blocks", c_uint64)]


class acre_heap_stats(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("mapped_bytes", c_uint64), ("record_bytes", c_uint64), ("limit_bytes", c_uint64),
        ("live_blocks", c_uint64), ("live_bytes", c_uint64), ("peak_bytes", c_uint64), ("free_bytes", c_uint64),
        ("failed", c_uint64), ("failed_bytes", c_uint64), ("bad_alignment", c_uint64), ("double_frees", c_uint64),
        ("foreign_frees", c_uint64), ("interior_frees", c_uint64), ("grows", c_uint64), ("asks", c_uint64),
        ("overruns", c_uint64), ("overrun_at", c_uint64), ("unmarked_frees", c_uint64),
        ("classes", acre_heap_class_stats * 22), ("lost_slots", c_uint64), ("large_classes", acre_heap_class_stats * 9),
    ]


acre_log_fn = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)
acre_pool_walk_fn = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)
acre_pool_oom_fn = CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64, c_uint32)
acre_tag_walk_fn = CFUNCTYPE(c_int, c_void_p, POINTER(acre_tag_info))
acre_range_walk_fn = CFUNCTYPE(c_int, c_void_p, POINTER(acre_range_part))
acre_plan_walk_fn = CFUNCTYPE(c_int, c_void_p, POINTER(acre_plan_placed))
acre_soft_kernel = CFUNCTYPE(None, c_void_p)
acre_heap_walk_fn = CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64)
acre_heap_inspect_fn = CFUNCTYPE(c_int, c_void_p, POINTER(acre_heap_block))

# Each function: its result, and its parameters.
FUNCTIONS = {
    "acre_status_text": (c_char_p, [c_int]),
    "acre_status_name": (c_char_p, [c_int]),
    "acre_last_detail": (c_char_p, []),
    "acre_version": (c_char_p, []),
    "acre_log_set": (c_int, [acre_log_fn, c_void_p, c_int]),
    "acre_config_describe": (c_int, [c_size_t, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_char_p)]),
    "acre_open": (c_int, [c_char_p, POINTER(acre_open_options), POINTER(c_void_p)]),
    "acre_close": (c_int, [c_void_p]),
    "acre_device_count": (c_int, [c_char_p, POINTER(c_uint32)]),
    "acre_device_get_info": (c_int, [c_void_p, POINTER(acre_device_info)]),
    "acre_device_sync": (c_int, [c_void_p]),
    "acre_device_set_limits": (c_int, [c_void_p, c_uint64, c_uint64]),
    "acre_trim": (c_int, [c_void_p]),
    "acre_device_get_stats": (c_int, [c_void_p, POINTER(acre_device_stats)]),
    "acre_stream_create": (c_int, [c_void_p, c_uint32, POINTER(c_void_p)]),
    "acre_stream_destroy": (c_int, [c_void_p, c_void_p]),
    "acre_stream_sync": (c_int, [c_void_p, c_void_p]),
    "acre_stream_query": (c_int, [c_void_p, c_void_p]),
    "acre_stream_wait": (c_int, [c_void_p, c_void_p, c_void_p]),
    "acre_stream_get_id": (c_int, [c_void_p, c_void_p, POINTER(c_uint64)]),
    "acre_event_create": (c_int, [c_void_p, c_uint32, POINTER(c_void_p)]),
    "acre_event_destroy": (c_int, [c_void_p, c_void_p]),
    "acre_event_record": (c_int, [c_void_p, c_void_p, c_void_p]),
    "acre_event_query": (c_int, [c_void_p, c_void_p]),
    "acre_event_sync": (c_int, [c_void_p, c_void_p]),
    "acre_event_elapsed": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(c_float)]),
    "acre_mem_alloc": (c_int, [c_void_p, c_int, c_size_t, c_uint32, POINTER(c_void_p)]),
    "acre_mem_free": (c_int, [c_void_p, c_void_p]),
    "acre_mem_realloc": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, POINTER(c_void_p)]),
    "acre_mem_set_access": (c_int, [c_void_p, c_void_p, c_void_p, c_int]),
    "acre_mem_device_pointer": (c_int, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "acre_mem_register": (c_int, [c_void_p, c_void_p, c_size_t, c_uint32]),
    "acre_mem_unregister": (c_int, [c_void_p, c_void_p]),
    "acre_mem_prefetch": (c_int, [c_void_p, c_void_p, c_size_t, c_uint32, c_void_p]),
    "acre_mem_advise": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_uint32]),
    "acre_mem_attach": (c_int, [c_void_p, c_void_p, c_uint32, c_void_p]),
    "acre_mem_query": (c_int, [c_void_p, c_void_p, POINTER(acre_mem_info)]),
    "acre_copy": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p]),
    "acre_copy_as": (c_int, [c_void_p, c_int, c_void_p, c_void_p, c_size_t, c_void_p]),
    "acre_copy_sync": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "acre_copy_2d": (c_int, [
        c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_size_t, c_size_t, c_void_p,
    ]),
    "acre_fill": (c_int, [c_void_p, c_void_p, c_uint8, c_size_t, c_void_p]),
    "acre_fill_sync": (c_int, [c_void_p, c_void_p, c_uint8, c_size_t]),
    "acre_alloc": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(c_void_p)]),
    "acre_free": (c_int, [c_void_p, c_void_p]),
    "acre_pool_create": (c_int, [c_void_p, POINTER(acre_pool_options), POINTER(c_void_p)]),
    "acre_pool_default": (c_int, [c_void_p, c_int, POINTER(c_void_p)]),
    "acre_pool_destroy": (c_int, [c_void_p, POINTER(c_uint64), POINTER(c_uint64)]),
    "acre_pool_alloc": (c_int, [c_void_p, c_size_t, c_size_t, c_void_p, POINTER(c_void_p)]),
    "acre_pool_alloc_zeroed": (c_int, [c_void_p, c_size_t, c_size_t, c_void_p, POINTER(c_void_p)]),
    "acre_pool_alloc_many": (c_int, [c_void_p, c_size_t, c_size_t, c_void_p, POINTER(c_void_p)]),
    "acre_pool_free": (c_int, [c_void_p, c_void_p, c_void_p]),
    "acre_pool_free_many": (c_int, [c_void_p, POINTER(c_void_p), c_size_t, c_void_p, POINTER(c_size_t)]),
    "acre_pool_free_after": (c_int, [c_void_p, c_void_p, c_void_p]),
    "acre_pool_record_use": (c_int, [c_void_p, c_void_p, c_void_p]),
    "acre_pool_graph_share": (c_int, [c_void_p, c_void_p, c_uint64]),
    "acre_pool_graph_end": (c_int, [c_void_p, c_uint64]),
    "acre_pool_realloc": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, POINTER(c_void_p)]),
    "acre_pool_owns": (c_int, [c_void_p, c_void_p]),
    "acre_pool_usable_size": (c_size_t, [c_void_p, c_void_p]),
    "acre_pool_reserve": (c_int, [c_void_p, c_uint64]),
    "acre_pool_trim": (c_int, [c_void_p, c_uint64]),
    "acre_pool_walk": (c_int, [c_void_p, acre_pool_walk_fn, c_void_p]),
    "acre_pool_get_stats": (c_int, [c_void_p, POINTER(acre_pool_stats)]),
    "acre_pool_get_info": (c_int, [c_void_p, POINTER(acre_pool_info)]),
    "acre_stream_retire": (c_int, [c_void_p, c_void_p]),
    "acre_pool_set_limits": (c_int, [c_void_p, c_uint64, c_uint64]),
    "acre_pool_set_callback": (c_int, [c_void_p, acre_pool_oom_fn, c_void_p]),
    "acre_tag_push": (c_int, [c_char_p]),
    "acre_tag_pop": (c_int, []),
    "acre_tag_set_limit": (c_int, [c_char_p, c_uint64]),
    "acre_tag_walk": (c_int, [acre_tag_walk_fn, c_void_p]),
    "acre_oom_report": (c_int, [c_int, POINTER(c_char), c_size_t, POINTER(c_size_t)]),
    "acre_vec_create": (c_int, [c_void_p, c_size_t, POINTER(acre_vec_options), POINTER(c_void_p)]),
    "acre_vec_destroy": (c_int, [c_void_p, c_void_p]),
    "acre_vec_data": (c_void_p, [c_void_p]),
    "acre_vec_size": (c_size_t, [c_void_p]),
    "acre_vec_capacity": (c_size_t, [c_void_p]),
    "acre_vec_mapped_bytes": (c_uint64, [c_void_p]),
    "acre_vec_reserve": (c_int, [c_void_p, c_size_t, c_void_p]),
    "acre_vec_grow": (c_int, [c_void_p, c_size_t, c_void_p]),
    "acre_vec_resize": (c_int, [c_void_p, c_size_t, c_void_p]),
    "acre_vec_append": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "acre_vec_shrink": (c_int, [c_void_p, c_size_t, c_void_p]),
    "acre_vec_shrink_to_fit": (c_int, [c_void_p, c_void_p]),
    "acre_vec_clear": (c_int, [c_void_p]),
    "acre_vec_record_use": (c_int, [c_void_p, c_void_p]),
    "acre_vec_set_access": (c_int, [c_void_p, c_void_p, c_int]),
    "acre_vec_get_info": (c_int, [c_void_p, POINTER(acre_vec_info)]),
    "acre_range_budget_create": (c_int, [c_void_p, c_uint64, POINTER(c_void_p)]),
    "acre_range_budget_destroy": (c_int, [c_void_p]),
    "acre_range_budget_set_limit": (c_int, [c_void_p, c_uint64]),
    "acre_range_budget_trim": (c_int, [c_void_p, c_uint64]),
    "acre_range_create": (c_int, [c_void_p, c_uint64, POINTER(acre_range_options), POINTER(c_void_p)]),
    "acre_range_destroy": (c_int, [c_void_p, c_void_p]),
    "acre_range_data": (c_void_p, [c_void_p]),
    "acre_range_commit": (c_int, [c_void_p, c_uint64, c_uint64, c_void_p]),
    "acre_range_decommit": (c_int, [c_void_p, c_uint64, c_uint64, c_void_p]),
    "acre_range_record_use": (c_int, [c_void_p, c_void_p]),
    "acre_range_trim": (c_int, [c_void_p, c_uint64]),
    "acre_range_walk": (c_int, [c_void_p, acre_range_walk_fn, c_void_p]),
    "acre_range_get_stats": (c_int, [c_void_p, POINTER(acre_range_stats)]),
    "acre_range_budget_get_stats": (c_int, [c_void_p, POINTER(acre_range_stats)]),
    "acre_pool_alloc_spillable": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(c_void_p)]),
    "acre_bring": (c_int, [c_void_p, c_void_p]),
    "acre_bring_end": (c_int, [c_void_p, c_void_p]),
    "acre_suspend": (c_int, [c_void_p, POINTER(acre_suspend_options), POINTER(c_void_p)]),
    "acre_resume": (c_int, [c_void_p]),
    "acre_suspend_get_info": (c_int, [c_void_p, POINTER(acre_suspend_info)]),
    "acre_suspend_read": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "acre_suspend_forget": (c_int, [c_void_p]),
    "acre_share_vec": (c_int, [c_void_p, c_char_p, POINTER(acre_share_options), POINTER(c_void_p)]),
    "acre_share_mem": (c_int, [
        c_void_p, c_void_p, c_char_p, POINTER(acre_share_options), POINTER(c_void_p),
    ]),
    "acre_share_close": (c_int, [c_void_p]),
    "acre_import_open": (c_int, [c_void_p, c_char_p, POINTER(acre_import_options), POINTER(c_void_p)]),
    "acre_import_refresh": (c_int, [c_void_p, c_void_p]),
    "acre_import_get_info": (c_int, [c_void_p, POINTER(acre_import_info)]),
    "acre_import_close": (c_int, [c_void_p, c_void_p]),
    "acre_share_export_fds": (c_int, [
        c_void_p, c_void_p, c_size_t, POINTER(c_int), POINTER(c_uint64), POINTER(c_size_t),
    ]),
    "acre_vm_granularity": (c_int, [c_void_p, c_uint32, POINTER(c_size_t), POINTER(c_size_t)]),
    "acre_vm_create": (c_int, [c_void_p, c_size_t, c_uint32, POINTER(c_void_p), POINTER(c_size_t)]),
    "acre_vm_export": (c_int, [c_void_p, c_void_p, POINTER(c_int)]),
    "acre_vm_import": (c_int, [c_void_p, c_int, c_size_t, POINTER(c_void_p)]),
    "acre_vm_release": (c_int, [c_void_p, c_void_p]),
    "acre_vm_reserve": (c_int, [
        c_void_p, c_size_t, c_size_t, c_void_p, POINTER(c_void_p), POINTER(c_size_t),
    ]),
    "acre_vm_address_free": (c_int, [c_void_p, c_void_p]),
    "acre_vm_map": (c_int, [c_void_p, c_void_p, c_void_p]),
    "acre_vm_unmap": (c_int, [c_void_p, c_void_p, c_size_t]),
    "acre_vm_unmap_sync": (c_int, [c_void_p, c_void_p, c_size_t]),
    "acre_vm_set_access": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_int]),
    "acre_vm_get_access": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(c_int)]),
    "acre_trace_start": (c_int, [c_char_p, POINTER(acre_trace_options)]),
    "acre_trace_stop": (c_int, []),
    "acre_trace_flush": (c_int, []),
    "acre_trace_mark": (c_int, [c_char_p]),
    "acre_stats_export": (c_int, []),
    "acre_snapshot": (c_int, [c_void_p, c_char_p]),
    "acre_plan_create": (c_int, [c_void_p, POINTER(acre_plan_options), POINTER(c_void_p)]),
    "acre_plan_destroy": (c_int, [c_void_p]),
    "acre_plan_want": (c_int, [c_void_p, c_uint32, c_size_t, c_size_t, POINTER(c_void_p)]),
    "acre_plan_want_for": (c_int, [
        c_void_p, c_uint32, c_size_t, c_size_t, c_uint64, c_uint64, POINTER(c_void_p),
    ]),
    "acre_plan_want_many": (c_int, [c_void_p, POINTER(acre_plan_wish), c_size_t, c_uint32]),
    "acre_plan_satisfy": (c_int, [c_void_p]),
    "acre_plan_cancel": (c_int, [c_void_p]),
    "acre_plan_commit": (c_int, [c_void_p]),
    "acre_plan_release": (c_int, [c_void_p, c_void_p]),
    "acre_plan_walk": (c_int, [c_void_p, acre_plan_walk_fn, c_void_p]),
    "acre_plan_step_begin": (c_int, [c_void_p, c_void_p]),
    "acre_plan_alloc": (c_int, [c_void_p, c_uint32, c_size_t, c_size_t, POINTER(c_void_p)]),
    "acre_plan_free": (c_int, [c_void_p, c_void_p]),
    "acre_plan_step_end": (c_int, [c_void_p]),
    "acre_plan_get_stats": (c_int, [c_void_p, POINTER(acre_plan_stats)]),
    "acre_soft_launch": (c_int, [
        c_void_p, c_void_p, acre_soft_kernel, POINTER(c_uint32), POINTER(c_uint32), c_size_t, c_void_p,
    ]),
    "acre_soft_set_lag": (c_int, [c_void_p, c_uint64, c_uint64]),
    "acre_soft_thread_index": (c_uint32, [c_uint32]),
    "acre_soft_block_index": (c_uint32, [c_uint32]),
    "acre_soft_block_size": (c_uint32, [c_uint32]),
    "acre_soft_grid_size": (c_uint32, [c_uint32]),
    "acre_soft_in_kernel": (c_int, []),
    "acre_soft_sm": (c_uint32, []),
    "acre_soft_shared": (c_void_p, []),
    "acre_soft_syncthreads": (None, []),
    "acre_soft_yield": (None, []),
    "acre_soft_lane": (c_uint32, []),
    "acre_soft_activemask": (c_uint32, []),
    "acre_soft_match_any": (c_uint32, [c_uint32, c_uint64]),
    "acre_soft_shfl": (c_uint64, [c_uint32, c_uint64, c_uint32]),
    "acre_soft_ballot": (c_uint32, [c_uint32, c_int]),
    "acre_soft_syncwarp": (None, [c_uint32]),
    "acre_heap_create": (c_int, [c_void_p, POINTER(acre_heap_options), POINTER(c_void_p)]),
    "acre_heap_destroy": (c_int, [c_void_p, POINTER(c_uint64), POINTER(c_uint64)]),
    "acre_heap_get_handle": (c_int, [c_void_p, POINTER(acre_heap_handle)]),
    "acre_heap_grow": (c_int, [c_void_p, c_uint64]),
    "acre_heap_get_limit": (c_int, [c_void_p, POINTER(c_uint64)]),
    "acre_heap_set_limit": (c_int, [c_void_p, c_uint64]),
    "acre_heap_trim": (c_int, [c_void_p, c_uint64]),
    "acre_heap_reset": (c_int, [c_void_p]),
    "acre_heap_get_stats": (c_int, [c_void_p, POINTER(acre_heap_stats)]),
    "acre_heap_walk": (c_int, [c_void_p, acre_heap_walk_fn, c_void_p]),
    "acre_heap_inspect": (c_int, [c_void_p, acre_heap_inspect_fn, c_void_p]),
}


def apply(library):
    """Sets the types of all functions of a CDLL. A library older than this file may lack some."""
    for name, (result, parameters) in FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is not None:
            function.restype = result
            function.argtypes = parameters
    return library
