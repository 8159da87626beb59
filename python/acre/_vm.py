"""Virtual memory by hand: chunks of memory, addresses, and mappings of chunks at addresses."""

from __future__ import annotations

import contextlib
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

    Options: kind ("device" or "pinned"), shareable (export_fd works), rdma. fd: imports memory that another process
    exported; `nbytes` must be the size of the chunk there.
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
        self.nbytes = real.value
        self._kind = kind if fd is None else None

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
        self._is_abandoned = False
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

    def __del__(self) -> None:
        # In a cycle this may run before the mappings' finalizers. Then the last of them frees the addresses.
        self._is_abandoned = True
        super().__del__()

    @property
    def ptr(self) -> int:
        return self.handle

    def map(self, chunk: Chunk, offset: int = 0, access: str = "read_write") -> Mapping:
        """Maps a whole chunk `offset` bytes after `ptr`, and gives access to the device, and to the host if the chunk
        is host memory. access="none": nobody has access before set_access()."""
        if not isinstance(chunk, Chunk):
            raise TypeError(f"chunk must be an acre.Chunk, not {type(chunk).__name__}")
        choice(access, ACCESSES, "access")
        mapping = Mapping(self, chunk, self.ptr + size(offset, "offset"))
        try:
            if access != "none":
                mapping.set_access(self.device, access)
            if access != "none" and chunk._kind in HOST_KINDS:
                mapping.set_access(None, access)
        except Error:
            with contextlib.suppress(Error):
                mapping.free()
            raise
        return mapping


class Mapping(OwnedMemory):
    """A chunk at addresses of a reservation. free() unmaps it, after all work of the device and of devices with access
    to its memory. The host has no access to chunks of host memory that were imported."""

    def __init__(self, reservation: Reservation, chunk: Chunk, ptr: int) -> None:
        device = reservation.device
        check(lib().acre_vm_map(device.handle, ptr, chunk.handle))
        super().__init__(device, ptr, chunk.nbytes, chunk._kind or "device", None)
        self.reservation = reservation
        if chunk._kind is None:
            self.kind = device.query(ptr).kind

    def _free(self, ptr: int, stream: int) -> int:
        status = lib().acre_vm_unmap_sync(self.device.handle, ptr, self.nbytes)
        if self.reservation._is_abandoned:
            with contextlib.suppress(Error):
                self.reservation.close()
        return status

    def set_access(self, peer: Optional[Device], access: str = "read_write") -> None:
        """Sets the access of a device, or of the host (None): "none", "read" or "read_write"."""
        number = choice(access, ACCESSES, "access")
        other = None if peer is None else peer.handle
        with Exports.lock:
            if access != "read_write":
                self._must_be_free("take access away")
            check(lib().acre_vm_set_access(self.device.handle, self.ptr, self.nbytes, other, number))

    def get_access(self, peer: Optional[Device]) -> str:
        """Returns the access of a device, or of the host (None)."""
        found = ctypes.c_int()
        other = None if peer is None else peer.handle
        check(lib().acre_vm_get_access(self.device.handle, self.ptr, other, ctypes.byref(found)))
        return next(name for name, number in ACCESSES.items() if number == found.value)

    def _must_allow(self, writable: bool) -> None:
        parties = [(self.device, self.device.name)] + ([(None, "the host")] if self.kind in HOST_KINDS else [])
        for party, name in parties:
            access = self.get_access(party)
            if access == "none" or (writable and access == "read"):
                raise BufferError(f"{name} has the access {access!r} to this mapping; see set_access")

    def _exports_of(self) -> List[Exports]:
        self._must_allow(True)
        return super()._exports_of()
