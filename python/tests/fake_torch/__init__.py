"""A small torch for the tests of acre.torch and acre.saver: bytes instead of tensors, on the stand-in.

It has the parts of PyTorch that these modules use, under the same names and with the same order of calls:
CUDAPluggableAllocator and its setters, MemPool, graphs, statistics that end in torch._C and throw under a
pluggable allocator.
"""

import ctypes
import threading

from . import _C, backends, cuda
from ._C import OutOfMemoryError
from . import fake_driver as _driver

__version__ = "2.11.0+fake"
PART = 1 << 16


class version:
    cuda = "13.0"


class device:
    def __init__(self, name):
        _, _, number = str(name).partition(":")
        self.index = int(number) if number else None


class Tensor:
    dtype, is_cuda = "uint8", True

    def __init__(self, count):
        self._count, self._p, self._owner = count, None, _C.allocator
        _C.init()
        self._p = self._owner.malloc(count, _C.current_stream().cuda_stream)

    def data_ptr(self):
        return self._p

    def fill_(self, value):
        _driver.call("cuMemsetD8Async", _driver.device_pointer(self._p), ctypes.c_ubyte(value),
                     ctypes.c_size_t(self._count), ctypes.c_void_p(_C.current_stream().cuda_stream))
        return self

    def _part(self, start, end):
        out = ctypes.create_string_buffer(end - start)
        _driver.call("cuMemcpyDtoH_v2", out, _driver.device_pointer(self._p + start), ctypes.c_size_t(end - start))
        return out.raw

    def _parts(self):
        """The contents in parts so small that all use the same pages."""
        cuda.synchronize()
        return (self._part(start, min(start + PART, self._count)) for start in range(0, self._count, PART))

    def __getitem__(self, index):
        cuda.synchronize()
        return self._part(index % self._count, index % self._count + 1)[0]

    def bytes(self):
        return b"".join(self._parts())

    def values(self):
        """The set of all elements."""
        return set().union(*(part[:1] if part == part[:1] * len(part) else part for part in self._parts()))

    @property
    def shape(self):
        return (self._count,)

    def numel(self):
        return self._count

    def element_size(self):
        return 1

    def is_contiguous(self):
        return True

    def record_stream(self, stream):
        self._owner.record_stream(self._p, stream.cuda_stream)

    def __del__(self):
        if self._p:
            self._owner.free(self._p)


class HostTensor:
    dtype, is_cuda = "uint8", False

    def __init__(self, shape):
        self._data = ctypes.create_string_buffer(shape[0])

    def data_ptr(self):
        return ctypes.addressof(self._data)

    def bytes(self):
        return self._data.raw


def empty(count, *, dtype="uint8", device=None):
    assert dtype == "uint8"
    return HostTensor(count) if device == "cpu" else Tensor(count)


def backward(function):
    """Runs a function as autograd does: in another thread, on this thread's stream."""
    stream, results = _C.current_stream(), []

    def work():
        _C.tls.stream = stream
        results.append(function())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return results[0]


def compile(model=None, *, mode=None, options=None, backend="inductor"):
    return model
