"""The compiled part of the fake torch: allocators, and the functions that torch.cuda.memory calls."""

import ctypes
import os
import threading
from ctypes import c_double, c_int, c_size_t, c_uint64, c_void_p

from . import fake_driver as driver

_GLIBCXX_USE_CXX11_ABI = True

core = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libc10.so"))
FILTER = ctypes.CFUNCTYPE(c_int, c_void_p)
initialized = False
current = 0  # the current device
tls = threading.local()


class OutOfMemoryError(RuntimeError):
    pass


class Stream:
    def __init__(self, handle=None):
        if handle is None:
            made = c_void_p()
            driver.call("cuStreamCreate", ctypes.byref(made), ctypes.c_uint(1))
            handle = made.value
        self.cuda_stream = handle

    def synchronize(self):
        driver.call("cuStreamSynchronize", c_void_p(self.cuda_stream))


def current_stream():
    if not hasattr(tls, "stream"):
        tls.stream = Stream(0)
    return tls.stream


def no_stats(name):
    raise RuntimeError(f"CUDAPluggableAllocator does not yet support {name}. If you need it, please file an issue")


def filtered(accepts, stream):
    """Returns what a filter of PyTorch returns; -1 for an exception, which fake_core.cpp throws."""
    try:
        return int(accepts(stream))
    except RuntimeError:
        return -1


class Pluggable:
    """torch._C._CUDAPluggableAllocator"""

    def __init__(self, alloc, free):
        self.alloc_fn, self.free_fn = alloc, free
        self.sizes, self.functions, self.held = {}, {}, []
        self.lock = threading.Lock()

    def __getattr__(self, name):
        known = ("set_record_stream_fn", "set_reset_fn", "set_memory_fraction_fn", "set_begin_allocate_to_pool",
                 "set_end_allocate_to_pool_fn", "set_release_pool", "set_init_fn", "set_base_alloc_fn")
        if name not in known:
            raise AttributeError(name)
        return lambda value: self.functions.__setitem__(name, value)

    def function(self, name, *types):
        address = self.functions.get(name)
        return ctypes.CFUNCTYPE(None, *types)(address) if address else lambda *_: None

    def malloc(self, count, stream):
        p, text = c_void_p(), ctypes.create_string_buffer(1 << 16)
        code = core.fake_alloc(c_void_p(self.alloc_fn), c_size_t(count), 0, c_void_p(stream), ctypes.byref(p),
                               text, c_size_t(len(text)))
        if code:
            raise (OutOfMemoryError if code == 1 else RuntimeError)(text.value.decode())
        with self.lock:
            self.sizes[p.value] = (count, stream)
        return p.value

    def free(self, p):
        with self.lock:
            count, stream = self.sizes.pop(p)
        ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_int, c_void_p)(self.free_fn)(p, count, 0, stream)

    def record_stream(self, p, stream):
        self.function("set_record_stream_fn", c_void_p, c_void_p)(p, stream)

    def empty_cache(self):
        self.function("set_reset_fn")()

    def set_fraction(self, fraction):
        self.function("set_memory_fraction_fn", c_double, c_int)(fraction, 0)

    def begin(self, ids, accepts):
        if "set_begin_allocate_to_pool" in self.functions:
            held = FILTER(lambda stream: filtered(accepts, stream or 0))
            self.held.append(held)
            core.fake_begin(c_void_p(self.functions["set_begin_allocate_to_pool"]), 0, c_uint64(ids[0]),
                            c_uint64(ids[1]), held)

    def end(self, ids):
        if "set_end_allocate_to_pool_fn" in self.functions:
            core.fake_with_pool(c_void_p(self.functions["set_end_allocate_to_pool_fn"]), 0, c_uint64(ids[0]),
                                c_uint64(ids[1]))

    def release(self, ids):
        if "set_release_pool" in self.functions:
            core.fake_with_pool(c_void_p(self.functions["set_release_pool"]), 0, c_uint64(ids[0]), c_uint64(ids[1]))

    def stats(self):
        no_stats("getDeviceStats")


