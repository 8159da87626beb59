"""Memory as an object: address, size, copies, and exports to other libraries.

An export is a memoryview, a NumPy array or a DLPack tensor. It keeps its memory alive. While one
exists, the memory cannot be freed by hand or moved, and neither its pool nor its device can be closed:
BufferError says so.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, List, Optional, Tuple, TypeVar

from . import _declarations as c
from . import _native
from ._closing import Unique
from ._library import Error, check, lib
from ._values import ACCESSES, KINDS, PLACES, DType, Shape, choice, count_of, dtype, shape_of, size, stream_handle

if TYPE_CHECKING:
    from ._device import Device

Self = TypeVar("Self", bound="OwnedMemory")
DL_CPU, DL_CUDA, DL_CUDA_HOST, DL_CUDA_MANAGED = 1, 2, 3, 13
HOST_KINDS = ("pinned", "mapped", "managed", "pageable")
# Streams that are never destroyed: the legacy and the per-thread default stream.
DEFAULT_STREAMS = (0, 1, 2)


class Pin:
    """Keeps memory alive, at its address, for an export."""

    __slots__ = ("memory", "owner", "__weakref__")

    def __init__(self, memory: Memory, owner: Memory) -> None:
        self.memory, self.owner = memory, owner


class Exports:
    """The exports of all memory that ends when an object is closed: a device, a pool or a plan."""

    # Between an export that begins and a close. Reentrant, because finalizers take it, too.
    lock = threading.RLock()

    def __init__(self) -> None:
        self._pins: weakref.WeakSet = weakref.WeakSet()

    def add(self, pin: Pin) -> None:
        self._pins.add(pin)

    def must_be_none(self, what: str) -> None:
        """Raises BufferError if there is one. `what` is what the caller cannot do."""
        count = len(self._pins)
        if count:
            raise BufferError(
                f"cannot {what}: an array, tensor or memoryview elsewhere still uses its memory ({count} in all); "
                "delete it first"
            )


class Memory(Unique):
    """Memory of a device or of the host. Base of all objects that have an address.

    `device`, `ptr` (the address), `nbytes`, `kind` ("device", "pinned", "mapped" or "managed"), `dtype` and
    `shape`: what NumPy, CuPy, torch and JAX see. numpy.asarray(memory) and memory.buffer work for host
    memory, DLPack (torch.from_dlpack, cupy.from_dlpack, jax.dlpack.from_dlpack) for all kinds. numpy.from_dlpack
    works for host memory, too, but NumPy 1 makes its arrays read-only.
    """

    device: Device
    kind: str = "device"
    _stream: Any = None

    def __init__(self, device: Device, kind: str, stream: Any) -> None:
        self.device = device
        self.kind = kind
        self._stream = stream
        self._pins: List[Any] = []
        self._use_streams: set = set()
        self._is_fixed = False  # exported by __cuda_array_interface__

    # What subclasses have.
    ptr: int
    nbytes: int

    @property
    def dtype(self) -> DType:
        return dtype("uint8")

    @property
    def shape(self) -> Tuple[int, ...]:
        return (self.nbytes // self.dtype.itemsize,)

    @property
    def stream(self) -> Any:
        """The stream whose work uses the memory."""
        return self._stream

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, _key: Any) -> Any:
        raise TypeError(f"acre.{type(self).__name__} has no subscripts: use {self._instead()}")

    def __setitem__(self, _key: Any, _value: Any) -> None:
        instead = self._instead() if self.kind in HOST_KINDS else "memory.copy_from(...)"
        raise TypeError(f"acre.{type(self).__name__} has no subscripts: use {instead}")

    def _instead(self) -> str:
        if self.kind in HOST_KINDS:
            return "numpy.asarray(memory)[...], which shares the memory"
        return "memory.get()[...], a copy on the host"

    def __repr__(self) -> str:
        try:
            state = f"of {self.nbytes} bytes, {self.kind} memory of {self.device.name}"
        except (Error, ValueError):  # after a fork, or closed
            state = f"of {self.kind} memory of {self.device.name}, closed"
        return f"<acre.{type(self).__name__} {state}>"

    # ---- copies ----

    def copy_from(self, source: Any, nbytes: Optional[int] = None, stream: Any = None) -> None:
        """Copies from any memory or buffer, in the order of `stream` (default: the memory's own)."""
        self.device.copy(self, source, nbytes, self._stream if stream is None else stream)

    def copy_to(self, target: Any, nbytes: Optional[int] = None, stream: Any = None) -> None:
        """Copies to any memory or writable buffer, in the order of `stream` (default: the memory's own)."""
        self.device.copy(target, self, nbytes, self._stream if stream is None else stream)

    set = copy_from

    def tobytes(self) -> bytes:
        """Returns the contents, when the work queued on the memory's stream is done."""
        contents = bytearray(self.nbytes)
        if contents:
            self.copy_to(contents)
        self._wait()
        return bytes(contents)

    def get(self) -> Any:
        """Returns the contents as a NumPy array."""
        import numpy

        if not self.dtype.typestr:
            raise BufferError(f"NumPy has no type {self.dtype.name}")
        flat = numpy.frombuffer(bytearray(self.tobytes()), dtype=self.dtype.typestr)
        return flat.reshape(self.shape)

    def fill(self, value: int, stream: Any = None) -> None:
        """Sets every byte to `value`, in the order of `stream` (default: the memory's own)."""
        self.device.fill(self, value, None, self._stream if stream is None else stream)

    def view(self, dtype: Any = "uint8", shape: Optional[Shape] = None, offset: int = 0) -> Array:
        """Returns the memory as an array of a type, which keeps it alive. The array keeps its shape when a vec grows.
        If a vec shrinks so that the array would end past its end, or is closed, uses of the array raise ValueError."""
        return Array(self, dtype, shape, offset)

    def _wait(self) -> None:
        check(lib().acre_stream_sync(self.device.handle, stream_handle(self._stream)))

    def _last_stream(self) -> int:
        """The handle of the stream on which the memory is freed. If the stream was destroyed, its work may still run:
        then the device is waited for, and the default stream serves."""
        try:
            return stream_handle(self._stream)
        except ValueError:
            check(lib().acre_device_sync(self.device.handle))
            return 0

    def _must_allow(self, writable: bool) -> None:
        """Raises BufferError if the device or the host may not access memory that it should be able to access."""

    # ---- exports ----

    def _root(self) -> Memory:
        return self

    def _exports_of(self) -> List[Exports]:
        """Where the exports of this memory are listed. Raises ValueError if something that it belongs to is closed."""
        return [self.device._exports]

    def _pin(self) -> Pin:
        """Keeps the memory for an export. Read the address after this, not before: a close may come between."""
        root = self._root()
        pin = Pin(self, root)
        with Exports.lock:
            for exports in self._exports_of():
                exports.add(pin)
            root._pins = [known for known in root._pins if known() is not None] + [weakref.ref(pin)]
        return pin

    def _is_pinned(self) -> bool:
        return any(known() is not None for known in self._pins)

    def _must_be_free(self, action: str) -> None:
        if self._is_pinned() or (self._is_fixed and action != "free memory"):
            raise BufferError(f"cannot {action}: an array, tensor or memoryview elsewhere still uses this memory")

    @property
    def buffer(self) -> memoryview:
        """Host memory as a writable memoryview, once queued work on its stream is done."""
        if self.kind not in HOST_KINDS:
            raise BufferError("the host cannot access device memory; use copy_to, get or tobytes")
        with self._held():
            pin = self._pin()
            whole, start = self.nbytes, self.ptr
        self._wait()
        raw = (ctypes.c_uint8 * whole).from_address(start) if whole else (ctypes.c_uint8 * 0)()
        raw._pin = pin  # type: ignore[attr-defined]  # the view keeps the ctypes array, and the array keeps the pin
        flat = memoryview(raw).cast("B")
        if self.dtype.format in ("", "B") and len(self.shape) == 1:
            return flat
        if not self.dtype.format:
            raise BufferError(f"memoryview has no type {self.dtype.name}; use memory.view()")
        return flat.cast(self.dtype.format, self.shape) if whole else flat

    def __buffer__(self, flags: int) -> memoryview:  # Python 3.12 and later
        return self.buffer

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        import numpy

        if not self.dtype.typestr:
            raise BufferError(f"NumPy has no type {self.dtype.name}")
        flat = numpy.frombuffer(self.view().buffer, dtype=self.dtype.typestr)
        array = flat.reshape(self.shape)
        if dtype is not None and numpy.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError("another type of elements needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def _dl_devices(self) -> List[Tuple[int, int]]:
        """The devices that may access the memory, the usual one first."""
        is_cuda = self.device.info.driver == "cuda"
        cuda = (DL_CUDA, self.device.ordinal)
        cpu = [(DL_CPU, 0)]
        if self.kind in ("pinned", "mapped", "pageable"):
            return cpu + ([(DL_CUDA_HOST, self.device.ordinal), cuda] if is_cuda and self.kind != "pageable" else [])
        if self.kind == "managed":
            return [cuda, (DL_CUDA_MANAGED, self.device.ordinal), *cpu] if is_cuda else cpu
        if not is_cuda:
            raise BufferError("memory of a soft device is not memory of a GPU: other libraries cannot use it")
        return [cuda]

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._dl_devices()[0]

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> object:
        """Exports the memory as a DLPack tensor, without a copy. Work that the consumer queues on `stream` waits
        for the work queued on the memory's own stream."""
        devices = self._dl_devices()
        device = devices[0] if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if device not in devices:
            raise BufferError(f"this memory cannot be exported to DLPack device {device}, only to {devices}")
        if copy:
            raise BufferError("acre does not copy for an export; copy the tensor with the library that takes it")
        with self._held():
            pin = self._pin()
            data, shape = self.ptr, self.shape
            if device[0] in (DL_CPU, DL_CUDA_HOST):
                if stream is not None:
                    raise BufferError("host memory is exported without a stream")
                self._wait()
            else:
                self._order(consumer_stream(stream))
            versioned = max_version is not None and max_version[0] >= 1
            return _native.capsule(pin, data, device, self.dtype, shape, versioned)

    def _held(self) -> Any:
        """A lock that keeps the address while an export begins."""
        return _NO_LOCK

    def _order(self, consumer: Optional[int]) -> None:
        """Makes the stream of a consumer wait for the memory's stream. None: the consumer does not want that."""
        root = self._root()
        if consumer is None:
            root._use_streams.add(None)
            return
        root._use_streams.add(consumer)
        own = stream_handle(self._stream)
        if (own or 1) == consumer:
            return
        with self.device.event() as event:
            event.record(self._stream)
            check(lib().acre_stream_wait(self.device.handle, consumer, event.handle))

    @property
    def __cuda_array_interface__(self) -> dict:
        """Version 3. The interface does not tell when an export ends, so from here on the memory never moves, and
        freeing it by hand is up to the program: DLPack is safer."""
        if self.kind not in ("device", "managed", "mapped"):
            raise AttributeError("__cuda_array_interface__: host memory has none; use numpy.asarray")
        if self.device.info.driver != "cuda":
            raise BufferError("memory of a soft device is not memory of a GPU: other libraries cannot use it")
        if not self.dtype.typestr:
            raise BufferError(f"__cuda_array_interface__ has no type {self.dtype.name}; use DLPack")
        root = self._root()
        with self._held():
            root._use_streams.add(None)
            root._is_fixed = True
            return {
                "shape": self.shape,
                "typestr": self.dtype.typestr,
                "data": (self.ptr, False),
                "version": 3,
                "strides": None,
                "stream": stream_handle(self._stream) or 1,
            }

    def _finish_uses(self, record: Any) -> None:
        """Before the memory is freed: work of consumers may still be in flight. `record` records a use. A stream
        that is not a default one may have been destroyed, so that the device is waited for instead."""
        if not self._use_streams:
            return
        if all(stream in DEFAULT_STREAMS for stream in self._use_streams):
            for stream in self._use_streams:
                check(record(stream))
        else:
            check(lib().acre_device_sync(self.device.handle))
        self._use_streams = set()


class _NoLock:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass


_NO_LOCK = _NoLock()


def consumer_stream(stream: Any) -> Optional[int]:
    """The handle of the stream that a consumer of DLPack names; None if it wants no order (-1)."""
    if stream is None:
        return 1
    if isinstance(stream, bool) or not isinstance(stream, int):
        raise TypeError(f"stream must be an integer or None, not {type(stream).__name__}")
    if stream == 0:
        raise ValueError("stream 0 is ambiguous in DLPack: use 1 for the legacy, 2 for the per-thread default stream")
    if stream < -1:
        raise ValueError(f"stream must be -1 or a handle, not {stream}")
    return None if stream == -1 else stream


class Array(Memory):
    """Memory seen as an array of a type. It keeps the memory alive, and cannot be freed itself."""

    def __init__(self, owner: Memory, type_: Any, shape: Optional[Shape] = None, offset: int = 0) -> None:
        kind = dtype(type_)
        start = size(offset, "offset")
        whole = owner.nbytes
        if start > whole:
            raise ValueError(f"offset {start} is past the end of {whole} bytes")
        dims = ((whole - start) // kind.itemsize,) if shape is None else shape_of(shape)
        if count_of(dims) * kind.itemsize > whole - start:
            raise ValueError(f"shape {dims} of {kind.name} needs more than {whole - start} bytes")
        super().__init__(owner.device, owner.kind, owner.stream)
        self.owner = owner
        self._dtype, self._shape, self._offset = kind, dims, start

    def _must_allow(self, writable: bool) -> None:
        self.owner._must_allow(writable)

    def _root(self) -> Memory:
        return self.owner._root()

    def _exports_of(self) -> List[Exports]:
        return self.owner._exports_of()

    def _held(self) -> Any:
        return self.owner._held()

    @property
    def ptr(self) -> int:  # type: ignore[override]
        start, whole = self.owner.ptr, self.owner.nbytes
        if self._offset + self.nbytes > whole:
            raise ValueError(
                f"this array ends {self._offset + self.nbytes} bytes from the start of memory that has {whole} bytes now"
            )
        return start + self._offset

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return count_of(self._shape) * self._dtype.itemsize

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> Tuple[int, ...]:
        return self._shape

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("an array without dimensions has no length")
        return self._shape[0]


class OwnedMemory(Memory):
    """Memory that is freed with its object, or by free()."""

    def __init__(self, device: Device, ptr: int, nbytes: int, kind: str, stream: Any) -> None:
        super().__init__(device, kind, stream)
        self._ptr: Optional[int] = ptr
        self._nbytes = nbytes

    @property
    def ptr(self) -> int:  # type: ignore[override]
        if self._ptr is None:
            raise ValueError("this memory was freed")
        if not self.device.is_open:
            raise ValueError(f"this memory is gone: device {self.device.name} is closed")
        return self._ptr

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return self._nbytes

    @property
    def is_freed(self) -> bool:
        return self._ptr is None

    def _free(self, ptr: int, stream: int) -> int:
        """Frees, and returns a status."""
        raise NotImplementedError

    def _take(self, action: str) -> Optional[int]:
        """Takes the address away, so that nobody else frees, moves or exports the memory. BufferError if it is
        exported; None if it was freed."""
        with Exports.lock:
            if self._ptr is None:
                return None
            self._must_be_free(action)
            ptr, self._ptr = self._ptr, None
            return ptr

    def _taken(self, action: str) -> int:
        """As _take, but raises ValueError if the memory was freed."""
        ptr = self._take(action)
        if ptr is None:
            raise ValueError("this memory was freed")
        return ptr

    def _end(self, ptr: Optional[int], stream: Any) -> None:
        """Frees memory whose address was taken away."""
        if not ptr or not self.device.is_open:
            return
        try:
            self._finish_uses(lambda used: self._record_at(ptr, used))
            check(self._free(ptr, self._last_stream() if stream is None else stream_handle(stream)))
        except (Error, ValueError, TypeError):
            self._ptr = ptr
            raise

    def _record_at(self, ptr: int, stream: int) -> int:
        """Records a use of the memory, if its free does not wait anyway. Returns a status."""
        return 0

    def free(self, stream: Any = None) -> None:
        """Frees the memory. Work queued on `stream` (default: its own) may still use it. A second call is a no-op."""
        self._end(self._take("free memory"), stream)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.free()

    def __del__(self) -> None:
        # acre frees nothing at exit, and the modules that this needs may be gone.
        if sys is None or sys.is_finalizing() or getattr(self, "_ptr", None) is None:
            return
        ptr, self._ptr = self._ptr, None
        try:
            self._end(ptr, None)
        except Error:
            # A stream of another library that was destroyed before the memory, if the driver noticed it.
            self._ptr = None
            if ptr and self.device.is_open and lib().acre_device_sync(self.device.handle) == c.ACRE_OK:
                self._free(ptr, 0)
        except ValueError:  # another thread has closed the device
            pass


class Allocation(OwnedMemory):
    """A single allocation of any kind of memory (acre_mem_alloc). Freeing it waits for all work of the device."""

    def __init__(self, device: Device, nbytes: int, kind: str, flag_bits: int = 0) -> None:
        p = ctypes.c_void_p()
        number = choice(kind, KINDS, "kind")
        check(lib().acre_mem_alloc(device.handle, number, size(nbytes), flag_bits, ctypes.byref(p)))
        super().__init__(device, p.value or 0, nbytes, kind, None)

    def _free(self, ptr: int, stream: int) -> int:
        return lib().acre_mem_free(self.device.handle, ptr)

    def resize(self, nbytes: int, stream: Any = None) -> None:
        """Resizes device memory and keeps its contents; the address may change."""
        p = ctypes.c_void_p()
        device, length, handle = self.device.handle, size(nbytes), stream_handle(stream)
        old = self._taken("resize memory")
        status = lib().acre_mem_realloc(device, old or None, length, handle, ctypes.byref(p))
        self._ptr, self._nbytes = (old, self._nbytes) if status else (p.value or 0, nbytes)
        check(status)

    @property
    def device_ptr(self) -> int:
        """The address at which kernels access the memory."""
        p = ctypes.c_void_p()
        check(lib().acre_mem_device_pointer(self.device.handle, self.ptr, ctypes.byref(p)))
        return p.value or 0

    def set_access(self, peer: Device, access: str = "read_write") -> None:
        """Gives another device access ("none", "read" or "read_write")."""
        number = choice(access, ACCESSES, "access")
        check(lib().acre_mem_set_access(self.device.handle, self.ptr, peer.handle, number))

    def prefetch(self, place: str = "device", stream: Any = None) -> None:
        """Moves managed memory to "device" or "host" before its use."""
        number = choice(place, PLACES, "place")
        handle = stream_handle(stream)
        check(lib().acre_mem_prefetch(self.device.handle, self.ptr, self.nbytes, number, handle))

    def advise(self, advice: str, place: str = "device") -> None:
        """Advises how managed memory will be used: "read_mostly", "prefer", "accessed_by", or "not_..."."""
        advices = {name[12:].lower(): getattr(c, name) for name in c.ENUMS["acre_advice"]}
        number = choice(advice, advices, "advice")
        where = choice(place, PLACES, "place")
        check(lib().acre_mem_advise(self.device.handle, self.ptr, self.nbytes, number, where))

    def attach(self, who: str, stream: Any = None) -> None:
        """Sets who may use managed memory: "global", "host", or "single" for the work of `stream`."""
        parties = {"global": c.ACRE_ATTACH_GLOBAL, "host": c.ACRE_ATTACH_HOST, "single": c.ACRE_ATTACH_SINGLE}
        number = choice(who, parties, "who")
        check(lib().acre_mem_attach(self.device.handle, self.ptr, number, stream_handle(stream)))
