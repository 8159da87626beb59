"""Regions of a program that acre serves: by tag, or from a pool of their own.

Under acre.torch.use() a region is a tag that the plug sets. Otherwise PyTorch's own allocator stays, and a
region is a torch.cuda.MemPool whose memory comes from acre.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from typing import Any, List

from . import _plug

_lock = threading.Lock()
_mempools = {}  # by region, backward, thread and device
_makers = {}  # by region; kept until the process ends: PyTorch frees memory of a MemPool by its maker
_open = 0  # MemPools that threads allocate to now
_released: List[Any] = []  # MemPools that wait until _open is 0
_mine = threading.local()  # .stack: what this thread entered


def _drop_released(torch):
    """Lock held: destroys MemPools that were released.

    PyTorch ends the process if a MemPool is destroyed while any thread allocates to one, or captures.
    """
    if not _open and not torch.cuda.is_current_stream_capturing():
        _released.clear()


@contextlib.contextmanager
def kept_open(torch):
    """Keeps MemPools that are released meanwhile."""
    global _open
    with _lock:
        _open += 1
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            _drop_released(torch)


def _stack():
    if not hasattr(_mine, "stack"):
        _mine.stack = []
    return _mine.stack


class _ByPlug:
    """One entry of a region, under use()."""

    def __init__(self, region, backward, torch):
        self.region, self.torch = region, torch
        self.device = torch.cuda.current_device() if backward else None
        self.stream = torch.cuda.current_stream().cuda_stream or None if backward else None

    def begin(self):
        from .. import _library

        plug = _plug.plug()
        _library.check(plug.acre_torch_enter(self.region), memory=False)
        if self.device is None:
            return
        status = plug.acre_torch_enter_stream(self.region, self.device, self.stream)
        if status:
            plug.acre_torch_leave()
            _library.check(status, memory=False)

    def end(self):
        plug = _plug.plug()
        if self.device is not None:
            plug.acre_torch_leave_stream(self.region, self.device, self.stream)
        plug.acre_torch_leave()

    def set_aside(self):
        from .. import _library

        _library.check(_plug.plug().acre_torch_enter(-1), memory=False)

    def take_up(self):
        _plug.plug().acre_torch_leave()


class _ByMemPool:
    """One entry of a region, on PyTorch's own allocator."""

    def __init__(self, mempool, backward, torch):
        self.mempool, self.backward, self.torch = mempool, backward, torch
        self.device = torch.cuda.current_device()
        self.context = None

    def begin(self):
        # PyTorch refuses to begin a pool twice, so an inner entry of the same region does nothing.
        self.is_inner = any(entry.mempool is self.mempool for entry in _stack())
        self.take_up()

    def end(self):
        self.mempool = None  # not the last reference: it must go under the lock
        self.set_aside()

    def set_aside(self):
        if self.context is not None:
            self.context.close()
            self.context = None

    def take_up(self):
        if self.is_inner:
            return
        make = _use_for_stream if self.backward else self.torch.cuda.use_mem_pool
        with contextlib.ExitStack() as stack:
            stack.enter_context(kept_open(self.torch))
            stack.enter_context(make(self.mempool, self.device))
            self.context = stack.pop_all()


@contextlib.contextmanager
def _use_for_stream(mempool, device):
    """As torch.cuda.use_mem_pool, for all threads that allocate for the current stream.

    PyTorch refuses the default stream here, so there it is for all threads and streams.
    """
    import torch

    core, ids = torch._C, mempool.id
    name = "_cuda_beginAllocateCurrentStreamToPool"
    if not torch.cuda.current_stream().cuda_stream:
        name = "_cuda_beginAllocateToPool"
    begin = getattr(core, name, None)
    if begin is None:
        raise RuntimeError(f"PyTorch {torch.__version__} has no {name}, which backward=True needs: call "
                           "acre.torch.use(), or leave backward=True out")
    del mempool
    begin(device, ids)
    try:
        yield
    finally:
        core._cuda_endAllocateToPool(device, ids)
        core._cuda_releasePool(device, ids)


