"""The parts of Numba that acre.numba uses.

`install()` puts modules with Numba's names into sys.modules. The classes behave as Numba documents its
interface of memory managers, version 1: `set_memory_manager` creates an instance without a context to
read its version; a MemoryPointer calls its finalizer once, when its last reference is gone.
"""

import collections
import contextlib
import ctypes
import importlib
import os
import sys
import types
import weakref

MemoryInfo = collections.namedtuple("MemoryInfo", "free,total")


class CudaAPIError(Exception):
    """As numba.cuda.cudadrv.driver.CudaAPIError."""

    def __init__(self, code, msg):
        self.code, self.msg = code, msg
        super().__init__(code, msg)

    def __str__(self):
        return f"[{self.code}] {self.msg}"


class HostOnlyCUDAMemoryManager:
    """The base class of plug-ins that leave host memory to Numba."""

    def __init__(self, context):
        self.context = context
        self.allocations = {}
        self.resets = self.deferred = 0

    def reset(self):
        """Clears host memory."""
        self.resets += 1

    @contextlib.contextmanager
    def defer_cleanup(self):
        """Host memory is not freed meanwhile."""
        self.deferred += 1
        yield
        self.deferred -= 1


class MemoryPointer:
    """A pointer with a finalizer."""

    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        self.context, self.device_pointer, self.size, self.owner = context, pointer, size, owner
        if finalizer:
            weakref.finalize(self, finalizer)

    @property
    def device_pointer_value(self):
        """The address."""
        return self.device_pointer.value


class Device:
    """A device with a number."""

    id = 0


class Context:
    """A context with the memory manager that the program chose."""

    def __init__(self):
        self.device = Device()
        self.memory_manager = manager_class()(context=self)

    def memalloc(self, size):
        """Allocates, as Numba does: it initializes the manager when the context is pushed."""
        self.memory_manager.initialize()
        return self.memory_manager.memalloc(size)


_manager = None


def set_memory_manager(plugin):
    """As numba.cuda.set_memory_manager."""
    global _manager
    version = plugin(context=None).interface_version
    if version != 1:
        raise RuntimeError(f"EMM Plugin interface has version {version} - version 1 required")
    _manager = plugin


def manager_class():
    """The class that the program or the environment chose."""
    if _manager is None:
        module = importlib.import_module(os.environ["NUMBA_CUDA_MEMORY_MANAGER"])
        set_memory_manager(module._numba_memory_manager)
    return _manager


class CUdeviceptr(ctypes.c_uint64):
    """The pointer type of NVIDIA's bindings."""


def install():
    """Installs the modules."""
    for name in ("numba", "numba.cuda", "numba.cuda.cudadrv", "numba.cuda.cudadrv.driver"):
        module = sys.modules[name] = types.ModuleType(name)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    sys.modules["numba.cuda"].set_memory_manager = set_memory_manager
    module.USE_NV_BINDING = False
    module.MemoryInfo = MemoryInfo
    module.MemoryPointer = MemoryPointer
    module.CudaAPIError = CudaAPIError
    module.HostOnlyCUDAMemoryManager = HostOnlyCUDAMemoryManager
