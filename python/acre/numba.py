"""acre as Numba's memory manager (External Memory Management plug-in, version 1).

    NUMBA_CUDA_MEMORY_MANAGER=acre.numba python3 program.py

or, before the first use of a GPU:

    from numba import cuda
    import acre.numba
    cuda.set_memory_manager(acre.numba.Manager)

Numba's interface names no stream: any stream may use an array, and Numba's own cuMemFree waits for the
device. The plug-in keeps that promise. It collects freed arrays, waits for the device once for many of
them, and then gives them to acre's pool (`ACRE_NUMBA_ORDER=wait`, the default). A program that uses only
the default stream can set ACRE_NUMBA_ORDER=stream: arrays are freed in its order, without waiting.
"""

import collections
import contextlib
import ctypes
import gc
import os
from typing import Any, Dict

from numba.cuda.cudadrv import driver as _driver

from . import _declarations as c
from . import _library
from ._library import check, lib, make

__all__ = ["Manager", "OutOfMemory", "stats"]

PENDING_COUNT = 64  # freed arrays before the plug-in waits for the device
PENDING_PART = 0.05  # or the part of the device's memory that they have
CUDA_ERROR_OUT_OF_MEMORY = 2


class OutOfMemory(_driver.CudaAPIError, _library.OutOfMemory):
    """Numba's CudaAPIError, with acre's report of what uses the memory."""

    def __init__(self, code: Any, msg: str, error: Any = None) -> None:
        _driver.CudaAPIError.__init__(self, code, msg)
        self.status = error.status if error else c.ACRE_E_DEVICE_MEMORY
        self.name = error.name if error else "ACRE_E_DEVICE_MEMORY"
        self.detail = error.detail if error else msg
        self.report = error.report if error else ""
        self.json_report = error.json_report if error else None

    def __str__(self):
        return self.msg

    def __reduce__(self):
        return type(self), (self.code, self.msg)


def _pointer(address):
    """An address in the form that this version of Numba passes to the driver."""
    if getattr(_driver, "USE_NV_BINDING", True) and hasattr(_driver, "binding"):
        return _driver.binding.CUdeviceptr(address)
    return ctypes.c_uint64(address)


class Manager(_driver.HostOnlyCUDAMemoryManager):
    """Device memory from acre's default pool. Host memory stays with Numba."""

    driver = "cuda"  # of acre

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        order = os.environ.get("ACRE_NUMBA_ORDER", "wait")
        if order not in ("wait", "stream"):
            raise ValueError(f'ACRE_NUMBA_ORDER is "{order}"; it must be "wait" or "stream"')
        self._waits = order == "wait"
        self._live: Dict[Any, Any] = {}  # address: a list with the bytes, which is also the block's identity
        self._pending: Any = collections.deque()  # freed by the program, not yet by the pool
        self._pending_bytes = 0
        self._deferred = 0  # nesting of defer_cleanup
        self._device = self._pool = None
        self._total = 0

    @property
    def interface_version(self) -> int:
        """The version of the interface."""
        return 1

    def initialize(self) -> None:
        """A no-op: Numba calls it whenever a context becomes current, also one that never allocates."""

    def _open(self):
        """Opens the context's device, once."""
        if self._pool:
            return
        device, pool = ctypes.c_void_p(), ctypes.c_void_p()
        name = f"{self.driver}:{int(self.context.device.id)}"
        check(lib().acre_open(name.encode(), None, ctypes.byref(device)))
        check(lib().acre_pool_default(device, c.ACRE_KIND_DEVICE, ctypes.byref(pool)))
        self._device, self._pool = device, pool
        self._total = self.get_memory_info().total

    def _take(self, size, p):
        return lib().acre_pool_alloc(self._pool, max(1, size), 0, None, ctypes.byref(p))

    def memalloc(self, size: int) -> Any:
        """Allocates device memory and returns a MemoryPointer."""
        self._open()
        p = ctypes.c_void_p()
        status = self._take(size, p)
        if status in _library.MEMORY:
            gc.collect()  # arrays in reference cycles are garbage, too
            self.flush()
            status = self._take(size, p)
        try:
            check(status, report=True)
        except _library.OutOfMemory as error:
            raise OutOfMemory(CUDA_ERROR_OUT_OF_MEMORY, str(error), error) from None
        address, block = p.value, [size]
        self._live[address] = block
        return _driver.MemoryPointer(
            self.context, _pointer(address), size, finalizer=lambda: self._freed(address, block)
        )

    def _freed(self, address, block):
        """Called when the last reference to a block is gone, in any thread."""
        if self._live.get(address) is not block:  # reset has freed it; another block may be there
            return
        del self._live[address]
        size = block[0]
        if not self._waits:
            lib().acre_pool_free(self._pool, address, None)
            return
        self._pending.append(address)
        self._pending_bytes += size
        if len(self._pending) > PENDING_COUNT or self._pending_bytes > PENDING_PART * self._total:
            if not self._deferred:
                self.flush()

    def flush(self) -> None:
        """Waits for the device, and gives the arrays freed so far to the pool."""
        addresses = []
        while self._pending:
            with contextlib.suppress(IndexError):  # another thread was faster
                addresses.append(self._pending.popleft())
        self._pending_bytes = 0
        if not addresses:
            return
        lib().acre_device_sync(self._device)
        for address in addresses:
            lib().acre_pool_free(self._pool, address, None)

    @contextlib.contextmanager
    def defer_cleanup(self) -> Any:
        """Within the context manager the plug-in does not wait for the device to free memory."""
        with super().defer_cleanup():
            self._deferred += 1
            try:
                yield
            finally:
                self._deferred -= 1

    def reset(self) -> None:
        """Frees all memory of the context, also that of live arrays."""
        super().reset()
        for address in list(self._live):
            self._live.pop(address, None)
            self._pending.append(address)
        if self._pool:
            self.flush()

    def get_memory_info(self) -> Any:
        """Free and total bytes of the device. Memory that the pool holds for reuse counts as free."""
        self._open()
        info, pool = make(c.acre_device_info), make(c.acre_pool_stats)
        check(lib().acre_device_get_info(self._device, ctypes.byref(info)))
        check(lib().acre_pool_get_stats(self._pool, ctypes.byref(pool)))
        free = info.free_bytes + max(0, pool.held_bytes - pool.live_bytes)
        return _driver.MemoryInfo(free=min(free, info.total_bytes), total=info.total_bytes)

    def get_ipc_handle(self, memory: Any) -> Any:
        """Refuses: CUDA exports only memory of cuMemAlloc, and acre's pool maps its memory."""
        raise NotImplementedError(
            "acre.numba: memory of acre's pool has no CUDA IPC handle. Share it with another process by "
            "acre's own sharing, or run the program under `acre run`, which serves IPC handles."
        )


_numba_memory_manager = Manager


def stats(device: int = 0, driver: str = "cuda") -> Dict[str, int]:
    """Returns the statistics of the pool that serves a device, as a dict."""
    opened, pool = ctypes.c_void_p(), ctypes.c_void_p()
    values = make(c.acre_pool_stats)
    check(lib().acre_open(f"{driver}:{device}".encode(), None, ctypes.byref(opened)))
    try:
        check(lib().acre_pool_default(opened, c.ACRE_KIND_DEVICE, ctypes.byref(pool)))
        check(lib().acre_pool_get_stats(pool, ctypes.byref(values)))
    finally:
        lib().acre_close(opened)
    names = [name for name, _ in c.acre_pool_stats._fields_ if name != "struct_size"]
    return {name: getattr(values, name) for name in names}
