"""Devices, streams and events."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, Dict, Optional, TypeVar

from . import _declarations as c
from ._closing import Closing, Unique
from ._library import Error, check, lib, make
from ._memory import Allocation, Array, Exports, Memory
from ._transfer import copy, copy_2d, fill
from ._values import KIND_NAMES, Record, Shape, record, size, stream_handle, text

if TYPE_CHECKING:
    from ._heap import Heap
    from ._plan import Plan
    from ._pool import Block, Pool
    from ._range import Budget, Range
    from ._share import Import
    from ._suspend import Suspended
    from ._transfer import Registration
    from ._vec import Vec
    from ._vm import Chunk, Granularity, Reservation


QueuedSelf = TypeVar("QueuedSelf", bound="_Queued")


class _State:
    """A device of the library, shared by all Device objects that opened it."""

    def __init__(self, handle: int) -> None:
        self.handle: Optional[int] = handle
        self.exports = Exports()
        self.abandoned = 0  # opens whose Device is gone, but whose close exports prevented


# One lock for devices and exports: garbage may be collected while it is held, and a Device among it closes itself.
# With two locks, two threads could take them in opposite orders.
_lock = Exports.lock
_states: Dict[str, _State] = {}  # by the name of the device


def _state(name: str, handle: int, opens: int) -> _State:
    """The state of a device. After its first open, objects of an earlier life of the device are dead."""
    known = _states.get(name)
    if known is not None and known.handle == handle and opens > 1:
        return known
    if known is not None:
        known.handle = None
    _states[name] = _State(handle)
    return _states[name]


def open(
    name: Optional[str] = None, *, soft_bytes: int = 0, soft_devices: int = 0, soft: bool = True
) -> Device:
    """Opens a device: "cuda", "cuda:1", "soft", "soft:1", or "auto" (default): the device that ACRE_DEVICE
    names, else the first GPU, else the soft device, which emulates a GPU on the CPU.

    soft=False never opens a soft device. soft_bytes and soft_devices are the memory and the number of soft devices.
    """
    return Device(name, soft_bytes=soft_bytes, soft_devices=soft_devices, soft=soft)


def device_count(driver: str = "cuda") -> int:
    """Returns the number of devices of a driver, "cuda" or "soft"."""
    count = ctypes.c_uint32()
    check(lib().acre_device_count(text(driver, "driver"), ctypes.byref(count)))
    return count.value


class Device(Closing):
    """A GPU, or a soft device. acre.open() returns one; `with` and close() close it.

    Everything else begins here: device.empty((3, 4), "float32"), device.pool(), device.vec("float32").
    Closing frees all objects of the device, unless something else has it open. While another library holds an export
    of its memory, close() raises BufferError instead.
    """

    def __init__(
        self, name: Optional[str] = None, *, soft_bytes: int = 0, soft_devices: int = 0, soft: bool = True
    ) -> None:
        self._shared: Optional[_State] = None
        options = make(
            c.acre_open_options,
            soft_bytes=size(soft_bytes, "soft_bytes"),
            soft_devices=size(soft_devices, "soft_devices", 2**32 - 1),
            flags=0 if soft else c.ACRE_OPEN_NO_SOFT,
        )
        handle = ctypes.c_void_p()
        wanted = None if name is None else text(name, "name")
        with _lock:
            check(lib().acre_open(wanted, ctypes.byref(options), ctypes.byref(handle)))
            assert handle.value is not None
            info = make(c.acre_device_info)
            check(lib().acre_device_get_info(handle, ctypes.byref(info)))
            self.driver = info.driver.decode()
            self.ordinal = info.ordinal
            self.name = f"{self.driver}:{self.ordinal}"
            self._shared = _state(self.name, handle.value, info.open_count)
            self._is_open = True

    @property
    def handle(self) -> int:
        """The acre_device of the C API."""
        if not self.is_open:
            raise ValueError(f"device {self.name} is closed")
        return self._shared.handle  # type: ignore

    @property
    def is_open(self) -> bool:
        """Whether objects of the device are usable."""
        return self._shared is not None and self._shared.handle is not None

    @property
    def _exports(self) -> Exports:
        self.handle  # raises if it is closed
        return self._shared.exports  # type: ignore

    def close(self) -> None:
        """Closes the device. BufferError if that would free memory that an array, tensor or memoryview elsewhere
        uses. A second call is a no-op."""
        if self._shared is None or not self._is_open:
            return
        with _lock:
            if self._shared.handle is not None:
                self._close_one(self._shared)
            self._is_open = False

    def _close_one(self, shared: _State) -> None:
        """Closes the device once for acre; the last time, all of its objects end."""
        handle = shared.handle
        info = make(c.acre_device_info)
        status = lib().acre_device_get_info(handle, ctypes.byref(info))
        if status != c.ACRE_OK or info.open_count <= 1:
            if status == c.ACRE_OK:
                shared.exports.must_be_none(f"close device {self.name}")
            shared.handle = None
            _states.pop(self.name, None)
        self._is_open = False  # whatever acre_close returns
        if status != c.ACRE_E_HANDLE:  # something else closed it
            check(lib().acre_close(handle))

    def __del__(self) -> None:
        # acre makes no driver call at exit. In a forked child every call fails.
        if sys is None or sys.is_finalizing() or getattr(self, "_shared", None) is None:
            return
        shared: _State = self._shared  # type: ignore
        try:
            self.close()
        except BufferError:
            # The export is of another Device of the same name, which it keeps alive: that one closes for both.
            shared.abandoned += 1
        except Error:
            pass
        try:
            while shared.abandoned and shared.handle is not None:
                with _lock:
                    self._close_one(shared)
                shared.abandoned -= 1
        except (BufferError, Error):
            pass

    def __repr__(self) -> str:
        return f"<acre.Device {self.name}{'' if self.is_open else ', closed'}>"

    @property
    def info(self) -> Record:
        """Properties and capabilities: name, total_bytes, free_bytes, has_vmm and others."""
        info = make(c.acre_device_info)
        check(lib().acre_device_get_info(self.handle, ctypes.byref(info)))
        return record(info)

    @property
    def stats(self) -> Record:
        """Statistics of the device; stats.meaning("chunks") says what one counts."""
        stats = make(c.acre_device_stats)
        check(lib().acre_device_get_stats(self.handle, ctypes.byref(stats)))
        return record(stats)

    def synchronize(self) -> None:
        """Waits for all work that this process has queued on the device."""
        check(lib().acre_device_sync(self.handle))

    def set_limits(self, limit_bytes: int = 0, margin_bytes: int = 0) -> None:
        """Limits the device memory that acre holds in this process, for whatever purpose. margin_bytes of the card stay
        free for others. 0: no limit. A limit below what acre holds releases idle memory; after synchronize(),
        that is all chunks without live blocks."""
        check(lib().acre_device_set_limits(
            self.handle, size(limit_bytes, "limit_bytes"), size(margin_bytes, "margin_bytes")))

    def trim(self) -> None:
        """Releases idle memory to the driver."""
        check(lib().acre_trim(self.handle))

    # ---- memory ----

    def alloc(self, nbytes: int, stream: Any = None, *, kind: str = "device", alignment: int = 0) -> Block:
        """Allocates from the device's default pool for a kind of memory, for work of `stream`."""
        return self.default_pool(kind).alloc(nbytes, stream, alignment=alignment)

    def empty(self, shape: Shape, dtype: Any = "float32", stream: Any = None, *, kind: str = "device") -> Array:
        """Allocates an array with undefined contents from the default pool."""
        return self.default_pool(kind).empty(shape, dtype, stream)

    def zeros(self, shape: Shape, dtype: Any = "float32", stream: Any = None, *, kind: str = "device") -> Array:
        """Allocates an array of zeros from the default pool."""
        return self.default_pool(kind).zeros(shape, dtype, stream)

    def alloc_direct(
        self,
        nbytes: int,
        kind: str = "device",
        *,
        portable: bool = False,
        write_combined: bool = False,
        attach_host: bool = False,
    ) -> Allocation:
        """Allocates without a pool, as cudaMalloc, cudaMallocHost and cudaMallocManaged do."""
        bits = c.ACRE_MEM_PORTABLE * bool(portable) | c.ACRE_MEM_WRITE_COMBINED * bool(write_combined)
        return Allocation(self, size(nbytes), kind, bits | c.ACRE_MEM_ATTACH_HOST * bool(attach_host))

    def register(self, buffer: Any, *, portable: bool = False, read_only: bool = False) -> Registration:
        """Page-locks a writable buffer of the program (NumPy array, bytearray), until unregister()."""
        from ._transfer import Registration

        return Registration(self, buffer, portable, read_only)

    def query(self, address: Any) -> Record:
        """Describes the memory at an address: kind, base, bytes, whether a pool owns it."""
        where = address.ptr if isinstance(address, Memory) else size(address, "address")
        info = make(c.acre_mem_info)
        check(lib().acre_mem_query(self.handle, where, ctypes.byref(info)))
        values = dict(record(info, ("struct_size", "device", "pool")))
        values.update(kind=KIND_NAMES[info.kind], is_in_pool=bool(info.pool), is_of_acre=bool(info.device))
        return Record(values)

    def copy(self, to: Any, source: Any, nbytes: Optional[int] = None, stream: Any = None) -> None:
        """Copies between any memory: of acre, of objects with __cuda_array_interface__, buffers, or addresses
        (integers, which need `nbytes`). A copy that involves pageable memory is done when the call returns."""
        copy(self, to, source, nbytes, stream)

    def copy_2d(
        self, to: Any, to_pitch: int, source: Any, pitch: int, width: int, rows: int, stream: Any = None
    ) -> None:
        """Copies rows of `width` bytes; a pitch is the distance between the starts of two rows."""
        copy_2d(self, to, to_pitch, source, pitch, width, rows, stream)

    def fill(self, to: Any, value: int, nbytes: Optional[int] = None, stream: Any = None) -> None:
        """Sets bytes of any memory to `value`."""
        fill(self, to, value, nbytes, stream)

    # ---- objects ----

    def stream(self, *, non_blocking: bool = False, no_capture: bool = False) -> Stream:
        """Creates a stream."""
        return Stream(self, non_blocking=non_blocking, no_capture=no_capture)

    def event(self, *, timing: bool = False) -> Event:
        """Creates an event."""
        return Event(self, timing=timing)

    def pool(self, kind: str = "device", **options: Any) -> Pool:
        """Creates a pool; see acre.Pool."""
        from ._pool import Pool

        return Pool(self, kind, **options)

    def default_pool(self, kind: str = "device") -> Pool:
        """Returns the device's default pool for a kind of memory."""
        from ._pool import Pool

        return Pool._default(self, kind)

    def vec(self, dtype: Any = "uint8", **options: Any) -> Vec:
        """Creates an empty array that grows in place; see acre.Vec."""
        from ._vec import Vec

        return Vec(self, dtype, **options)

    def range(self, nbytes: int, **options: Any) -> Range:
        """Reserves addresses whose pieces get and lose memory; see acre.Range."""
        from ._range import Range

        return Range(self, nbytes, **options)

    def budget(self, limit_bytes: int = 0) -> Budget:
        """Creates a limit that several ranges share."""
        from ._range import Budget

        return Budget(self, limit_bytes)

    def granularity(self, *, kind: str = "device", shareable: bool = False, rdma: bool = False) -> Granularity:
        """Returns (minimum, recommended): sizes of chunks and addresses of mappings are multiples of the minimum."""
        from ._vm import granularity

        return granularity(self, kind, shareable, rdma)

    def chunk(self, nbytes: int, **options: Any) -> Chunk:
        """Creates memory without an address, for Reservation.map(); see acre.Chunk."""
        from ._vm import Chunk

        return Chunk(self, nbytes, **options)

    def reserve(self, nbytes: int, **options: Any) -> Reservation:
        """Reserves addresses without memory; see acre.Reservation."""
        from ._vm import Reservation

        return Reservation(self, nbytes, **options)

    def plan(self, **options: Any) -> Plan:
        """Creates a plan; see acre.Plan."""
        from ._plan import Plan

        return Plan(self, **options)

    def heap(self, **options: Any) -> Heap:
        """Creates a heap for malloc inside kernels; see acre.Heap."""
        from ._heap import Heap

        return Heap(self, **options)

    def suspend(self, **options: Any) -> Suspended:
        """Moves the device's memory away until resume(); see acre.Suspended."""
        from ._suspend import Suspended

        return Suspended(self, **options)

    def forget_suspended(self) -> None:
        """Frees the copies that suspend(retain=True) left."""
        check(lib().acre_suspend_forget(self.handle))

    def import_(self, path: Any, **options: Any) -> Import:
        """Imports memory that another process shares; see acre.Import."""
        from ._share import Import

        return Import(self, path, **options)

    def snapshot(self, path: Any) -> None:
        """Writes what acre has at this moment to a JSON file, for `acre report`."""
        check(lib().acre_snapshot(self.handle, text(path, "path")))


