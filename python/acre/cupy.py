"""acre as CuPy's allocator.

    import acre.cupy
    pool = acre.cupy.use()      # every array that CuPy allocates from now on comes from acre's pool

A block belongs to the stream that is current when CuPy allocates it, and is freed in the order of that
stream, as in CuPy's own pool: work queued on that stream may still use an array whose last reference is
gone. If another stream uses an array, let one stream wait for the other before the array is freed, or
call `record_use(array, stream)` after queueing the work.

CuPy calls acre's functions in C (libacre_cupy.so). They ask CuPy for its current stream by a C function
that CuPy's module exports. A CuPy without it is served through Python functions, which are slower
(`Pool.how` says which). `use(stream_ordered="python")` asks for these; `use(stream_ordered=False)` puts
every block on the default stream, for programs that use no other.
"""

import ctypes
import gc
import os
import threading
from typing import Any, Callable, Dict, Optional, Union

import cupy

from . import _declarations as c
from . import _library, _values
from ._library import Error, check, lib, make

__all__ = ["OutOfMemory", "Pool", "record_use", "stats", "stop", "use"]

_memory = cupy.cuda.memory
if not hasattr(_memory, "PythonFunctionAllocator"):
    raise ImportError(f"acre.cupy needs CuPy 9 or later, this is {getattr(cupy, '__version__', 'older')}")

_COUNTS = ("streams_with_blocks", "blocks_on_streams", "late_frees", "lost_frees")


class OutOfMemory(_memory.OutOfMemoryError, _library.OutOfMemory):  # type: ignore[name-defined]
    """CuPy's OutOfMemoryError, with acre's report of what uses the memory."""

    def __init__(self, text: str, status: int = c.ACRE_E_DEVICE_MEMORY) -> None:
        line, _, report = text.partition("\n")
        detail, _, name = line.rpartition(" (")
        name = name.rstrip(")")
        _library.OutOfMemory.__init__(self, getattr(c, name, status), name, detail, report)
        self._text = text
        self._size, self._total, self._limit = 0, -1, 0

    def __str__(self):
        return self._text

    def __reduce__(self):
        return type(self), (self._text, self.status)


class Failure(Error):
    """An allocation failed for another reason than memory."""

    def __init__(self, text: str, status: int = c.ACRE_E_DRIVER) -> None:
        detail, _, name = text.rpartition(" (")
        name = name.rstrip(")")
        super().__init__(getattr(c, name, status), name, detail)
        self._text = text

    def __reduce__(self):
        return type(self), (self._text, self.status)


# ---- the library ----

_CURRENT = ctypes.c_void_p
_MET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_size_t)
_COLLECT = ctypes.CFUNCTYPE(ctypes.c_int)


