"""Copies, fills, and registration of a program's own memory."""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import TYPE_CHECKING, Any, Optional, Tuple

from . import _declarations as c
from ._closing import Unique
from ._library import Error, check, lib
from ._memory import Memory
from ._values import DType, count_of, dtype, size, stream_handle

if TYPE_CHECKING:
    from ._device import Device


class _PyBuffer(ctypes.Structure):
    """Py_buffer, the same in every Python since 3.0."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_get.restype = ctypes.c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(_PyBuffer)]
_release.restype = None
_WRITABLE = 1
LEGACY = 1  # the legacy default stream, in the interfaces of arrays


class Place:
    """The address and size of an operand. Holds a buffer until `with` ends."""

    def __init__(self, operand: Any, writable: bool, what: str) -> None:
        self._view: Optional[_PyBuffer] = None
        self.nbytes: Optional[int] = None
        self.stream: Optional[int] = None  # whose work the operand's owner has queued on it
        if isinstance(operand, Memory):
            operand._must_allow(writable)
            self.address, self.nbytes = operand.ptr, operand.nbytes
        elif isinstance(operand, int) and not isinstance(operand, bool):
            self.address = size(operand, what)
        elif hasattr(operand, "__cuda_array_interface__"):
            interface = operand.__cuda_array_interface__
            self.address, self.nbytes = _of_interface(interface, writable)
            self.stream = interface.get("stream")
        else:
            self._take_buffer(operand, writable, what)

    def _take_buffer(self, operand: Any, writable: bool, what: str) -> None:
        view = _PyBuffer()
        try:
            _get(operand, ctypes.byref(view), _WRITABLE if writable else 0)
        except TypeError:
            kind = type(operand).__name__
            raise TypeError(f"{what} must be memory, a buffer or an address, not {kind}") from None
        self._view = view
        self.address, self.nbytes = view.buf or 0, view.len

    def order(self, device: Device, stream: int) -> None:
        """Makes a stream wait for the stream that the owner of an array has named."""
        if self.stream is None or self.stream == (stream or LEGACY):
            return
        with device.event() as event:
            event.record(self.stream)
            check(lib().acre_stream_wait(device.handle, stream, event.handle))

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._view is not None:
            _release(ctypes.byref(self._view))
            self._view = None


def type_of(operand: Any) -> Optional[DType]:
    """The type of an operand's elements; None if it does not say, or has one that acre does not know."""
    if isinstance(operand, Memory):
        return operand.dtype
    interface = getattr(operand, "__cuda_array_interface__", None)
    try:
        name = interface["typestr"] if interface is not None else _typestr(memoryview(operand).format)
    except (TypeError, ValueError, BufferError):
        return None
    if name.startswith(">"):
        raise TypeError(f"elements of type {name} have their bytes in the other order than the device")
    try:
        return dtype(name)
    except TypeError:
        return None


def _typestr(format_: str) -> str:
    """NumPy's name of a type of the module struct, as far as acre knows it."""
    order, letter = ">" if format_[0] in ">!" else "<", format_[-1]
    if format_[-2:-1] == "Z":
        return f"{order}c{2 * struct.calcsize(letter)}"
    kinds = {"?": "b", "efd": "f", "bhilqn": "i", "BHILQN": "u"}
    kind = next((kind for letters, kind in kinds.items() if letter in letters), "V")
    return f"{order}{kind}{struct.calcsize(letter)}" if kind != "V" else "V"


def _of_interface(interface: dict, writable: bool) -> Tuple[int, int]:
    """The address and bytes of a __cuda_array_interface__."""
    if interface.get("strides") is not None:
        raise BufferError("the array is not contiguous; copy it first")
    address, is_read_only = interface["data"]
    if writable and is_read_only:
        raise BufferError("the array is read-only")
    return size(address or 0, "address"), count_of(interface["shape"]) * int(interface["typestr"][2:])


def _length(nbytes: Optional[int], *places: Place) -> int:
    """The bytes to move: the given ones, which must fit, else those of the operands, which must agree."""
    known = [place.nbytes for place in places if place.nbytes is not None]
    if nbytes is None:
        if len(known) < len(places):
            raise TypeError("nbytes is required if an operand is an address")
        if min(known) != max(known):
            raise ValueError(f"operands of {max(known)} and {min(known)} bytes: give nbytes")
        return known[0]
    length = size(nbytes)
    if known and length > min(known):
        raise ValueError(f"nbytes {length} is more than the {min(known)} bytes of an operand")
    return length


def copy(device: Device, to: Any, source: Any, nbytes: Optional[int], stream: Any) -> None:
    handle = stream_handle(stream)
    with Place(to, True, "target") as target, Place(source, False, "source") as origin:
        length = _length(nbytes, target, origin)
        for place in (target, origin):
            place.order(device, handle)
        check(lib().acre_copy(device.handle, target.address, origin.address, length, handle))


def copy_2d(
    device: Device, to: Any, to_pitch: int, source: Any, pitch: int, width: int, rows: int, stream: Any
) -> None:
    sizes = [size(to_pitch, "to_pitch"), size(pitch, "pitch"), size(width, "width"), size(rows, "rows")]
    handle = stream_handle(stream)
    with Place(to, True, "target") as target, Place(source, False, "source") as origin:
        for place, step in ((target, sizes[0]), (origin, sizes[1])):
            needed = step * (sizes[3] - 1) + sizes[2] if sizes[3] else 0
            if place.nbytes is not None and needed > place.nbytes:
                raise ValueError(f"the rows need {needed} bytes, an operand has {place.nbytes}")
            place.order(device, handle)
        status = lib().acre_copy_2d(
            device.handle, target.address, sizes[0], origin.address, sizes[1], sizes[2], sizes[3], handle
        )
        check(status)


def fill(device: Device, to: Any, value: int, nbytes: Optional[int], stream: Any) -> None:
    handle = stream_handle(stream)
    byte = size(value, "value", 255)
    with Place(to, True, "target") as target:
        length = _length(nbytes, target)
        target.order(device, handle)
        check(lib().acre_fill(device.handle, target.address, byte, length, handle))


class Registration(Unique):
    """A buffer of the program that is page-locked, so that copies run at full speed."""

    def __init__(self, device: Device, buffer: Any, portable: bool, read_only: bool) -> None:
        self._place: Optional[Place] = None
        self.device = device
        place = Place(buffer, True, "buffer")
        bits = c.ACRE_MEM_PORTABLE * bool(portable) | c.ACRE_MEM_READ_ONLY * bool(read_only)
        try:
            check(lib().acre_mem_register(device.handle, place.address, place.nbytes or 0, bits))
        except Error:
            place.__exit__()
            raise
        self._place = place

    def unregister(self) -> None:
        """Ends the registration. Waits for queued work. A second call is a no-op."""
        place, self._place = self._place, None
        if place is None:
            return
        try:
            if self.device.is_open:
                check(lib().acre_mem_unregister(self.device.handle, place.address))
        finally:
            place.__exit__()

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_: Any) -> None:
        self.unregister()

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing() or getattr(self, "_place", None) is None:
            return
        try:
            self.unregister()
        except Error:
            pass
