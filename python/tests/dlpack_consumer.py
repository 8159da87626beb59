"""A consumer of DLPack capsules, as another library is one: takes the tensor, reads it, calls its deleter."""

import ctypes

api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


# CDLL-like: the deleter is called without the interpreter's lock, as torch does in its own threads.
Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_names = {b"dltensor": (Managed, b"used_dltensor"), b"dltensor_versioned": (Versioned, b"used_dltensor_versioned")}


class Taken:
    """A tensor that was taken from a capsule."""

    def __init__(self, capsule):
        for name, (kind, used) in _names.items():
            if api.PyCapsule_IsValid(capsule, name):
                self._address = api.PyCapsule_GetPointer(capsule, name)
                self._used = ctypes.create_string_buffer(used)  # a capsule does not copy its name
                api.PyCapsule_SetName(capsule, ctypes.cast(self._used, ctypes.c_char_p))
                _keep.append(self._used)
                self.managed = kind.from_address(self._address)
                self.is_versioned = kind is Versioned
                return
        raise ValueError("not a capsule of DLPack")

    @property
    def tensor(self):
        return self.managed.tensor

    @property
    def shape(self):
        return tuple(self.tensor.shape[: self.tensor.ndim])

    @property
    def strides(self):
        return tuple(self.tensor.strides[: self.tensor.ndim])

    def delete(self):
        Deleter(self.managed.deleter)(self._address)


_keep = []