class Native:
    """PyTorch's own allocator: cuMemAlloc, and the memory of MemPools."""

    def __init__(self):
        self.owners, self.underway, self.pools, self.cached = {}, [], {}, {}
        self.current = self.peak = 0

    def malloc(self, count, stream):
        for ids, accepts in self.underway:
            if accepts(stream) and self.pools.get(ids):
                return self.pool_malloc(ids, count, stream)
        p = ctypes.c_uint64()
        try:
            driver.call("cuMemAlloc_v2", ctypes.byref(p), c_size_t(count))
        except RuntimeError:
            raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {count} bytes.") from None
        self.owners[p.value] = (None, count)
        self.current += count
        self.peak = max(self.peak, self.current)
        return p.value

    def pool_malloc(self, ids, count, stream):
        kept = self.cached.get((ids, count))
        p = kept.pop() if kept else self.pools[ids].malloc(count, stream)
        if not p:
            raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {count} bytes.")
        self.owners[p] = (ids, count)
        return p

    def free(self, p):
        ids, count = self.owners.pop(p)
        if ids is None:
            driver.call("cuMemFree_v2", driver.device_pointer(p))
            self.current -= count
        elif ids in self.pools:
            self.cached.setdefault((ids, count), []).append(p)

    def drop_pool(self, ids):
        # PyTorch throws in a destructor, which ends the process.
        if self.underway:
            os.abort()
        if self.pools[ids].maker() is None:
            os.abort()
        for key in [key for key in self.cached if key[0] == ids]:
            for p in self.cached.pop(key):
                self.pools[ids].free(p)

    def record_stream(self, p, stream):
        pass

    def empty_cache(self):
        pass

    def set_fraction(self, fraction):
        pass

    def begin(self, ids, accepts):
        if any(known == ids for known, _ in self.underway):
            raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
        self.underway.append((ids, accepts))

    def end(self, ids):
        self.underway = [entry for entry in self.underway if entry[0] != ids]

    def release(self, ids):
        pass

    def stats(self):
        return {"allocated_bytes": {"all": {"current": self.current, "peak": self.peak}}}


allocator = native = Native()


def init():
    global initialized
    driver.cuda()
    initialized = True


def _cuda_customAllocator(alloc, free):
    return Pluggable(alloc, free)


def _cuda_changeCurrentAllocator(new):
    global allocator
    if initialized:
        raise RuntimeError("Can't swap an already initialized allocator")
    allocator = new


def _cuda_memoryStats(_device):
    return allocator.stats()


def _cuda_resetPeakMemoryStats(_device):
    if isinstance(allocator, Pluggable):
        no_stats("resetPeakStats")


def _cuda_resetAccumulatedMemoryStats(_device):
    if isinstance(allocator, Pluggable):
        no_stats("resetAccumulatedStats")


def _cuda_memorySnapshot(_pool=None):
    no_stats("snapshot")


def _cuda_attach_out_of_memory_observer(_observer):
    no_stats("attachOutOfMemoryObserver")


benchmark = False


def _get_cudnn_benchmark():
    return benchmark


def _set_cudnn_benchmark(value):
    global benchmark
    benchmark = value


def _cuda_emptyCache():
    allocator.empty_cache()


def _cuda_setMemoryFraction(fraction, _device):
    allocator.set_fraction(fraction)


def _cuda_getMemoryFraction(_device):
    no_stats("getMemoryFraction")


def _cuda_beginAllocateCurrentThreadToPool(_device, ids):
    thread = threading.get_ident()
    allocator.begin(ids, lambda stream: threading.get_ident() == thread)


def _cuda_beginAllocateToPool(_device, ids):
    allocator.begin(ids, lambda stream: True)


def _cuda_beginAllocateCurrentStreamToPool(_device, ids):
    mine = current_stream().cuda_stream
    if not mine:
        raise RuntimeError("Expected stream capture to be under way")
    allocator.begin(ids, lambda stream: stream == mine)


def _cuda_endAllocateToPool(_device, ids):
    allocator.end(ids)


def _cuda_releasePool(_device, ids):
    allocator.release(ids)
