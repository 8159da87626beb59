"""torch.cuda of the fake torch."""

import contextlib
import ctypes
import itertools

from .. import _C
from .. import fake_driver as _driver
from .._C import OutOfMemoryError, Stream
from . import memory
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)

_ids = itertools.count(1)


def is_initialized():
    return _C.initialized


def init():
    _C.init()


def current_device():
    _C.init()
    return _C.current


def is_current_stream_capturing():
    status = ctypes.c_int()
    _driver.cuda().cuStreamIsCapturing(ctypes.c_void_p(_C.current_stream().cuda_stream), ctypes.byref(status))
    return status.value != 0


def current_stream():
    return _C.current_stream()


def synchronize():
    _driver.call("cuCtxSynchronize")


@contextlib.contextmanager
def stream(entered):
    before = _C.current_stream()
    _C.tls.stream = entered
    try:
        yield
    finally:
        _C.tls.stream = before


def graph_pool_handle():
    return (0, next(_ids))


class MemPool:
    def __init__(self, allocator=None):
        if isinstance(_C.allocator, _C.Pluggable):
            _C.no_stats("createOrIncrefPool")
        self.id = graph_pool_handle()
        self.allocator = allocator
        _C.native.pools[self.id] = allocator

    def __del__(self):
        _C.native.drop_pool(self.id)


class CUDAGraph:
    def __init__(self):
        self._exec = self._graph = None

    def pool(self):
        return self._pool

    def capture_begin(self, pool=None, capture_error_mode="global"):
        self._pool = pool or (next(_ids), 0)
        _C.allocator.begin(self._pool, self._captures)
        self._stream = ctypes.c_void_p(_C.current_stream().cuda_stream)
        mode = {"global": 0, "thread_local": 1, "relaxed": 2}[capture_error_mode]
        _driver.call("cuStreamBeginCapture_v2", self._stream, mode)

    def _captures(self, stream):
        status = ctypes.c_int()
        _driver.call("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status))
        return status.value == 1

    def capture_end(self):
        self._graph, self._exec = ctypes.c_void_p(), ctypes.c_void_p()
        _driver.call("cuStreamEndCapture", self._stream, ctypes.byref(self._graph))
        _C.allocator.end(self._pool)
        _driver.call("cuGraphInstantiateWithFlags", ctypes.byref(self._exec), self._graph, ctypes.c_uint64(0))

    def replay(self):
        _driver.call("cuGraphLaunch", self._exec, ctypes.c_void_p(_C.current_stream().cuda_stream))

    def reset(self):
        if self._exec:
            _C.allocator.release(self._pool)
            _driver.call("cuGraphExecDestroy", self._exec)
            _driver.call("cuGraphDestroy", self._graph)
            self._exec = None

    def __del__(self):
        self.reset()


class graph:
    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global"):
        self._graph, self._pool, self._mode = cuda_graph, pool, capture_error_mode
        self._on = stream or Stream()

    def __enter__(self):
        synchronize()
        self._before = _C.current_stream()
        _C.tls.stream = self._on
        self._graph.capture_begin(self._pool, self._mode)

    def __exit__(self, *_):
        self._graph.capture_end()
        _C.tls.stream = self._before


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    _C._cuda_beginAllocateCurrentThreadToPool(0, pool.id)
    try:
        yield
    finally:
        _C._cuda_endAllocateToPool(0, pool.id)
        _C._cuda_releasePool(0, pool.id)