class _Queued(Unique):
    """Streams and events: a handle that is destroyed with the object."""

    device: Device

    def __init__(self, device: Device) -> None:
        if not isinstance(device, Device):
            raise TypeError(f"device must be an acre.Device, not {type(device).__name__}")
        self.device = device
        self._handle: Optional[int] = None

    @property
    def handle(self) -> int:
        if self._handle is None:
            raise ValueError(f"this {type(self).__name__.lower()} was destroyed")
        if not self.device.is_open:
            raise ValueError(f"this {type(self).__name__.lower()} is gone: device {self.device.name} is closed")
        return self._handle

    def _destroy(self, handle: int) -> int:
        raise NotImplementedError

    def destroy(self) -> None:
        """Destroys it. Work that is queued still runs. A second call is a no-op."""
        handle, self._handle = self._handle, None
        if handle is not None and self.device.is_open:
            check(self._destroy(handle))

    def close(self) -> None:
        """The same as destroy(), under the name that other objects of acre have."""
        self.destroy()

    def __enter__(self: QueuedSelf) -> QueuedSelf:
        return self

    def __exit__(self, *_: Any) -> None:
        self.destroy()

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing() or getattr(self, "_handle", None) is None:
            return
        try:
            self.destroy()
        except (Error, ValueError):  # or another thread has closed the device
            pass


