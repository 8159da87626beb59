"""Suspend and resume: device memory leaves, and addresses stay."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional, Sequence

from . import _declarations as c
from ._device import Device
from ._library import check, lib, make
from ._object import Handle
from ._values import Record, choice, record, size, text

HOWS = {
    "keep": c.ACRE_SUSPEND_KEEP,
    "file": c.ACRE_SUSPEND_FILE,
    "drop": c.ACRE_SUSPEND_DROP,
    "stay": c.ACRE_SUSPEND_STAY,
}


class Rule(NamedTuple):
    """What happens to the memory that matches all fields that are set: blocks with a tag, memory of a pool, or an
    object (block, vec, plan buffer, range, or an address). `how` is "keep", "file", "drop" or "stay". unchanged=True:
    the program has not written the contents since the resume that brought them back."""

    how: str = "keep"
    tag: Optional[str] = None
    pool: Any = None
    object: Any = None
    unchanged: bool = False


def _rule(rule: Rule) -> c.acre_suspend_rule:
    if not isinstance(rule, Rule):
        raise TypeError(f"a rule must be an acre.Rule, not {type(rule).__name__}")
    address = getattr(rule.object, "ptr", rule.object)
    return make(
        c.acre_suspend_rule,
        tag=None if rule.tag is None else text(rule.tag, "tag"),
        pool=None if rule.pool is None else rule.pool.handle,
        object=None if address is None else size(address, "object"),
        how=choice(rule.how, HOWS, "how"),
        is_unchanged=bool(rule.unchanged),
    )


class Suspended(Handle):
    """Memory that left a device, until resume(); `with device.suspend():` resumes at its end.

    Options: how ("keep" in host memory, "file", "drop", "stay") for memory without a rule; rules, the first that
    matches applies; folder for "file"; wait=True: calls that need the memory wait for resume instead of failing;
    retain=True keeps the copies for the next suspend; timeout in seconds for work in flight (default 30).
    """

    def __init__(
        self,
        device: Device,
        *,
        how: str = "keep",
        rules: Sequence[Rule] = (),
        folder: Any = None,
        wait: bool = False,
        retain: bool = False,
        timeout: float = 0,
    ) -> None:
        super().__init__(device)
        array = (c.acre_suspend_rule * max(len(rules), 1))(*[_rule(rule) for rule in rules])
        options = make(
            c.acre_suspend_options,
            how=choice(how, HOWS, "how"),
            flags=c.ACRE_SUSPEND_WAIT * bool(wait) | c.ACRE_SUSPEND_RETAIN * bool(retain),
            rules=array,
            rule_count=len(rules),
            folder=None if folder is None else text(folder, "folder"),
            timeout_ms=size(int(timeout * 1000), "timeout"),
        )
        made = ctypes.c_void_p()
        check(lib().acre_suspend(device.handle, ctypes.byref(options), ctypes.byref(made)))
        self._handle = made.value
        info = make(c.acre_suspend_info)
        check(lib().acre_suspend_get_info(self._handle, ctypes.byref(info)))
        self.info: Record = record(info)  # what the suspend did, in bytes

    def _destroy(self, handle: int) -> None:
        check(lib().acre_resume(handle))

    def read(self, address: Any, count: int) -> bytes:
        """Returns `count` bytes of kept contents: of a block, vec or other object, or from a device address."""
        at = getattr(address, "ptr", address)
        data = ctypes.create_string_buffer(size(count, "count"))
        check(lib().acre_suspend_read(self.handle, size(at, "address"), len(data), data))
        return data.raw

    def resume(self) -> None:
        """Brings everything back. After a failure it may be called again; after a success it is a no-op."""
        self.close()

    def __del__(self) -> None:
        """Nothing: memory that a program forgets stays away until the device is closed."""
