"""Pools: allocation in stream order, and blocks that may leave the device."""

from __future__ import annotations

import ctypes
import sys
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from . import _declarations as c
from . import _native
from ._closing import Unique
from ._device import Device, Event
from ._library import check, lib, make
from ._memory import Array, Exports, OwnedMemory
from ._object import Handle
from ._values import KINDS, Record, Shape, choice, count_of, dtype, record, shape_of, size, stream_handle


class LiveBlock(NamedTuple):
    """A live block of a pool, as blocks() lists it."""

    ptr: int
    nbytes: int


class Leaked(NamedTuple):
    """Blocks that were live when their pool or heap was closed."""

    blocks: int
    nbytes: int


class Block(OwnedMemory):
    """A block of a pool. It is freed in stream order: by free(), at the end of `with`, or by the garbage collector,
    then on the stream that it was allocated for. Work queued on that stream before may still use it."""

    def __init__(self, pool: Pool, ptr: int, nbytes: int, stream: Any) -> None:
        super().__init__(pool.device, ptr, nbytes, pool.kind, stream)
        self.pool = pool

    @property
    def ptr(self) -> int:  # type: ignore[override]
        if not self.pool.is_open:
            raise ValueError("this block has no memory any more: its pool is closed")
        return OwnedMemory.ptr.fget(self)  # type: ignore[attr-defined]

    def _exports_of(self) -> List[Exports]:
        return [*super()._exports_of(), self.pool._exports]

    def _free(self, ptr: int, stream: int) -> int:
        if not self.pool.is_open:
            return c.ACRE_OK  # the pool took the block with it
        return lib().acre_pool_free(self.pool.handle, ptr, stream)

    def _record_at(self, ptr: int, stream: int) -> int:
        if not self.pool.is_open:
            return c.ACRE_OK
        return lib().acre_pool_record_use(self.pool.handle, ptr, stream)

    def free_after(self, event: Event) -> None:
        """Frees the block; any stream may reuse it once the event has completed."""
        self._finish_consumers()
        pool, when = self.pool.handle, event.handle
        ptr = self._taken("free memory")
        status = lib().acre_pool_free_after(pool, ptr, when)
        self._ptr = ptr if status else None
        check(status)

    def _finish_consumers(self) -> None:
        """Before a free: work of the libraries that the block was exported to may still be in flight."""
        ptr = self.ptr
        self._finish_uses(lambda used: self._record_at(ptr, used))

    def record_use(self, stream: Any) -> None:
        """Records that work queued on another stream so far uses the block."""
        check(lib().acre_pool_record_use(self.pool.handle, self.ptr, stream_handle(stream)))

    def resize(self, nbytes: int, stream: Any = None) -> None:
        """Resizes the block and keeps its contents; the address may change."""
        p = ctypes.c_void_p()
        handle = stream_handle(self._stream if stream is None else stream)
        pool, length = self.pool.handle, size(nbytes)
        old = self._taken("resize memory")
        status = lib().acre_pool_realloc(pool, old or None, length, handle, ctypes.byref(p))
        self._ptr, self._nbytes = (old, self._nbytes) if status else (p.value or 0, nbytes)
        check(status, report=True)

    @property
    def usable_nbytes(self) -> int:
        """The bytes of the block after rounding."""
        return lib().acre_pool_usable_size(self.pool.handle, self.ptr) or self.pool._zero()


class SpillableBlock(Block):
    """A block that may leave the device when memory is short. `with block.bring():` has it there."""

    def bring(self, stream: Any = None) -> Brought:
        """Brings the block back, if it is away. Until the end of `with` (or end()) it stays. Queue its work inside."""
        chosen = self._stream if stream is None else stream
        check(lib().acre_bring(self.ptr, stream_handle(chosen)), report=True)
        return Brought(self, chosen)


class Brought(Unique):
    """A spillable block that stays on the device until end()."""

    def __init__(self, block: SpillableBlock, stream: Any) -> None:
        self.block, self._stream, self._is_here = block, stream, True

    def end(self) -> None:
        """The block may leave again, when the work queued so far is done."""
        if self._is_here:
            self._is_here = False
            check(lib().acre_bring_end(self.block.ptr, stream_handle(self._stream)))

    def __enter__(self) -> SpillableBlock:
        return self.block

    def __exit__(self, *_: Any) -> None:
        self.end()


