"""The parts of CuPy that acre.cupy uses, over the soft device.

`install()` puts modules with CuPy's names into sys.modules. The classes behave as CuPy documents them:
CFunctionAllocator calls C functions with the interpreter's lock held and checks no result; a stream is
destroyed with its last reference. Attributes of the module choose among versions of CuPy:

RAISES      whether an exception that the C function sets is raised (built by Cython 3), or whether the
            call returns memory with the exception set, which the interpreter reports as SystemError
SIGNATURE   the type in the capsule of get_current_stream_ptr; None: the module exports no functions
"""

import ctypes
import sys
import threading
import types

from acre._library import check, lib

RAISES = True
SIGNATURE = b"intptr_t (void)"

MALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
FREE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
CURRENT = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)

_here = threading.local()
_device = ctypes.c_void_p()


def device():
    """acre's soft device, on which streams are created."""
    if not _device:
        check(lib().acre_open(b"soft", None, ctypes.byref(_device)))
    return _device


class OutOfMemoryError(MemoryError):
    """As cupy.cuda.memory.OutOfMemoryError."""

    def __init__(self, size, total, limit=0):
        self._size, self._total, self._limit = size, total, limit
        super().__init__(f"Out of memory allocating {size:,} bytes")


class BaseMemory:
    """Memory that is freed with its last reference."""

    ptr = 0
    size = 0
    device_id = 0


class MemoryPointer:
    """A pointer into memory, which it keeps."""

    def __init__(self, mem, offset):
        self.mem = mem
        self.ptr = mem.ptr + offset
        self.device_id = mem.device_id


class CFunctionMemory(BaseMemory):
    """Memory of a CFunctionAllocator. It keeps the address of the free function, not the allocator."""

    def __init__(self, size, param, malloc, free):
        self.size = size
        self._free = FREE(free)
        self._param = param
        error = None
        if size:
            try:
                self.ptr = MALLOC(malloc)(param, size, 0) or 0
            except Exception as raised:
                if RAISES:
                    raise
                error = raised
        if error:
            raise SystemError("malloc returned a result with an exception set") from error

    def __del__(self):
        if self.ptr:
            self._free(self._param, self.ptr, self.device_id)


class CFunctionAllocator:
    """As cupy.cuda.CFunctionAllocator."""

    def __init__(self, param, malloc, free, owner):
        self._arguments = (param, malloc, free)
        self._owner = owner

    def malloc(self, size):
        """Allocates."""
        return MemoryPointer(CFunctionMemory(size, *self._arguments), 0)


class PythonFunctionMemory(BaseMemory):
    """Memory of a PythonFunctionAllocator."""

    def __init__(self, size, malloc, free):
        self.size = size
        self._free = free
        if size:
            self.ptr = malloc(size, 0)

    def __del__(self):
        if self.ptr:
            self._free(self.ptr, self.device_id)


class PythonFunctionAllocator:
    """As cupy.cuda.PythonFunctionAllocator."""

    def __init__(self, malloc, free):
        self._functions = (malloc, free)

    def malloc(self, size):
        """Allocates."""
        return MemoryPointer(PythonFunctionMemory(size, *self._functions), 0)


class BaseStream:
    """A stream that can be made current."""

    def __init__(self, ptr):
        self.ptr = ptr
        self.device_id = 0

    def __enter__(self):
        _here.before = [*getattr(_here, "before", []), get_current_stream()]
        _here.stream = self
        return self

    def __exit__(self, *_):
        _here.stream = _here.before.pop()


class Stream(BaseStream):
    """A stream that is destroyed with its last reference. Its handle is one of the soft device."""

    null = BaseStream(0)
    ptds = BaseStream(2)

    def __init__(self):
        handle = ctypes.c_void_p()
        check(lib().acre_stream_create(device(), 0, ctypes.byref(handle)))
        super().__init__(handle.value)

    def __del__(self):
        lib().acre_stream_destroy(device(), self.ptr)


class ExternalStream(BaseStream):
    """A stream that somebody else destroys."""


def get_current_stream():
    """The current stream of the thread."""
    return getattr(_here, "stream", Stream.null)


_current = CURRENT(lambda: get_current_stream().ptr)
_names = []  # a capsule keeps the address of its name


def _capsules():
    if SIGNATURE is None:
        return {}
    new = ctypes.pythonapi.PyCapsule_New
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    new.restype = ctypes.py_object
    _names.append(ctypes.create_string_buffer(SIGNATURE))
    address = ctypes.cast(_current, ctypes.c_void_p)
    return {"get_current_stream_ptr": new(address, ctypes.cast(_names[-1], ctypes.c_char_p), None)}


class _Backend(types.ModuleType):
    @property
    def __pyx_capi__(self):
        return _capsules()


_allocator = None


def set_allocator(allocator=None):
    """As cupy.cuda.set_allocator."""
    global _allocator
    _allocator = allocator


def get_allocator():
    """As cupy.cuda.get_allocator."""
    return _allocator


def alloc(size):
    """As cupy.cuda.alloc."""
    return _allocator(size)


def _module(name, kind=types.ModuleType, **content):
    module = sys.modules[name] = kind(name)
    for key, value in content.items():
        setattr(module, key, value)
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
    return module


def install():
    """Installs the modules. A real CuPy must not be imported before or after."""
    _module("cupy")
    _module(
        "cupy.cuda",
        Stream=Stream,
        ExternalStream=ExternalStream,
        get_current_stream=get_current_stream,
        set_allocator=set_allocator,
        get_allocator=get_allocator,
        alloc=alloc,
    )
    _module(
        "cupy.cuda.memory",
        OutOfMemoryError=OutOfMemoryError,
        CFunctionAllocator=CFunctionAllocator,
        PythonFunctionAllocator=PythonFunctionAllocator,
    )
    _module("cupy.cuda.runtime", getDevice=lambda: 0)
    _module("cupy_backends")
    _module("cupy_backends.cuda")
    _module("cupy_backends.cuda.stream", _Backend)
