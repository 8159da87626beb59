"""Loads libacre_python.so, the part of the package that is C: DLPack tensors, and lists of what acre has."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, List, Optional, Sequence, Tuple

from . import _declarations as c
from ._library import beside, check

NAME = "libacre_python.so"

_lock = threading.Lock()
_native: Optional[ctypes.PyDLL] = None


class Tensor(ctypes.Structure):
    """struct acre_python_tensor"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("code", ctypes.c_uint32),
        ("bits", ctypes.c_uint32),
        ("ndim", ctypes.c_int32),
        ("is_versioned", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    ]


class Items(ctypes.Structure):
    """struct acre_python_items"""

    _fields_ = [
        ("items", ctypes.c_void_p),
        ("used", ctypes.c_size_t),
        ("room", ctypes.c_size_t),
        ("is_short", ctypes.c_int),
    ]


class PoolItem(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_uint64), ("nbytes", ctypes.c_uint64)]


class PlanItem(ctypes.Structure):
    _fields_ = [("placed", c.acre_plan_placed), ("name", ctypes.c_char * 64)]


def native() -> ctypes.PyDLL:
    """Returns the library. Its functions are called with the interpreter's lock held."""
    global _native
    with _lock:
        if _native is None:
            try:
                library = ctypes.PyDLL((beside(NAME) or [NAME])[0])
            except OSError as error:
                raise ImportError(
                    f"cannot load {NAME}: {error}\n"
                    "It belongs to the package, and `make` builds it. Use the package of build/python or a wheel."
                ) from None
            library.acre_python_capsule.restype = ctypes.py_object
            library.acre_python_capsule.argtypes = [ctypes.py_object, ctypes.POINTER(Tensor)]
            library.acre_python_end.restype = None
            library.acre_python_end.argtypes = [ctypes.POINTER(Items)]
            _native = library
        return _native


def capsule(
    owner: object, data: int, device: Tuple[int, int], kind: Any, shape: Sequence[int], versioned: bool
) -> object:
    """Returns a DLPack capsule that keeps `owner` alive."""
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    tensor = Tensor(
        data=data or None,
        device_type=device[0],
        device_id=device[1],
        code=kind.code,
        bits=8 * kind.itemsize,
        ndim=len(shape),
        is_versioned=versioned,
        shape=sizes,
    )
    return native().acre_python_capsule(owner, ctypes.byref(tensor))


def walk(call: Any, callback_type: Any, name: str, item: Any, *arguments: Any) -> List[Any]:
    """Calls a walk of acre with a callback in C, and returns copies of the items."""
    library = native()
    callback = ctypes.cast(getattr(library, name), callback_type)
    items = Items()
    try:
        check(call(*arguments, callback, ctypes.addressof(items)))
        if items.is_short:
            raise MemoryError
        if not items.used:
            return []
        found = (item * (items.used // ctypes.sizeof(item)))()
        ctypes.memmove(found, items.items, ctypes.sizeof(found))
        return list(found)
    finally:
        library.acre_python_end(ctypes.byref(items))