class Stream(_Queued):
    """A stream: work queued on it runs in order. Other calls take streams of torch, CuPy and Numba, too."""

    def __init__(self, device: Device, *, non_blocking: bool = False, no_capture: bool = False) -> None:
        super().__init__(device)
        bits = c.ACRE_STREAM_NON_BLOCKING * bool(non_blocking) | c.ACRE_STREAM_NO_CAPTURE * bool(no_capture)
        made = ctypes.c_void_p()
        check(lib().acre_stream_create(device.handle, bits, ctypes.byref(made)))
        self._handle = made.value

    def _destroy(self, handle: int) -> int:
        return lib().acre_stream_destroy(self.device.handle, handle)

    @property
    def ptr(self) -> int:
        """The CUstream, as CuPy names it."""
        return self.handle

    def __cuda_stream__(self) -> tuple:
        return (0, self.handle)

    @property
    def id(self) -> int:
        """A number that no other stream of the process has or had."""
        number = ctypes.c_uint64()
        check(lib().acre_stream_get_id(self.device.handle, self.handle, ctypes.byref(number)))
        return number.value

    def synchronize(self) -> None:
        """Waits until all work queued on the stream is done."""
        check(lib().acre_stream_sync(self.device.handle, self.handle))

    @property
    def done(self) -> bool:
        """Whether all work queued on the stream is done."""
        return _is_done(lib().acre_stream_query(self.device.handle, self.handle))

    def wait_event(self, event: Event) -> None:
        """Makes work queued from now on wait for an event. The host does not wait."""
        if not isinstance(event, Event):
            raise TypeError(f"event must be an acre.Event, not {type(event).__name__}")
        check(lib().acre_stream_wait(self.device.handle, self.handle, event.handle))

    def record(self, event: Optional[Event] = None) -> Event:
        """Records an event, by default a new one, behind the work queued so far."""
        event = event or Event(self.device)
        event.record(self)
        return event


