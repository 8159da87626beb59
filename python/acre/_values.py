"""Checks of arguments, types of elements, and the records that statistics and infos are returned as.

ctypes truncates integers without complaint, so every number from a program passes through `size`.
"""

from __future__ import annotations

import ctypes
import operator
from typing import Any, Iterator, NamedTuple, Optional, Sequence, Tuple, Union

from . import _declarations as c

KINDS = {
    "device": c.ACRE_KIND_DEVICE,
    "pinned": c.ACRE_KIND_PINNED,
    "mapped": c.ACRE_KIND_MAPPED,
    "managed": c.ACRE_KIND_MANAGED,
    "pageable": c.ACRE_KIND_PAGEABLE,
}
KIND_NAMES = {value: name for name, value in KINDS.items()}
PLACES = {"device": c.ACRE_PLACE_DEVICE, "host": c.ACRE_PLACE_HOST}
ACCESSES = {"none": c.ACRE_ACCESS_NONE, "read": c.ACRE_ACCESS_READ, "read_write": c.ACRE_ACCESS_READ_WRITE}


def size(value: Any, what: str = "nbytes", most: int = 2**64 - 1) -> int:
    """Returns a number that fits an unsigned C type; TypeError or ValueError otherwise."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an integer, not {type(value).__name__}") from None
    if not 0 <= number <= most:
        raise ValueError(f"{what} must be from 0 to {most}, not {number}")
    return number


def choice(value: Any, choices: dict, what: str) -> int:
    """Returns the C value of a word."""
    if isinstance(value, str) and value in choices:
        return choices[value]
    known = ", ".join(f'"{name}"' for name in choices)
    kind = ValueError if isinstance(value, str) else TypeError
    raise kind(f"{what} must be one of {known}, not {value!r}")


def text(value: Any, what: str) -> bytes:
    """Returns a string or path for C."""
    if hasattr(value, "__fspath__"):
        value = value.__fspath__()
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(value, bytes):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    if b"\0" in value:
        raise ValueError(f"{what} must not contain a NUL character")
    return value


def stream_handle(stream: Any) -> int:
    """Returns the handle of a stream: None (the legacy default stream), a stream of acre, torch, CuPy
    or Numba, any object with __cuda_stream__, or the handle as an integer."""
    if stream is None:
        return 0
    if isinstance(stream, int) and not isinstance(stream, bool):
        return size(stream, "stream")
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return size(protocol()[1], "stream")
    for attribute in ("ptr", "cuda_stream", "handle"):
        handle = getattr(stream, attribute, None)
        if handle is not None:
            handle = getattr(handle, "value", handle)
            return size(handle or 0, "stream")
    raise TypeError(f"stream must be None, an integer or a stream, not {type(stream).__name__}")


class Record:
    """Named values, as attributes and by iteration; dict(record) makes a dict."""

    def __init__(self, values: dict, meanings: Optional[dict] = None) -> None:
        self.__dict__.update(values)
        self.__dict__["_meanings"] = meanings or {}

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a record cannot be changed")

    def keys(self) -> Sequence[str]:
        return [name for name in self.__dict__ if name != "_meanings"]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no such value: {name!r}")

    def meaning(self, name: str) -> str:
        """Returns what a value means, "" if its name says it."""
        return self._meanings.get(name, "")

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={self[name]!r}" for name in self)
        return f"Record({inside})"

    def __str__(self) -> str:
        width = max((len(name) for name in self), default=0)
        return "\n".join(f"{name:{width}}  {self[name]}" for name in self)


def record(struct: ctypes.Structure, skip: Sequence[str] = ("struct_size", "reserved")) -> Record:
    """Makes a record of a struct; texts are decoded, has_ and is_ become bool."""
    values = {}
    for name, kind in struct._fields_:
        if name in skip:
            continue
        value = getattr(struct, name)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        elif isinstance(value, ctypes.Array):
            is_bytes = kind._type_ is ctypes.c_uint8
            value = bytes(value) if is_bytes else [record(item) for item in value]
        elif name.startswith(("has_", "is_")):
            value = bool(value)
        values[name] = value
    return Record(values, c.MEANINGS.get(type(struct).__name__))


class DType(NamedTuple):
    """The type of an element: its name, and what DLPack and the array interfaces call it."""

    name: str
    code: int  # DLPack: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool
    itemsize: int
    typestr: str  # NumPy's; "" if NumPy has none
    format: str  # of the struct module; "" if it has none


def _table() -> dict:
    found = {}
    for bits, letters in ((8, "bB"), (16, "hH"), (32, "iI"), (64, "qQ")):
        order = "|" if bits == 8 else "<"
        found[f"int{bits}"] = DType(f"int{bits}", 0, bits // 8, f"{order}i{bits // 8}", letters[0])
        found[f"uint{bits}"] = DType(f"uint{bits}", 1, bits // 8, f"{order}u{bits // 8}", letters[1])
    for bits, letter in ((16, "e"), (32, "f"), (64, "d")):
        found[f"float{bits}"] = DType(f"float{bits}", 2, bits // 8, f"<f{bits // 8}", letter)
    found["bfloat16"] = DType("bfloat16", 4, 2, "", "")
    found["complex64"] = DType("complex64", 5, 8, "<c8", "")
    found["complex128"] = DType("complex128", 5, 16, "<c16", "")
    found["bool"] = DType("bool", 6, 1, "|b1", "?")
    return found


DTYPES = _table()
_BY_TYPESTR = {known.typestr.lstrip("<|"): known for known in DTYPES.values() if known.typestr}


def dtype(value: Any) -> DType:
    """Returns the type of an element, from its name ("float32", "<f4"), or a type of NumPy or torch."""
    if isinstance(value, DType):
        return value
    if getattr(value, "byteorder", "=") == ">":
        raise TypeError(f"{value!r} has its bytes in the other order than the device")
    names = [value, getattr(value, "name", None), getattr(value, "__name__", None), str(value)]
    for name in names:
        if isinstance(name, str):
            name = name.removeprefix("torch.")
            known = DTYPES.get(name) or _BY_TYPESTR.get(name.lstrip("<|="))
            if known is not None:
                return known
    raise TypeError(f"{value!r} is not a type of elements; use one of {', '.join(DTYPES)}")


Shape = Union[int, Sequence[int]]


def shape_of(value: Shape) -> Tuple[int, ...]:
    """Returns a shape as a tuple."""
    if isinstance(value, (str, bytes)):
        raise TypeError("a shape is an integer or a sequence of integers")
    try:
        return (size(value, "shape", 2**63 - 1),)
    except TypeError:
        pass
    try:
        items = list(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"a shape is an integer or a sequence of integers, not {type(value).__name__}") from None
    return tuple(size(item, "shape", 2**63 - 1) for item in items)


def count_of(shape: Tuple[int, ...]) -> int:
    total = 1
    for item in shape:
        total *= item
    return total