class _Options(ctypes.Structure):
    """struct acre_cupy_options of python/native/cupy_plug.c."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("driver", ctypes.c_char_p),
        ("current", _CURRENT),
        ("met", _MET),
        ("collect", _COLLECT),
        ("refuse", ctypes.c_void_p),
        ("memory_error", ctypes.py_object),
        ("other_error", ctypes.py_object),
    ]


def _candidates():
    """The files to try: beside the package's own libraries, beside libacre.so, then the system's."""
    named = os.environ.get("ACRE_CUPY_LIBRARY")
    if named:
        return [named]
    folders = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"), os.path.dirname(_library.path())]
    paths = [os.path.join(folder, "libacre_cupy.so") for folder in folders if folder]
    return [path for path in paths if os.path.exists(path)] + ["libacre_cupy.so"]


def _load():
    """Loads libacre_cupy.so. It must use the libacre.so that this package has loaded."""
    lib()
    tried = []
    for path in _candidates():
        try:
            return _declare(ctypes.CDLL(path))
        except OSError as error:
            tried.append(f"{path}: {error}")
    raise ImportError(
        "acre.cupy cannot load its library:\n  "
        + "\n  ".join(tried)
        + "\nBuild it (make), install the wheel, or set ACRE_CUPY_LIBRARY to the path of libacre_cupy.so."
    )


def _declare(plug):
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    plug.acre_cupy_setup.argtypes = [ctypes.POINTER(_Options)]
    plug.acre_cupy_alloc_on.argtypes = [integer, size, size, ctypes.POINTER(pointer)]
    plug.acre_cupy_free.argtypes = [pointer, pointer, integer]
    plug.acre_cupy_free.restype = None
    plug.acre_cupy_describe.argtypes = [integer, ctypes.c_char_p, size]
    plug.acre_cupy_describe.restype = size
    plug.acre_cupy_card.argtypes = [integer, ctypes.POINTER(pointer), ctypes.POINTER(pointer)]
    plug.acre_cupy_idle.argtypes = [ctypes.POINTER(integer), ctypes.POINTER(size)]
    plug.acre_cupy_count.argtypes = [ctypes.c_uint64 * len(_COUNTS)]
    plug.acre_cupy_count.restype = None
    return plug


_plug = _load()


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def _failure(status):
    """The exception for a failed allocation of this thread."""
    needed = _plug.acre_cupy_describe(status, None, 0)
    buffer = ctypes.create_string_buffer(needed + 1)
    _plug.acre_cupy_describe(status, buffer, len(buffer))
    text = buffer.value.decode(errors="replace")
    return OutOfMemory(text, status) if status in _library.MEMORY else Failure(text, status)


# ---- streams ----

_kept: Dict[Any, Any] = {}  # (device, handle): the stream of live blocks, which must not be destroyed
_kept_lock = threading.RLock()


def _drop_idle():
    """Lets go of the streams that have no block any more."""
    device, handle = ctypes.c_int(), ctypes.c_size_t()
    with _kept_lock:
        while _plug.acre_cupy_idle(ctypes.byref(device), ctypes.byref(handle)):
            stream = _kept.pop((device.value, handle.value), None)
            if isinstance(stream, cupy.cuda.Stream):
                # CuPy may be about to destroy it; what was freed on it is then still reusable.
                lib().acre_stream_retire(_card(device.value)[0], handle.value)


def _met(device, handle):
    """Called when the first block of a stream is allocated. Returns 0 if the stream cannot be kept."""
    try:
        with _kept_lock:
            _drop_idle()
            stream = cupy.cuda.get_current_stream()
            if stream.ptr != handle:
                return 0
            _kept[device, handle] = stream
        return 1
    except Exception:  # pylint: disable=broad-except  # a callback of C cannot raise
        return 0


def _collect():
    """Called when memory ran out: arrays in reference cycles are garbage, too."""
    gc.collect()
    return 1


_callbacks = (_MET(_met), _COLLECT(_collect))  # C has their addresses for good


def _stream_function():
    """The address of CuPy's C function that returns the current stream, or None.

    Cython exports C functions of a module in capsules, whose name is the function's type.
    """
    api = ctypes.pythonapi
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    try:
        from cupy_backends.cuda import stream as module

        capsule = module.__pyx_capi__["get_current_stream_ptr"]
        name = api.PyCapsule_GetName(capsule)
        if name != b"intptr_t (void)":
            return None
        address = api.PyCapsule_GetPointer(capsule, name)
        found = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(address)()
    except (ImportError, AttributeError, KeyError, ValueError):
        return None
    return address if found == cupy.cuda.get_current_stream().ptr else None


# ---- the allocator ----


def _setup(driver, current, raises):
    options = _Options(
        ctypes.sizeof(_Options),
        driver.encode(),
        current,
        *_callbacks,
        _address(ctypes.pythonapi.PyErr_SetString) if raises else None,
        OutOfMemory,
        Failure,
    )
    if not _plug.acre_cupy_setup(ctypes.byref(options)):
        raise ImportError("libacre_cupy.so is of another version than this package")


def _raises():
    """Whether CuPy raises an exception that the C function has set. CuPy built by Cython 3 does."""
    probe = _memory.CFunctionAllocator(0, _address(_plug.acre_cupy_probe), _address(_plug.acre_cupy_free), None)
    try:
        list(map(probe.malloc, [1]))  # map checks the result; a compiled call in bytecode may not
    except OutOfMemory:
        return True
    except SystemError:  # CuPy returned memory, with the exception set
        pass
    return False


def _c_allocator(driver, current):
    """Returns an allocator in C, and how it reports failures."""
    _setup(driver, current, True)
    malloc = _memory.CFunctionAllocator(
        0, _address(_plug.acre_cupy_alloc), _address(_plug.acre_cupy_free), _plug
    ).malloc
    if _raises():
        return malloc, "c"
    _setup(driver, current, False)

    def checked(size, malloc=malloc):
        memory = malloc(size)
        if memory.ptr or not size:
            return memory
        raise _failure(_plug.acre_cupy_status())

    return checked, "c, checked in Python"


def _python_allocator(driver):
    _setup(driver, None, False)
    allocate, give, current = _plug.acre_cupy_alloc_on, _plug.acre_cupy_free, cupy.cuda.get_current_stream

    def malloc(size, device):
        p = ctypes.c_void_p()
        status = allocate(device, size, current().ptr, ctypes.byref(p))
        if status:
            raise _failure(status)
        return p.value

    def free(p, device):
        give(None, p, device)

    return _memory.PythonFunctionAllocator(malloc, free).malloc


def _card(device=None):
    """Returns acre's device and pool for a device of CuPy, by default the current one."""
    opened, pool = ctypes.c_void_p(), ctypes.c_void_p()
    if device is None:
        device = cupy.cuda.runtime.getDevice()
    check(_plug.acre_cupy_card(device, ctypes.byref(opened), ctypes.byref(pool)))
    return opened.value, pool.value


