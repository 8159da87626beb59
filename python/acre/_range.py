"""Ranges: addresses whose pieces get and lose device memory anywhere."""

from __future__ import annotations

import ctypes
from typing import Any, List, NamedTuple, Optional

from . import _declarations as c
from . import _native
from ._device import Device
from ._library import check, lib, make
from ._memory import Exports, Memory
from ._object import Handle
from ._values import Record, record, size, stream_handle


class Part(NamedTuple):
    """Consecutive pieces of a range in the same state."""

    ptr: int
    offset: int
    nbytes: int
    is_committed: bool


class Budget(Handle):
    """A limit on the memory of several ranges together; 0: none."""

    def __init__(self, device: Device, limit_bytes: int = 0) -> None:
        super().__init__(device)
        made = ctypes.c_void_p()
        check(lib().acre_range_budget_create(device.handle, size(limit_bytes, "limit_bytes"), ctypes.byref(made)))
        self._handle = made.value

    def _destroy(self, handle: int) -> None:
        check(lib().acre_range_budget_destroy(handle))

    def set_limit(self, limit_bytes: int) -> None:
        """Changes the limit; 0: none."""
        check(lib().acre_range_budget_set_limit(self.handle, size(limit_bytes, "limit_bytes")))

    def trim(self, keep_bytes: int = 0) -> None:
        """Unmaps idle pieces of all ranges."""
        check(lib().acre_range_budget_trim(self.handle, size(keep_bytes, "keep_bytes")))

    @property
    def stats(self) -> Record:
        """Sums over the ranges of the budget."""
        stats = make(c.acre_range_stats)
        check(lib().acre_range_budget_get_stats(self.handle, ctypes.byref(stats)))
        return record(stats)


class Range(Memory, Handle):
    """Reserved addresses that never change. commit() gives pieces memory, decommit() takes it away, in any order.

    Options: budget (an acre.Budget), or limit_bytes for the range alone; piece_bytes (default 2 MiB); stream.
    `nbytes` and `shape` cover all addresses, with or without memory: kernels may touch committed pieces only.
    """

    def __init__(
        self,
        device: Device,
        nbytes: int,
        *,
        budget: Optional[Budget] = None,
        limit_bytes: int = 0,
        piece_bytes: int = 0,
        stream: Any = None,
    ) -> None:
        Handle.__init__(self, device)
        Memory.__init__(self, device, "device", stream)
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError(f"budget must be an acre.Budget, not {type(budget).__name__}")
        self.budget = budget
        options = make(
            c.acre_range_options,
            budget=budget.handle if budget is not None else None,
            limit_bytes=size(limit_bytes, "limit_bytes"),
            piece_bytes=size(piece_bytes, "piece_bytes"),
        )
        made = ctypes.c_void_p()
        check(lib().acre_range_create(device.handle, size(nbytes), ctypes.byref(options), ctypes.byref(made)))
        self._handle = made.value
        self._nbytes = self.stats.address_bytes
        self._ptr = lib().acre_range_data(made) or 0

    def _destroy(self, handle: int) -> None:
        self._finish_uses(lambda stream: lib().acre_range_record_use(handle, stream))
        check(lib().acre_range_destroy(handle, self._last_stream()))

    def close(self) -> None:
        """Destroys the range and frees its memory and addresses. A second call is a no-op."""
        self._close(lambda: self._must_be_free("free memory"))

    @property
    def ptr(self) -> int:  # type: ignore[override]
        self.handle  # raises if it is closed
        return self._ptr

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return self._nbytes

    def _stream_of(self, stream: Any) -> int:
        return stream_handle(self._stream if stream is None else stream)

    def commit(self, offset: int, nbytes: int, stream: Any = None) -> None:
        """Gives the pieces of `nbytes` bytes at `offset` memory, for work of `stream`."""
        start, length = size(offset, "offset"), size(nbytes)
        check(lib().acre_range_commit(self.handle, start, length, self._stream_of(stream)))

    def decommit(self, offset: int, nbytes: int, stream: Any = None) -> None:
        """Takes the memory of pieces away. Work queued so far may still use it."""
        start, length = size(offset, "offset"), size(nbytes)
        with Exports.lock:
            self._must_be_free("decommit memory")
            check(lib().acre_range_decommit(self.handle, start, length, self._stream_of(stream)))

    def record_use(self, stream: Any) -> None:
        """Records that work queued on another stream so far uses the range."""
        check(lib().acre_range_record_use(self.handle, stream_handle(stream)))

    def trim(self, keep_bytes: int = 0) -> None:
        """Unmaps idle pieces until the range has at most `keep_bytes` of memory."""
        check(lib().acre_range_trim(self.handle, size(keep_bytes, "keep_bytes")))

    def parts(self) -> List[Part]:
        """Lists the committed and the idle parts, by rising offset."""
        walk = lib().acre_range_walk
        found = _native.walk(walk, c.acre_range_walk_fn, "acre_python_range", c.acre_range_part, self.handle)
        return [Part(item.address or 0, item.offset, item.bytes, bool(item.is_committed)) for item in found]

    @property
    def stats(self) -> Record:
        """Statistics of the range; stats.meaning("idle_bytes") says what one counts."""
        stats = make(c.acre_range_stats)
        check(lib().acre_range_get_stats(self.handle, ctypes.byref(stats)))
        return record(stats)
