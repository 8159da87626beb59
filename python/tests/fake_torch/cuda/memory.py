"""torch.cuda.memory of the fake torch: as in PyTorch, everything looks its function of torch._C up."""

import ctypes
import weakref

from .. import _C
from .. import fake_driver as _driver


class CUDAPluggableAllocator:
    def __init__(self, path, alloc_name, free_name):
        library = ctypes.CDLL(path)
        alloc = ctypes.cast(getattr(library, alloc_name), ctypes.c_void_p).value
        free = ctypes.cast(getattr(library, free_name), ctypes.c_void_p).value
        self._allocator = _C._cuda_customAllocator(alloc, free)
        self._allocator.maker = weakref.ref(self)

    def allocator(self):
        return self._allocator


def change_current_allocator(allocator):
    _C._cuda_changeCurrentAllocator(allocator.allocator())


def memory_stats(device=None):
    if not _C.initialized:
        return {}
    flat = {}

    def add(prefix, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                add(f"{prefix}.{key}" if prefix else key, inner)
        else:
            flat[prefix] = value

    add("", _C._cuda_memoryStats(0 if device is None else device))
    return flat


def memory_allocated(device=None):
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device=None):
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device=None):
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device=None):
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device=None):
    _C._cuda_resetPeakMemoryStats(0 if device is None else device)


def reset_accumulated_memory_stats(device=None):
    _C._cuda_resetAccumulatedMemoryStats(0 if device is None else device)


def memory_snapshot():
    return _C._cuda_memorySnapshot()


def empty_cache():
    if _C.initialized:
        _C._cuda_emptyCache()


def set_per_process_memory_fraction(fraction, device=None):
    _C.init()
    _C._cuda_setMemoryFraction(fraction, 0 if device is None else device)


def get_per_process_memory_fraction(device=None):
    return _C._cuda_getMemoryFraction(0 if device is None else device)


def mem_get_info(device=None):
    _C.init()
    return _driver.memory_info()