class Pool:
    """What `use` returns. It has the common methods of cupy.cuda.MemoryPool, for the current device.

    `how` says how CuPy calls acre: "c", "c, checked in Python" or "python".
    """

    def __init__(self, malloc: Callable[[int], Any], how: str) -> None:
        self.malloc = malloc
        self.how = how

    def used_bytes(self) -> int:
        """Bytes of live blocks, after rounding. Other users of acre's default pool count, too."""
        return stats()["live_bytes"]

    def total_bytes(self) -> int:
        """Device memory that the pool holds."""
        return stats()["held_bytes"]

    def free_bytes(self) -> int:
        """Device memory that the pool holds and that no live block uses."""
        now = stats()
        return max(0, now["held_bytes"] - now["live_bytes"])

    def free_all_blocks(self, stream: Any = None) -> None:
        """Releases free memory to the driver. Memory that queued work still uses stays."""
        del stream
        _drop_idle()
        check(lib().acre_pool_trim(_card()[1], 0))

    def set_limit(self, size: Optional[int] = None, fraction: Optional[float] = None) -> None:
        """Limits live and cached blocks on the current device, in bytes or as a part of its memory."""
        if size is not None and fraction is not None:
            raise ValueError("size and fraction exclude each other")
        device, pool = _card()
        if fraction is not None:
            if not 0 <= fraction <= 1:
                raise ValueError(f"fraction {fraction} is not between 0 and 1")
            info = make(c.acre_device_info)
            check(lib().acre_device_get_info(device, ctypes.byref(info)))
            size = int(info.total_bytes * fraction)
        check(lib().acre_pool_set_limits(pool, 0, _values.size(size or 0, "size")))

    def get_limit(self) -> int:
        """The limit of the current device in bytes; 0: none."""
        return stats()["limit_bytes"]


_before = None  # CuPy's allocator before the first use


def use(stream_ordered: Union[bool, str] = True, driver: str = "cuda") -> Pool:
    """Makes acre CuPy's allocator in all threads, and returns a Pool. Arrays allocated before stay valid.

    `stream_ordered`: True, a block belongs to CuPy's current stream; "python", the same through Python
    functions; False, every block belongs to the default stream. The last is only for programs that use
    no other stream: others would reuse memory that is still in use.
    """
    global _before
    if stream_ordered not in (True, False, "python"):
        raise ValueError(f'stream_ordered is {stream_ordered!r}; it must be True, False or "python"')
    current = _stream_function() if stream_ordered is True else None
    if stream_ordered == "python" or (stream_ordered and current is None):
        malloc, how = _python_allocator(driver), "python"
    else:
        malloc, how = _c_allocator(driver, current)
    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(malloc)
    _before = _before or before
    return Pool(malloc, how)


def stop() -> None:
    """Gives CuPy the allocator back that it had before `use`. Arrays of acre stay valid."""
    global _before
    if _before is not None:
        cupy.cuda.set_allocator(_before)
        _before = None


def record_use(array: Any, stream: Any = None) -> None:
    """Records that work queued on `stream` so far, by default the current one, uses the array's memory.

    The memory is then not reused before that work is done, even if the array is gone.
    """
    stream = stream or cupy.cuda.get_current_stream()
    memory = array.data.mem
    check(lib().acre_pool_record_use(_card(memory.device_id)[1], memory.ptr, stream.ptr))


def stats(device: Optional[int] = None) -> Dict[str, int]:
    """Returns the statistics of the pool that serves a device, by default the current one, as a dict.

    Besides those of the pool: `streams_with_blocks` and `blocks_on_streams`, other than the default
    stream; `late_frees`, which had to wait for the device because their stream was gone; `lost_frees`,
    which failed.
    """
    values = make(c.acre_pool_stats)
    check(lib().acre_pool_get_stats(_card(device)[1], ctypes.byref(values)))
    counts = (ctypes.c_uint64 * len(_COUNTS))()
    _plug.acre_cupy_count(counts)
    names = [name for name, _ in c.acre_pool_stats._fields_ if name != "struct_size"]
    return {**{name: getattr(values, name) for name in names}, **dict(zip(_COUNTS, counts))}
