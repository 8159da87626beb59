"""Loads libacre_torch.so (python/native/torch_plug.h), which PyTorch calls."""

import ctypes
import os
import threading
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p

from .. import _library

REGIONS = 32
PARTS = 16  # of a tag
OWN_POOL = 1
NAME = "libacre_torch.so"

WATCH = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_int)


class Counter(ctypes.Structure):
    """struct acre_torch_counter"""

    _fields_ = [("current", c_uint64), ("peak", c_uint64), ("total", c_uint64), ("freed", c_uint64)]


class Stats(ctypes.Structure):
    """struct acre_torch_stats"""

    _fields_ = [
        ("allocated", Counter), ("requested", Counter), ("blocks", Counter), ("held", Counter),
        ("failures", c_uint64), ("wrong_frees", c_uint64), ("recorded", c_uint64),
        ("late_frees", c_uint64),
    ]


# Each function: its result, and its parameters. python/tests/test_torch_declared.py compares them with the
# header.
FUNCTIONS = {
    "acre_torch_alloc": (c_void_p, [c_size_t, c_int, c_void_p]),
    "acre_torch_free": (None, [c_void_p, c_size_t, c_int, c_void_p]),
    "acre_torch_record_stream": (None, [c_void_p, c_void_p]),
    "acre_torch_reset": (None, []),
    "acre_torch_memory_fraction": (None, [c_double, c_int]),
    "acre_torch_begin_pool": (None, [c_int, c_uint64, c_uint64, c_void_p, c_void_p, c_void_p]),
    "acre_torch_end_pool": (None, [c_int, c_uint64, c_uint64]),
    "acre_torch_release_pool": (None, [c_int, c_uint64, c_uint64]),
    "acre_torch_region": (c_int, [c_char_p, c_uint32]),
    "acre_torch_enter": (c_int, [c_int]),
    "acre_torch_leave": (None, []),
    "acre_torch_enter_stream": (c_int, [c_int, c_int, c_void_p]),
    "acre_torch_leave_stream": (None, [c_int, c_int, c_void_p]),
    "acre_torch_pool_of": (c_int, [c_int, c_int, POINTER(c_void_p)]),
    "acre_torch_alloc_of": (c_void_p, [c_int]),
    "acre_torch_set_margin": (None, [c_uint64]),
    "acre_torch_open": (c_int, [c_int, c_char_p]),
    "acre_torch_device": (c_void_p, [c_int]),
    "acre_torch_failure": (c_int, [c_char_p, c_size_t]),
    "acre_torch_tell_failures": (None, [c_int]),
    "acre_torch_get_stats": (None, [c_int, POINTER(Stats)]),
    "acre_torch_reset_peaks": (None, [c_int]),
    "acre_torch_reset_totals": (None, [c_int]),
    "acre_torch_set_watch": (None, [c_void_p]),
}

_lock = threading.Lock()
_loaded = None


def path():
    """Returns the file, which lies beside libacre.so; without a folder if that one has none."""
    acre = _library.path()
    if os.sep not in acre:
        return NAME
    for folder in (os.path.dirname(acre), os.path.dirname(os.path.realpath(acre))):
        if os.path.exists(os.path.join(folder, NAME)):
            return os.path.join(folder, NAME)
    return NAME


def plug():
    """Returns the loaded library, a CDLL whose functions have their types."""
    global _loaded
    with _lock:
        if _loaded is None:
            _library.lib()  # first, so that both use the same libacre.so
            try:
                library = ctypes.CDLL(path())
            except OSError as error:
                raise ImportError(f"cannot load {path()}, which acre.torch needs: {error}") from None
            for name, (result, parameters) in FUNCTIONS.items():
                function = getattr(library, name)
                function.restype = result
                function.argtypes = parameters
            _loaded = library
    return _loaded


def address(function):
    """Returns the address of a function of a CDLL."""
    return ctypes.cast(function, c_void_p).value


def region(tag, own_pool=False):
    """Returns the number of a region, which is created if it does not exist."""
    if not isinstance(tag, str):
        raise TypeError(f"a tag is a string, not {type(tag).__name__}")
    if "\0" in tag:
        raise ValueError(f"{tag!r} is not a tag")
    number = plug().acre_torch_region(tag.encode(), OWN_POOL if own_pool else 0)
    if number >= 0:
        return number
    c = _library.c
    if number == c.ACRE_E_LIMIT:
        raise _library.Error(number, "ACRE_E_LIMIT", f"cannot create a region for {tag!r}: a process has {REGIONS} "
                             "regions at most, one for each different tag of acre.torch.pool, and one for each tag "
                             "and enable_cpu_backup of acre.saver")
    if number == c.ACRE_E_INVALID and tag.count("/") >= PARTS:
        raise ValueError(f"{tag!r} is not a tag: a path has {PARTS} names at most")
    if number == c.ACRE_E_INVALID:
        raise ValueError(f"{tag!r} is not a tag: names of 1 to 64 printable ASCII characters, "
                         'without " and \\, separated by /')
    _library.check(number)
    return number


def stats_of(device):
    """Returns the statistics of a device of PyTorch."""
    stats = Stats()
    plug().acre_torch_get_stats(device, ctypes.byref(stats))
    return stats


def failure():
    """Returns the text of this thread's last failed allocation, "" if none failed."""
    text = ctypes.create_string_buffer(1 << 16)
    return text.value.decode(errors="replace") if plug().acre_torch_failure(text, len(text)) else ""