class Pool(Handle):
    """A pool of one kind of memory: "device" (default), "pinned", "mapped" or "managed".

    Options: initial_bytes, soft_limit_bytes, limit_bytes; zero=True zeroes every block; debug=True finds writes past
    a block and after its free. device.default_pool() is the one that device.alloc() uses.
    """

    _is_default = False

    def __init__(
        self,
        device: Device,
        kind: str = "device",
        *,
        initial_bytes: int = 0,
        soft_limit_bytes: int = 0,
        limit_bytes: int = 0,
        zero: bool = False,
        debug: bool = False,
    ) -> None:
        super().__init__(device)
        self.kind = kind
        self._callback: Any = None
        self._exported = Exports()
        self.leaked: Optional[Leaked] = None
        options = make(
            c.acre_pool_options,
            kind=choice(kind, KINDS, "kind"),
            flags=c.ACRE_POOL_ZERO * bool(zero) | c.ACRE_POOL_DEBUG * bool(debug),
            initial_bytes=size(initial_bytes, "initial_bytes"),
            soft_limit_bytes=size(soft_limit_bytes, "soft_limit_bytes"),
            limit_bytes=size(limit_bytes, "limit_bytes"),
        )
        made = ctypes.c_void_p()
        check(lib().acre_pool_create(device.handle, ctypes.byref(options), ctypes.byref(made)))
        self._handle = made.value

    @classmethod
    def _default(cls, device: Device, kind: str) -> Pool:
        pool = cls.__new__(cls)
        Handle.__init__(pool, device)
        pool.kind = kind
        pool._callback, pool.leaked, pool._is_default = None, None, True
        pool._exported = Exports()
        found = ctypes.c_void_p()
        number = choice(kind, KINDS, "kind")
        check(lib().acre_pool_default(device.handle, number, ctypes.byref(found)))
        pool._handle = found.value
        return pool

    def _destroy(self, handle: int) -> None:
        if self._is_default:
            return  # it belongs to the device
        blocks, nbytes = ctypes.c_uint64(), ctypes.c_uint64()
        check(lib().acre_pool_destroy(handle, ctypes.byref(blocks), ctypes.byref(nbytes)))
        self.leaked = Leaked(blocks.value, nbytes.value)

    def close(self) -> Optional[Leaked]:  # type: ignore[override]
        """Destroys the pool with all its blocks, and returns how many were still live. BufferError while an array,
        tensor or memoryview elsewhere uses one. No-op for a default pool."""
        if not self._is_default:
            self._close(lambda: self._exported.must_be_none("close pool"))
        return self.leaked

    @property
    def _exports(self) -> Exports:
        self.handle  # raises if it is closed
        return self._exported

    # ---- blocks ----

    def alloc(self, nbytes: int, stream: Any = None, *, alignment: int = 0, zeroed: bool = False) -> Block:
        """Allocates a block for work of `stream`. OutOfMemory has a report of what fills the memory."""
        call = lib().acre_pool_alloc_zeroed if zeroed else lib().acre_pool_alloc
        p = ctypes.c_void_p()
        length, line = size(nbytes), size(alignment, "alignment")
        check(call(self.handle, length, line, stream_handle(stream), ctypes.byref(p)), report=True)
        return Block(self, p.value or 0, length, stream)

    def alloc_many(self, nbytes: int, count: int, stream: Any = None) -> List[Block]:
        """Allocates `count` blocks of `nbytes` each, all or none."""
        length, many = size(nbytes), size(count, "count", 2**32)
        found = (ctypes.c_void_p * max(many, 1))()
        check(lib().acre_pool_alloc_many(self.handle, length, many, stream_handle(stream), found), report=True)
        return [Block(self, p or 0, length, stream) for p in found[:many]]

    def alloc_spillable(self, nbytes: int, stream: Any = None) -> SpillableBlock:
        """Allocates a block that may leave the device when memory is short."""
        p = ctypes.c_void_p()
        length = size(nbytes)
        status = lib().acre_pool_alloc_spillable(self.handle, length, stream_handle(stream), ctypes.byref(p))
        check(status, report=True)
        return SpillableBlock(self, p.value or 0, length, stream)

    def empty(self, shape: Shape, type_: Any = "float32", stream: Any = None) -> Array:
        """Allocates an array with undefined contents."""
        dims, kind = shape_of(shape), dtype(type_)
        return self.alloc(count_of(dims) * kind.itemsize, stream).view(kind, dims)

    def zeros(self, shape: Shape, type_: Any = "float32", stream: Any = None) -> Array:
        """Allocates an array of zeros."""
        dims, kind = shape_of(shape), dtype(type_)
        return self.alloc(count_of(dims) * kind.itemsize, stream, zeroed=True).view(kind, dims)

    def free_many(self, blocks: List[Block], stream: Any = None) -> None:
        """Frees blocks of this pool together. Work queued on `stream` (default: each block's own) may still use
        them. Stops at the first failure."""
        for block in blocks:
            if block.pool.handle != self.handle:
                raise ValueError("a block belongs to another pool")
            block._must_be_free("free memory")
        given = None if stream is None else stream_handle(stream)
        groups: Dict[int, List[Block]] = {}
        for block in blocks:
            block._finish_consumers()
            groups.setdefault(block._last_stream() if given is None else given, []).append(block)
        for handle, group in groups.items():
            self._free_group(group, handle)

    def _free_group(self, blocks: List[Block], stream: int) -> None:
        pointers = (ctypes.c_void_p * len(blocks))(*[block.ptr for block in blocks])
        freed = ctypes.c_size_t()
        status = lib().acre_pool_free_many(self.handle, pointers, len(blocks), stream, ctypes.byref(freed))
        for block in blocks[: freed.value]:
            block._ptr = None
        check(status)

    def blocks(self) -> List[LiveBlock]:
        """Lists all live blocks."""
        walk = lib().acre_pool_walk
        found = _native.walk(walk, c.acre_pool_walk_fn, "acre_python_pool", _native.PoolItem, self.handle)
        return [LiveBlock(item.ptr, item.nbytes) for item in found]

    def __contains__(self, address: Any) -> bool:
        where = getattr(address, "ptr", address)
        return bool(lib().acre_pool_owns(self.handle, size(where, "address")) or self._zero())

    def _zero(self) -> int:
        """Returns 0 if the library works. Functions without a status return 0 in a forked child: Error there."""
        check(lib().acre_pool_get_stats(self.handle, ctypes.byref(make(c.acre_pool_stats))))
        return 0

    # ---- the pool ----

    def reserve(self, nbytes: int) -> None:
        """Adds physical memory until the pool holds `nbytes`."""
        check(lib().acre_pool_reserve(self.handle, size(nbytes)), report=True)

    def trim(self, keep_bytes: int = 0) -> None:
        """Releases free memory to the driver until the pool holds at most `keep_bytes`."""
        check(lib().acre_pool_trim(self.handle, size(keep_bytes, "keep_bytes")))

    def set_limits(self, limit_bytes: int = 0, soft_limit_bytes: int = 0) -> None:
        """Limits live and cached blocks; 0: no limit. Above the soft limit, the pool releases free memory."""
        soft, hard = size(soft_limit_bytes, "soft_limit_bytes"), size(limit_bytes, "limit_bytes")
        check(lib().acre_pool_set_limits(self.handle, soft, hard))

    def set_callback(self, function: Optional[Callable[[int, int], Any]]) -> None:
        """Sets a function that is called when the pool has no memory: function(wanted_bytes, attempt) returns true if
        it freed memory, so that the pool tries again. None ends this. An exception counts as false."""
        if function is None:
            callback = c.acre_pool_oom_fn(0)
        else:
            callback = c.acre_pool_oom_fn(_guarded(function))
        check(lib().acre_pool_set_callback(self.handle, callback, None))
        # Other threads may still be in the earlier one.
        _callbacks.append(callback)
        self._callback = function

    def graph_share(self, stream: Any, key: int) -> None:
        """Lets captures of `stream` with the same key reuse each other's memory; key 0 ends that for the stream."""
        check(lib().acre_pool_graph_share(self.handle, stream_handle(stream), size(key, "key")))

    def graph_end(self, key: int) -> None:
        """Ends the sharing under a key."""
        check(lib().acre_pool_graph_end(self.handle, size(key, "key")))

    @property
    def stats(self) -> Record:
        """Statistics of the pool; stats.meaning("live_bytes") says what one counts."""
        stats = make(c.acre_pool_stats)
        check(lib().acre_pool_get_stats(self.handle, ctypes.byref(stats)))
        return record(stats)

    def __repr__(self) -> str:
        state = "" if self.is_open else ", closed"
        return f"<acre.Pool of {self.kind} memory of {self.device.name}{state}>"


