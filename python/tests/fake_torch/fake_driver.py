"""The driver of the fake torch: libcuda.so.1, which the tests let be acre's stand-in."""

import ctypes
import os
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

_cuda = None


def cuda():
    """Returns libcuda.so.1 with a current context."""
    global _cuda
    if _cuda is None:
        _cuda = ctypes.CDLL(os.environ["ACRE_CUDA_LIBRARY"], mode=ctypes.RTLD_GLOBAL)
        call("cuInit", c_uint(0))
        call("cuDevicePrimaryCtxRetain", byref(_context), c_int(0))
    return _cuda


_context = c_void_p()


def call(name, *arguments):
    """Calls the driver, with the context current in this thread, and raises an error for its codes."""
    driver = _cuda or cuda()
    if name not in ("cuInit", "cuDevicePrimaryCtxRetain"):
        driver.cuCtxSetCurrent(_context)
    code = getattr(driver, name)(*arguments)
    if code:
        raise RuntimeError(f"{name} returned {code}")


def pointer(value):
    return c_void_p(value)


def memory_info():
    free, total = c_size_t(), c_size_t()
    call("cuMemGetInfo_v2", byref(free), byref(total))
    return free.value, total.value


def device_pointer(value):
    return c_ulonglong(value)
