"""What pools, vecs, plans, ranges, heaps, shares and imports have in common: a handle with an end."""

from __future__ import annotations

import sys
from typing import Callable, Optional

from ._closing import Closing
from ._device import Device
from ._library import Error
from ._memory import Exports


class Handle(Closing):
    """An object of the library. `with` and close() destroy it, and so does the garbage collector."""

    device: Device

    def __init__(self, device: Device) -> None:
        self._handle: Optional[int] = None
        if not isinstance(device, Device):
            raise TypeError(f"device must be an acre.Device, not {type(device).__name__}")
        self.device = device

    @property
    def handle(self) -> int:
        """The handle of the C API."""
        if self._handle is None or not self.device.is_open:
            raise ValueError(f"this {type(self).__name__.lower()} is closed")
        return self._handle

    @property
    def is_open(self) -> bool:
        return self._handle is not None and self.device.is_open

    def _destroy(self, handle: int) -> None:
        """Destroys the object of the library; raises Error if that fails."""
        raise NotImplementedError

    def close(self) -> None:
        """Destroys the object and frees its memory. A second call is a no-op."""
        self._close()

    def _close(self, must_be_free: Callable[[], None] = lambda: None) -> None:
        """Closes the object. `must_be_free` raises BufferError if there are exports."""
        with Exports.lock:
            if self.is_open:
                must_be_free()
            handle, self._handle = self._handle, None
        if handle is None or not self.device.is_open:
            return
        try:
            self._destroy(handle)
        except Error:
            self._handle = handle
            raise

    def __del__(self) -> None:
        # acre frees nothing at exit, and the modules that this needs may be gone.
        if sys is None or sys.is_finalizing() or getattr(self, "_handle", None) is None:
            return
        try:
            Handle.close(self)
        except (Error, ValueError):  # or another thread has closed the device
            pass
