"""Vecs: arrays that grow in place."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Optional, Tuple

from . import _declarations as c
from ._device import Device
from ._library import check, lib, make
from ._memory import Memory
from ._object import Handle
from ._transfer import Place, type_of
from ._values import ACCESSES, KINDS, DType, Record, choice, dtype, record, size, stream_handle

STRATEGIES = {
    "auto": c.ACRE_VEC_AUTO,
    "vmm": c.ACRE_VEC_VMM,
    "copy": c.ACRE_VEC_COPY,
    "managed": c.ACRE_VEC_MANAGED,
}


class Vec(Memory, Handle):
    """An array of device, pinned or managed memory that grows and shrinks in place.

    It reserves addresses in advance, by default as many as the device has memory: growth within them copies nothing
    and keeps the address. While another library holds an export of it, a vec grows within its addresses only, and does
    not shrink: BufferError otherwise.

    Options: kind, strategy ("auto", "vmm", "copy", "managed"), address_bytes, limit_bytes, ahead_bytes, chunk_bytes,
    shareable, rdma, and stream: the stream whose work uses the vec.
    """

    def __init__(
        self,
        device: Device,
        type_: Any = "uint8",
        *,
        kind: Optional[str] = None,
        strategy: str = "auto",
        address_bytes: int = 0,
        limit_bytes: int = 0,
        ahead_bytes: int = 0,
        chunk_bytes: int = 0,
        shareable: bool = False,
        rdma: bool = False,
        stream: Any = None,
    ) -> None:
        Handle.__init__(self, device)
        self._lock = threading.RLock()  # between exports and calls that move
        self._dtype = dtype(type_)
        options = make(
            c.acre_vec_options,
            kind=choice(kind, KINDS, "kind") if kind is not None else 0,
            strategy=choice(strategy, STRATEGIES, "strategy"),
            address_bytes=size(address_bytes, "address_bytes"),
            limit_bytes=size(limit_bytes, "limit_bytes"),
            ahead_bytes=size(ahead_bytes, "ahead_bytes"),
            chunk_bytes=size(chunk_bytes, "chunk_bytes"),
            flags=c.ACRE_VEC_SHAREABLE * bool(shareable) | c.ACRE_VEC_RDMA * bool(rdma),
        )
        chosen = kind or ("managed" if strategy == "managed" else "device")
        Memory.__init__(self, device, chosen, stream)
        stream_handle(stream)
        made = ctypes.c_void_p()
        item = self._dtype.itemsize
        check(lib().acre_vec_create(device.handle, item, ctypes.byref(options), ctypes.byref(made)))
        self._handle = made.value

    def _destroy(self, handle: int) -> None:
        self._finish_uses(lambda stream: lib().acre_vec_record_use(handle, stream))
        check(lib().acre_vec_destroy(handle, self._last_stream()))

    def close(self) -> None:
        """Destroys the vec and frees its memory. A second call is a no-op."""
        self._close(lambda: self._must_be_free("free memory"))

    def _held(self) -> Any:
        return self._lock

    # ---- what it has ----

    @property
    def ptr(self) -> int:  # type: ignore[override]
        return lib().acre_vec_data(self.handle) or self._zero()

    def _zero(self) -> int:
        """Returns 0 if the library works. Functions without a status return 0 in a forked child: Error there."""
        check(lib().acre_vec_get_info(self.handle, ctypes.byref(make(c.acre_vec_info))))
        return 0

    @property
    def size(self) -> int:
        """The number of elements; len(vec) is the same."""
        return lib().acre_vec_size(self.handle) or self._zero()

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return self.size * self._dtype.itemsize

    @property
    def capacity(self) -> int:
        """The number of elements that the reserved addresses have room for."""
        return lib().acre_vec_capacity(self.handle) or self._zero()

    @property
    def mapped_nbytes(self) -> int:
        """The bytes of physical memory."""
        return lib().acre_vec_mapped_bytes(self.handle) or self._zero()

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> Tuple[int, ...]:
        return (self.size,)

    @property
    def info(self) -> Record:
        """Size, capacity, chunks, moves and bytes copied."""
        info = make(c.acre_vec_info)
        check(lib().acre_vec_get_info(self.handle, ctypes.byref(info)))
        values = dict(record(info, ("struct_size", "device")))
        names = {number: name for name, number in STRATEGIES.items()}
        values.update(kind=self.kind, strategy=names[info.strategy])
        return Record(values)

    # ---- changes ----

    def _stream_of(self, stream: Any) -> int:
        return stream_handle(self._stream if stream is None else stream)

    def _may_grow_to(self, count: int) -> None:
        """An export fixes the address: the vec may grow within its addresses."""
        if (self._is_pinned() or self._is_fixed) and count > self.capacity:
            raise BufferError(
                f"cannot grow to {count} elements: the vec may have to move beyond {self.capacity}, and an array or "
                "tensor of another library uses it; reserve() more before the export"
            )

    def reserve(self, count: int, stream: Any = None) -> None:
        """Reserves addresses for `count` elements in all."""
        number = size(count, "count")
        with self._lock:
            self._may_grow_to(number)
            check(lib().acre_vec_reserve(self.handle, number, self._stream_of(stream)))

    def grow(self, count: int, stream: Any = None) -> None:
        """Adds `count` elements with undefined contents."""
        number = size(count, "count")
        with self._lock:
            self._may_grow_to(self.size + number)
            check(lib().acre_vec_grow(self.handle, number, self._stream_of(stream)))

    def append(self, source: Any, stream: Any = None) -> None:
        """Adds the elements of any memory or buffer, in stream order."""
        with self._lock, Place(source, False, "source") as place:
            if place.nbytes is None:
                raise TypeError("append takes memory or a buffer, not an address")
            self._must_be_of_type(source)
            count, rest = divmod(place.nbytes, self._dtype.itemsize)
            if rest:
                raise ValueError(f"{place.nbytes} bytes are not a whole number of {self._dtype.name}")
            self._may_grow_to(self.size + count)
            handle = self._stream_of(stream)
            place.order(self.device, handle)
            check(lib().acre_vec_append(self.handle, place.address or None, count, handle))

    def _must_be_of_type(self, source: Any) -> None:
        """Raises TypeError if the source has elements of another type. Bytes may be anything."""
        found = type_of(source)
        if found is not None and "uint8" not in (found.name, self._dtype.name) and found != self._dtype:
            raise TypeError(f"the source has elements of {found.name}, the vec has {self._dtype.name}; convert it first")

    def resize(self, count: int, stream: Any = None) -> None:
        """Sets the number of elements."""
        number = size(count, "count")
        with self._lock:
            if number < self.size:
                self._must_be_free("shrink the vec")
            self._may_grow_to(number)
            check(lib().acre_vec_resize(self.handle, number, self._stream_of(stream)))

    def shrink(self, count: int, stream: Any = None) -> None:
        """Removes the last `count` elements."""
        number = size(count, "count")
        with self._lock:
            self._must_be_free("shrink the vec")
            check(lib().acre_vec_shrink(self.handle, number, self._stream_of(stream)))

    def shrink_to_fit(self, stream: Any = None) -> None:
        """Releases the memory that the elements do not need."""
        with self._lock:
            check(lib().acre_vec_shrink_to_fit(self.handle, self._stream_of(stream)))

    def clear(self) -> None:
        """Removes all elements and keeps the memory."""
        with self._lock:
            self._must_be_free("shrink the vec")
            check(lib().acre_vec_clear(self.handle))

    def record_use(self, stream: Any) -> None:
        """Records that work queued on another stream so far uses the vec."""
        check(lib().acre_vec_record_use(self.handle, stream_handle(stream)))

    def set_access(self, peer: Device, access: str = "read_write") -> None:
        """Gives another device access ("none", "read" or "read_write")."""
        check(lib().acre_vec_set_access(self.handle, peer.handle, choice(access, ACCESSES, "access")))

    def share(self, path: Any, **options: Any) -> Any:
        """Shares the vec (shareable=True) with other processes under the path of a socket; see acre.Share."""
        from ._share import Share

        return Share(self, path, **options)
