"""Sharing memory with other processes."""

from __future__ import annotations

import ctypes
from typing import Any, List, Optional, Sequence

from . import _declarations as c
from ._device import Device
from ._library import check, lib, make
from ._memory import Allocation, Memory
from ._object import Handle
from ._values import Record, record, size, stream_handle, text


def _uids(uids: Optional[Sequence[int]]) -> Any:
    if not uids:
        return None
    return (ctypes.c_uint32 * len(uids))(*[size(uid, "uid", 2**32 - 1) for uid in uids])


class Share(Handle):
    """A vec (shareable=True) or an allocation that other processes can import under the path of a socket.

    Options: uids (user ids that may import it; default this user), importers (at most, default 16), read_only.
    """

    def __init__(
        self,
        memory: Any,
        path: Any,
        *,
        uids: Optional[Sequence[int]] = None,
        importers: int = 0,
        read_only: bool = False,
    ) -> None:
        from ._vec import Vec

        if not isinstance(memory, (Vec, Allocation)):
            raise TypeError(f"only an acre.Vec or acre.Allocation can be shared, not {type(memory).__name__}")
        super().__init__(memory.device)
        self.memory = memory
        known = _uids(uids)
        options = make(
            c.acre_share_options,
            uids=known,
            uid_count=len(uids or ()),
            importers=size(importers, "importers", 2**32 - 1),
            flags=c.ACRE_SHARE_READ_ONLY if read_only else 0,
        )
        made, where = ctypes.c_void_p(), text(path, "path")
        if isinstance(memory, Vec):
            status = lib().acre_share_vec(memory.handle, where, ctypes.byref(options), ctypes.byref(made))
        else:
            device = memory.device.handle
            status = lib().acre_share_mem(device, memory.ptr, where, ctypes.byref(options), ctypes.byref(made))
        check(status)
        self._handle = made.value

    def _destroy(self, handle: int) -> None:
        check(lib().acre_share_close(handle))


class Import(Memory, Handle):
    """Memory that another process shares. refresh() follows its growth.

    Options: uids (accepted owners; default this user and root), timeout in seconds (default 5), stream.
    """

    def __init__(
        self, device: Device, path: Any, *, uids: Optional[Sequence[int]] = None, timeout: float = 0, stream: Any = None
    ) -> None:
        Handle.__init__(self, device)
        Memory.__init__(self, device, "device", stream)
        options = make(
            c.acre_import_options,
            uids=_uids(uids),
            uid_count=len(uids or ()),
            wait_ms=size(int(timeout * 1000), "timeout", 2**32 - 1),
        )
        made = ctypes.c_void_p()
        check(lib().acre_import_open(device.handle, text(path, "path"), ctypes.byref(options), ctypes.byref(made)))
        self._handle = made.value

    def _destroy(self, handle: int) -> None:
        self._finish_uses(lambda stream: lib().acre_stream_sync(self.device.handle, stream))
        check(lib().acre_import_close(handle, self._last_stream()))

    def close(self) -> None:
        """Closes the import and unmaps its memory. A second call is a no-op."""
        self._close(lambda: self._must_be_free("close the import"))

    def refresh(self, stream: Any = None) -> None:
        """Updates the import after the owner's memory grew or shrank; the address may change."""
        self._must_be_free("refresh the import")
        check(lib().acre_import_refresh(self.handle, stream_handle(self._stream if stream is None else stream)))

    @property
    def info(self) -> Record:
        """bytes, mapped_bytes, element_bytes, owner_pid, owner_uid, is_read_only and others."""
        info = make(c.acre_import_info)
        check(lib().acre_import_get_info(self.handle, ctypes.byref(info)))
        return record(info, ("struct_size", "reserved", "device"))

    @property
    def ptr(self) -> int:  # type: ignore[override]
        return self.info.data or 0

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return self.info.bytes


def export_fds(memory: Any) -> List[tuple]:
    """Exports the chunks of an allocation or a shareable vec as (file descriptor, bytes), in the order of their
    addresses, for Vulkan or OpenGL. The caller closes the descriptors."""
    device, room = memory.device.handle, 16
    while True:
        fds, lengths, count = (ctypes.c_int * room)(), (ctypes.c_uint64 * room)(), ctypes.c_size_t()
        status = lib().acre_share_export_fds(device, memory.ptr, room, fds, lengths, ctypes.byref(count))
        if status == c.ACRE_E_RANGE and count.value > room:
            room = count.value
            continue
        check(status)
        return list(zip(fds[: count.value], lengths[: count.value]))
