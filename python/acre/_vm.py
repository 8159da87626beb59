"""Virtual memory by hand: chunks of memory, addresses, and mappings of chunks at addresses."""

from __future__ import annotations

import ctypes
from typing import List, NamedTuple, Optional

from . import _declarations as c
from ._device import Device
from ._library import Error, check, lib
from ._memory import HOST_KINDS, Exports, OwnedMemory
from ._object import Handle
from ._values import ACCESSES, choice, size

_KINDS = {"device": 0, "pinned": c.ACRE_VM_HOST}


class Granularity(NamedTuple):
    """Sizes of chunks and addresses of mappings are multiples of `minimum`."""

    minimum: int
    recommended: int


def _flags(kind: str, shareable: bool, rdma: bool) -> int:
    flags = choice(kind, _KINDS, "kind")
    return flags | (c.ACRE_VM_SHAREABLE if shareable else 0) | (c.ACRE_VM_RDMA if rdma else 0)


def granularity(device: Device, kind: str, shareable: bool, rdma: bool) -> Granularity:
    minimum, recommended = ctypes.c_size_t(), ctypes.c_size_t()
    flags = _flags(kind, shareable, rdma)
    check(lib().acre_vm_granularity(device.handle, flags, ctypes.byref(minimum), ctypes.byref(recommended)))
    return Granularity(minimum.value, recommended.value)


class Chunk(Handle):
    """Physical memory without an address. `nbytes` is rounded up to the granularity.

    Options: kind ("device" or "pinned"), shareable (export_fd works), rdma. With `fd` it is the memory that another
    process exported, and `nbytes` must be the size of the chunk there.
    """

    def __init__(
        self,
        device: Device,
        nbytes: int,
        *,
        kind: str = "device",
        shareable: bool = False,
        rdma: bool = False,
        fd: Optional[int] = None,
    ) -> None:
        super().__init__(device)
        made, real = ctypes.c_void_p(), ctypes.c_size_t(size(nbytes))
        flags = _flags(kind, shareable, rdma)
        if fd is None:
            check(lib().acre_vm_create(device.handle, nbytes, flags, ctypes.byref(made), ctypes.byref(real)))
        elif flags:
            raise ValueError("an imported chunk takes no options: the process that exported it has chosen them")
        else:
            check(lib().acre_vm_import(device.handle, size(fd, "fd", 2**31 - 1), nbytes, ctypes.byref(made)))
        self._handle = made.value
        self.kind, self.nbytes = kind, real.value

    def _destroy(self, handle: int) -> None:
        check(lib().acre_vm_release(self.device.handle, handle))

    def close(self) -> None:
        """Releases the chunk. Mappings keep its memory until they are freed. A second call is a no-op."""
        super().close()

    def export_fd(self) -> int:
        """Returns a file descriptor of the memory, which the caller closes. Needs shareable=True."""
        fd = ctypes.c_int(-1)
        check(lib().acre_vm_export(self.device.handle, self.handle, ctypes.byref(fd)))
        return fd.value


class Reservation(Handle):
    """Addresses without memory, from `ptr` on. map() gives them memory. close() needs all mappings freed.

    Options: alignment (a power of two), hint (the preferred first address).
    """

    def __init__(self, device: Device, nbytes: int, *, alignment: int = 0, hint: int = 0) -> None:
        super().__init__(device)
        made, real = ctypes.c_void_p(), ctypes.c_size_t()
        check(
            lib().acre_vm_reserve(
                device.handle,
                size(nbytes),
                size(alignment, "alignment"),
                size(hint, "hint") or None,
                ctypes.byref(made),
                ctypes.byref(real),
            )
        )
        self._handle = made.value
        self.nbytes = real.value

    def _destroy(self, handle: int) -> None:
        check(lib().acre_vm_address_free(self.device.handle, handle))

    @property
    def ptr(self) -> int:
        return self.handle

    def map(self, chunk: Chunk, offset: int = 0, access: str = "read_write") -> Mapping:
        """Maps a whole chunk `offset` bytes after `ptr`, and gives the device access; the host, too, if the chunk is
        of host memory. access="none": nobody has access before set_access()."""
        if not isinstance(chunk, Chunk):
            raise TypeError(f"chunk must be an acre.Chunk, not {type(chunk).__name__}")
        choice(access, ACCESSES, "access")
        mapping = Mapping(self, chunk, self.ptr + size(offset, "offset"))
        try:
            if access != "none":
                mapping.set_access(self.device, access)
            if access != "none" and mapping.kind in HOST_KINDS:
                mapping.set_access(None, access)
        except Error:
            mapping.free()
            raise
        return mapping


class Mapping(OwnedMemory):
    """A chunk at addresses of a reservation. free() unmaps it, after all work of the device."""

    def __init__(self, reservation: Reservation, chunk: Chunk, ptr: int) -> None:
        check(lib().acre_vm_map(reservation.device.handle, ptr, chunk.handle))
        super().__init__(reservation.device, ptr, chunk.nbytes, chunk.kind, None)
        self.reservation = reservation

    def _free(self, ptr: int, stream: int) -> int:
        status = lib().acre_device_sync(self.device.handle)
        return status or lib().acre_vm_unmap(self.device.handle, ptr, self.nbytes)

    def set_access(self, peer: Optional[Device], access: str = "read_write") -> None:
        """Sets the access of a device, or of the host (None): "none", "read" or "read_write"."""
        number = choice(access, ACCESSES, "access")
        if access != "read_write":
            self._must_be_free("take access away")
        other = None if peer is None else peer.handle
        check(lib().acre_vm_set_access(self.device.handle, self.ptr, self.nbytes, other, number))

    def get_access(self, peer: Optional[Device]) -> str:
        """Returns the access of a device, or of the host (None)."""
        found = ctypes.c_int()
        other = None if peer is None else peer.handle
        check(lib().acre_vm_get_access(self.device.handle, self.ptr, other, ctypes.byref(found)))
        return next(name for name, number in ACCESSES.items() if number == found.value)

    def _exports_of(self) -> List[Exports]:
        if self.kind in HOST_KINDS and self.get_access(None) != "read_write":
            raise BufferError("the host cannot write to this mapping: call set_access(None) first")
        return super()._exports_of()
