"""Heaps for malloc inside kernels, from the host."""

from __future__ import annotations

import ctypes
import os
from typing import List, NamedTuple, Optional

from . import _declarations as c
from . import _native
from ._device import Device
from ._library import beside, check, lib, make
from ._object import Handle
from ._pool import Leaked
from ._values import Record, record, size


class HeapBlock(NamedTuple):
    """A live block of a heap. Debug builds of kernels mark their blocks with requested size and tag."""

    ptr: int
    nbytes: int
    asked_nbytes: int
    tag: int
    is_marked: bool
    is_overrun: bool


def heap_header() -> str:
    """Returns the path of acre_heap_rtc.h: the functions of heaps for kernels, in one file for NVRTC, which CuPy's
    RawModule takes as source before that of the kernels."""
    name = "acre_heap_rtc.h"
    found = beside(name, os.path.join("include", name), "include")
    if not found:
        raise FileNotFoundError(f"{name} is not in the package; it is in the include folder of an installed acre")
    return found[0]


class Heap(Handle):
    """A heap that kernels allocate from (acre_heap.h). `kernel_argument` is what they take by value.

    Options: initial_bytes, limit_bytes, step_bytes, ahead_bytes, wait_ns, service=False for no thread that grows it.
    """

    def __init__(
        self,
        device: Device,
        *,
        initial_bytes: int = 0,
        limit_bytes: int = 0,
        step_bytes: int = 0,
        ahead_bytes: int = 0,
        wait_ns: int = 0,
        service: bool = True,
    ) -> None:
        super().__init__(device)
        self.leaked: Optional[Leaked] = None
        options = make(
            c.acre_heap_options,
            initial_bytes=size(initial_bytes, "initial_bytes"),
            limit_bytes=size(limit_bytes, "limit_bytes"),
            step_bytes=size(step_bytes, "step_bytes"),
            wait_ns=size(wait_ns, "wait_ns"),
            flags=0 if service else c.ACRE_HEAP_NO_SERVICE,
            ahead_bytes=size(ahead_bytes, "ahead_bytes"),
        )
        made = ctypes.c_void_p()
        check(lib().acre_heap_create(device.handle, ctypes.byref(options), ctypes.byref(made)))
        self._handle = made.value

    def _destroy(self, handle: int) -> None:
        blocks, nbytes = ctypes.c_uint64(), ctypes.c_uint64()
        check(lib().acre_heap_destroy(handle, ctypes.byref(blocks), ctypes.byref(nbytes)))
        self.leaked = Leaked(blocks.value, nbytes.value)

    def close(self) -> Optional[Leaked]:  # type: ignore[override]
        """Destroys the heap with all its blocks, and returns how many were still live."""
        super().close()
        return self.leaked

    @property
    def kernel_argument(self) -> bytes:
        """The acre_heap_handle as bytes: CuPy passes numpy.frombuffer(heap.kernel_argument, "V32") by value."""
        found = c.acre_heap_handle()
        check(lib().acre_heap_get_handle(self.handle, ctypes.byref(found)))
        return bytes(found)

    def grow(self, nbytes: int) -> None:
        """Maps more memory until the heap has `nbytes` in all."""
        check(lib().acre_heap_grow(self.handle, size(nbytes)))

    def trim(self, nbytes: int = 0) -> None:
        """Unmaps free memory at the end until `nbytes` are left. No kernel may use the heap meanwhile."""
        check(lib().acre_heap_trim(self.handle, size(nbytes)))

    def reset(self) -> None:
        """Frees all blocks at once. No kernel may use the heap meanwhile."""
        check(lib().acre_heap_reset(self.handle))

    @property
    def limit_bytes(self) -> int:
        """The limit of the heap; it may be set up to the one that the heap was created with."""
        found = ctypes.c_uint64()
        check(lib().acre_heap_get_limit(self.handle, ctypes.byref(found)))
        return found.value

    @limit_bytes.setter
    def limit_bytes(self, nbytes: int) -> None:
        check(lib().acre_heap_set_limit(self.handle, size(nbytes)))

    def blocks(self) -> List[HeapBlock]:
        """Lists all live blocks. No kernel may use the heap meanwhile."""
        inspect = lib().acre_heap_inspect
        found = _native.walk(inspect, c.acre_heap_inspect_fn, "acre_python_heap", c.acre_heap_block, self.handle)
        made = []
        for item in found:
            is_marked = bool(item.flags & c.ACRE_HEAP_BLOCK_MARKED)
            is_overrun = bool(item.flags & c.ACRE_HEAP_BLOCK_OVERRUN)
            made.append(HeapBlock(item.address or 0, item.bytes, item.asked_bytes, item.tag, is_marked, is_overrun))
        return made

    @property
    def stats(self) -> Record:
        """Statistics of the heap; stats.meaning("failed") says what one counts."""
        stats = make(c.acre_heap_stats)
        check(lib().acre_heap_get_stats(self.handle, ctypes.byref(stats)))
        return record(stats)