_callbacks: List[Any] = []  # callbacks of ctypes, which must outlive the pools that call them


def _guarded(function: Callable[[int, int], Any]) -> Callable[..., int]:
    """A callback that lets no exception into C."""

    def call(_user: Any, _pool: Any, wanted: int, attempt: int) -> int:
        try:
            return 1 if function(wanted, attempt) else 0
        except BaseException as error:  # pylint: disable=broad-except
            _report_ignored(function, error)
            return 0

    return call


class _Unraisable:
    """The argument of sys.unraisablehook."""

    def __init__(self, culprit: Any, error: BaseException) -> None:
        self.exc_type, self.exc_value, self.exc_traceback = type(error), error, error.__traceback__
        self.err_msg, self.object = "Exception ignored in a callback of acre", culprit


def _report_ignored(culprit: Any, error: BaseException) -> None:
    """Tells a hook of the program about an exception, or prints it. Raises nothing."""
    try:
        if sys.unraisablehook is not sys.__unraisablehook__:  # Python's own accepts no other argument than its own
            sys.unraisablehook(_Unraisable(culprit, error))  # type: ignore[arg-type]
        elif sys.stderr is not None:
            print(f"Exception ignored in a callback of acre: {culprit!r}", file=sys.stderr)
            traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
    except BaseException:  # pylint: disable=broad-except
        pass