class Pool(contextlib.AbstractContextManager):
    """A region of a program: `with` it, tensors come from acre. May be entered again, and nested."""

    def __init__(self, tag: str, *, backward: bool = False, own: bool = False) -> None:
        self.tag, self.backward = tag, backward
        self.region = _plug.region(tag, own)

    def __repr__(self):
        return f"acre.torch.Pool(tag={self.tag!r}, backward={self.backward})"

    def _entry(self):
        import torch
        from . import _use

        if _use.is_used():
            return _ByPlug(self.region, self.backward, torch)
        return _ByMemPool(self.mempool(), self.backward, torch)

    def mempool(self) -> Any:
        """Returns the torch.cuda.MemPool of this thread; None under use(), which needs none.

        PyTorch lets one thread at a time allocate to a MemPool, so each has its own.
        """
        import torch
        from . import _use

        if _use.is_used():
            return None
        if not hasattr(torch.cuda, "MemPool"):
            raise RuntimeError(f"acre.torch.pool() needs torch.cuda.MemPool, which PyTorch {torch.__version__} "
                               "does not have: call acre.torch.use()")
        key = (self.region, self.backward, threading.get_ident(), torch.cuda.current_device())
        with _lock:
            if self.region not in _makers:
                maker = torch.cuda.memory.CUDAPluggableAllocator(
                    _plug.path(), f"acre_torch_alloc_{self.region}", "acre_torch_free")
                # At exit Python destroys objects in any order, and a MemPool does not keep its maker.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(maker))
                _makers[self.region] = maker
            if key not in _mempools:
                _mempools[key] = torch.cuda.MemPool(_makers[self.region].allocator())
            return _mempools[key]

    def release(self) -> None:
        """Forgets the MemPools of this region, so that PyTorch frees their unused memory.

        If a thread is in a region, that happens when the last one leaves.
        """
        import torch

        with _lock:
            for key in [key for key in _mempools if key[0] == self.region]:
                _released.append(_mempools.pop(key))
            _drop_released(torch)

    def __enter__(self) -> Pool:
        entry = self._entry()
        entry.begin()
        _stack().append(entry)
        return self

    def __exit__(self, kind: Any, error: Any, _trace: Any) -> None:
        entry = _stack().pop()
        entry.end()
        if error is not None and isinstance(entry, _ByMemPool):
            _explain(error)


def _explain(error):
    """Adds acre's report to an error of PyTorch's allocator, whose own text does not know acre."""
    import torch

    if not isinstance(error, getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)):
        return
    text = _plug.failure()
    if text and error.args and text not in str(error.args[0]):
        error.args = (f"{error.args[0]}\n{text}", *error.args[1:])


@contextlib.contextmanager
def set_aside():
    """Leaves all regions of this thread for a while."""
    with contextlib.ExitStack() as stack:
        for entry in reversed(_stack()):
            entry.set_aside()
            stack.callback(entry.take_up)
        yield


def pool(tag: str, *, backward: bool = False, own: bool = False) -> Pool:
    """Returns a region: `with acre.torch.pool(tag="kv"):` serves what this thread allocates from acre.

    The memory is counted under the tag, which may be a path ("model/kv"): see memory_summary(), and
    acre_tag_set_limit. A block keeps its tag until it is freed.

    PyTorch runs backward in threads of its own, which a `with` of this thread does not reach. With
    backward=True the region also serves these threads, for work of the stream that is current at the
    `with`:

        with acre.torch.pool(tag="gradients", backward=True):
            loss.backward()

    Without use() on the default stream, backward=True serves all threads and streams: PyTorch cannot
    select the default stream alone.

    Without use(), do not run graphs of torch.compile inside the region: their memory would come from it.

    With own=True the region has a pool of its own, apart from all other memory, so that acre.saver can
    take it off the card as a whole.
    """
    return Pool(tag, backward=backward, own=own)