class Event(_Queued):
    """An event: a point in the work of a stream."""

    def __init__(self, device: Device, *, timing: bool = False) -> None:
        super().__init__(device)
        made = ctypes.c_void_p()
        bits = c.ACRE_EVENT_TIMING if timing else c.ACRE_EVENT_DEFAULT
        check(lib().acre_event_create(device.handle, bits, ctypes.byref(made)))
        self._handle = made.value

    def _destroy(self, handle: int) -> int:
        return lib().acre_event_destroy(self.device.handle, handle)

    def record(self, stream: Any = None) -> None:
        """Records the event behind the work queued on a stream so far."""
        check(lib().acre_event_record(self.device.handle, self.handle, stream_handle(stream)))

    def synchronize(self) -> None:
        """Waits until the recorded work is done."""
        check(lib().acre_event_sync(self.device.handle, self.handle))

    @property
    def done(self) -> bool:
        """Whether the recorded work is done."""
        return _is_done(lib().acre_event_query(self.device.handle, self.handle))

    def elapsed(self, end: Event) -> float:
        """Returns the milliseconds from this event to `end`; both need timing=True."""
        found = ctypes.c_float()
        status = lib().acre_event_elapsed(self.device.handle, self.handle, end.handle, ctypes.byref(found))
        check(status)
        return found.value


def _is_done(status: int) -> bool:
    if status == c.ACRE_E_NOT_READY:
        return False
    check(status)
    return True


def retire_stream(device: Device, stream: Any) -> None:
    """Tells all pools that a stream created by another library is about to be destroyed."""
    check(lib().acre_stream_retire(device.handle, stream_handle(stream)))
