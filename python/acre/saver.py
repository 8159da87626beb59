"""Take parts of a program's GPU memory off the card, and bring them back at the same addresses.

The calls are those of torch_memory_saver, so that a program changes one import:

    from acre.saver import torch_memory_saver

    with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
        weights = torch.empty(...)
    torch_memory_saver.pause("weights")     # the memory is free for others; contents are in host memory
    torch_memory_saver.resume("weights")    # same addresses, same contents

Works under acre.torch.use(), and without it on PyTorch's own allocator.

With TMS_INIT_ENABLE=1 in the environment all tensors belong to the tag "default", except those of other regions
and of disable(); with TMS_INIT_ENABLE_CPU_BACKUP=1 (or _DISK_BACKUP) their contents are kept. This needs
acre.torch.use(). TMS_RETAIN_CPU_BACKUP=1 and TMS_DISK_BACKUP_DIR set the attributes of the same names.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import threading
from typing import Any, Dict, Iterator, List, Optional

from . import _library, _values
from .torch import _plug, _pools, _use

__all__ = ["TorchMemorySaver", "configure_subprocess", "cuda_graph", "disable", "pause", "region",
           "resume", "torch_memory_saver"]

c = _library.c

DEFAULT_TAG = "default"
DEVICES = 64


def _clean(tag, number):
    """Returns a tag of acre for any text. Only tags that are not the text itself have a #."""
    cleaned = re.sub(r"[^ !$-.0-\[\]-~]", "_", tag)[:48]
    return cleaned if cleaned and cleaned == tag else f"{cleaned}#{number}"


def _is_set(variable):
    """Returns whether an environment variable is set to a word for yes."""
    return os.environ.get(variable, "").lower() in ("1", "true", "yes", "y", "on")


# What happens to contents.
KEEP, FILE, DROP = c.ACRE_SUSPEND_KEEP, c.ACRE_SUSPEND_FILE, c.ACRE_SUSPEND_DROP
NAMES = {KEEP: "kept", FILE: "on disk", DROP: "dropped"}


def _how(enable_cpu_backup, enable_disk_backup):
    if enable_cpu_backup and enable_disk_backup:
        raise ValueError("enable_cpu_backup and enable_disk_backup exclude each other")
    return KEEP if enable_cpu_backup else FILE if enable_disk_backup else DROP


class _Rest:
    """All that belongs to no region, with TMS_INIT_ENABLE."""

    tag = DEFAULT_TAG

    def __init__(self, how):
        self.how = how

    def acre_pool(self, device):
        pool = ctypes.c_void_p()
        _library.check(_plug.plug().acre_torch_pool_of(-1, device, ctypes.byref(pool)))
        return pool


class _Part:
    """What one tag has whose contents share a fate: a region, and what of it is away."""

    def __init__(self, tag, how, number):
        self.tag, self.how = tag, how
        self.pool = _pools.Pool(f"saver/{_clean(tag, number)}/{NAMES[how]}", own=True)

    def acre_pool(self, device):
        pool = ctypes.c_void_p()
        _library.check(_plug.plug().acre_torch_pool_of(self.pool.region, device, ctypes.byref(pool)))
        return pool


class TorchMemorySaver:
    """The interface of torch_memory_saver over acre. Use the object torch_memory_saver of this module."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._parts: Dict[Any, _Part] = {}  # by tag, and what happens to the contents
        self._away: Dict[str, List[Any]] = {}  # by tag: a list of handles of acre_suspend
        self._margin = 0
        #: Keep the copies on the host after resume: the next pause need not get pages for them.
        self.retain = _is_set("TMS_RETAIN_CPU_BACKUP")
        #: Accepted for compatibility: acre needs no hook.
        self.hook_mode: Optional[str] = None
        self._folder = os.environ.get("TMS_DISK_BACKUP_DIR") or None
        self._rest = None
        self._disabled: Optional[_pools.Pool] = None
        if _is_set("TMS_INIT_ENABLE"):
            self._rest = _Rest(_how(_is_set("TMS_INIT_ENABLE_CPU_BACKUP"), _is_set("TMS_INIT_ENABLE_DISK_BACKUP")))

    @property
    def retain_cpu_backup(self) -> bool:
        """The same as retain, under the name that torch_memory_saver has."""
        return self.retain

    @retain_cpu_backup.setter
    def retain_cpu_backup(self, value: bool) -> None:
        self.retain = bool(value)

    # ---- regions ----

    @property
    def enabled(self) -> bool:
        """Always True: there is nothing to preload."""
        return True

    def set_disk_backup_dir(self, path: Any) -> None:
        """Sets the folder for the contents of regions with enable_disk_backup, and creates it if needed."""
        os.makedirs(path, exist_ok=True)
        self._folder = os.fspath(path)

    def _part(self, tag, how):
        with self._lock:
            key = (str(tag), how)
            if key not in self._parts:
                self._parts[key] = _Part(*key, len(self._parts))
            return self._parts[key]

    @contextlib.contextmanager
    def region(self, tag: str = DEFAULT_TAG, enable_cpu_backup: bool = False, enable_disk_backup: bool = False,
               **_unused: Any) -> Iterator[None]:
        """Serves what this thread allocates from memory that pause(tag) takes off the card.

        Contents are kept with enable_cpu_backup in host memory, with enable_disk_backup in a file of the folder
        of set_disk_backup_dir (or TMS_DISK_BACKUP_DIR). Otherwise they are undefined after resume. Other options of
        torch_memory_saver, such as cpu_backup_backend and chunk_size, are accepted and change nothing.
        """
        how = _how(enable_cpu_backup, enable_disk_backup)
        if how == FILE and self._folder is None:
            raise ValueError("enable_disk_backup needs a folder: call set_disk_backup_dir(path) before")
        if self.is_paused(tag):
            raise RuntimeError(f"the memory of the tag {str(tag)!r} is paused: resume it before allocating in its "
                               "region")
        with self._part(tag, how).pool:
            yield

    @contextlib.contextmanager
    def disable(self) -> Iterator[None]:
        """Leaves all regions of this thread for a while: what is allocated here stays on the card."""
        if self._rest is None:
            with _pools.set_aside():
                yield
            return
        import torch

        with self._lock:
            if self._disabled is None:
                self._disabled = _pools.Pool("saver/disabled", own=True)
            aside = self._disabled
        try:
            with aside:
                yield
        finally:
            torch.cuda.empty_cache()

    @contextlib.contextmanager
    def cuda_graph(self, cuda_graph: Any, pool: Any = None, stream: Any = None,
                   capture_error_mode: str = "global", tag: str = DEFAULT_TAG,
                   enable_cpu_backup: bool = False, **_unused: Any) -> Iterator[None]:
        """Captures a graph whose memory pause(tag) takes off the card; the graph stays valid.

        Without acre.torch.use() `pool` is ignored: graphs of one tag and thread share the tag's own pool.
        """
        import torch

        part = self._part(tag, _how(enable_cpu_backup, False))
        arguments = {"stream": stream, "capture_error_mode": capture_error_mode}
        if not _use.is_used():
            # `pool` cannot be served: the graph's memory must be in the MemPool that pause(tag) takes.
            with _pools.set_aside(), _pools.kept_open(torch), torch.cuda.graph(
                    cuda_graph, pool=part.pool.mempool().id, **arguments):
                yield
            return
        with torch.cuda.graph(cuda_graph, pool=pool, **arguments):
            # Inside, where the capture's stream is the current one, for backward's threads.
            with _pools.Pool(part.pool.tag, own=True, backward=True):
                yield

    # ---- pause and resume ----

    def pause(self, tag: Optional[str] = None) -> None:
        """Takes the memory of a tag, or of all, off the card. Waits for all queued work.

        A tag that is paused already, or has no memory, is a no-op. Until resume, the program must not use
        its tensors, and allocations in its regions fail.
        """
        with self._lock:
            tags = {part.tag for part in self._all()} if tag is None else {str(tag)}
            for name in sorted(tags - self._away.keys()):
                self._pause_one(name)

    def _all(self):
        """Lock held: returns all that pause can take away."""
        if self._rest is None:
            return list(self._parts.values())
        if not _use.is_used():
            raise RuntimeError("TMS_INIT_ENABLE needs acre.torch.use(): otherwise PyTorch's own allocator serves "
                               "what is in no region")
        return [*self._parts.values(), self._rest]

    def _pause_one(self, tag):
        parts = [part for part in self._all() if part.tag == tag]
        handles = []
        try:
            for device in range(DEVICES if parts else 0):
                handle = _plug.plug().acre_torch_device(device)
                if handle:
                    handles.append(self._suspend(handle, device, parts))
        except Exception:
            for suspended in handles:
                _library.lib().acre_resume(suspended)
            raise
        if handles:
            self._away[tag] = handles

    def _suspend(self, handle, device, parts):
        rules = (c.acre_suspend_rule * len(parts))()
        for rule, part in zip(rules, parts):
            rule.struct_size = ctypes.sizeof(rule)
            rule.pool = part.acre_pool(device)
            rule.how = part.how
        options = _library.make(c.acre_suspend_options, how=c.ACRE_SUSPEND_STAY, rules=rules,
                                rule_count=len(parts),
                                folder=None if self._folder is None else os.fsencode(self._folder),
                                flags=c.ACRE_SUSPEND_RETAIN if self.retain else 0)
        suspended = ctypes.c_void_p()
        _library.check(_library.lib().acre_suspend(handle, ctypes.byref(options), ctypes.byref(suspended)))
        return suspended

    def resume(self, tag: Optional[str] = None) -> None:
        """Brings the memory of a tag, or of all, back to its addresses.

        Raises acre.OutOfMemory if the card is too full; the tag is then still paused, and the call may be
        repeated. A tag that is not paused is a no-op.
        """
        with self._lock:
            for name in sorted(self._away) if tag is None else [str(tag)]:
                handles = self._away.get(name, [])
                while handles:
                    self._resume_one(handles[-1])
                    handles.pop()
                self._away.pop(name, None)

    @staticmethod
    def _resume_one(suspended):
        status = _library.lib().acre_resume(suspended)
        if status == c.ACRE_E_DEVICE_MEMORY:
            import torch

            torch.cuda.empty_cache()  # PyTorch's own cache may hold the memory
            status = _library.lib().acre_resume(suspended)
        _library.check(status)

    def is_paused(self, tag: str = DEFAULT_TAG) -> bool:
        """Returns whether the memory of a tag is off the card."""
        return str(tag) in self._away

    def info(self, tag: str = DEFAULT_TAG) -> Dict[str, int]:
        """Returns what the pause of a tag did, in bytes: released_bytes, kept_bytes and others."""
        sums: Dict[str, int] = {}
        for suspended in self._away.get(str(tag), []):
            values = _library.make(c.acre_suspend_info)
            _library.check(_library.lib().acre_suspend_get_info(suspended, ctypes.byref(values)))
            for name, _ in c.acre_suspend_info._fields_[1:]:
                sums[name] = sums.get(name, 0) + getattr(values, name)
        return sums

    # ---- the rest of torch_memory_saver ----

    @property
    def memory_margin_bytes(self) -> int:
        """Bytes of the card that stay free: an allocation that would need some of them fails.

        Holds on all devices, whoever has the rest of the card, for all memory that acre allocates there. resume() may
        use it.
        """
        return self._margin

    @memory_margin_bytes.setter
    def memory_margin_bytes(self, count: int) -> None:
        self._margin = _values.size(int(count), "memory_margin_bytes")
        _plug.plug().acre_torch_set_margin(self._margin)

    def get_cpu_backup(self, tensor: Any, zero_copy: bool = False) -> Any:
        """Returns the contents of a paused tensor as a tensor of the CPU; None if the tensor is on the card.

        The result is a copy, also with zero_copy: it stays valid after resume. Raises RuntimeError for a tensor that
        is away without a backup: its contents are lost.
        """
        import torch

        del zero_copy
        if not tensor.is_cuda or not tensor.is_contiguous():
            raise ValueError("get_cpu_backup needs a contiguous tensor on a GPU")
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        count = tensor.numel() * tensor.element_size()
        with self._lock:
            for suspended in (handle for handles in self._away.values() for handle in handles):
                status = _library.lib().acre_suspend_read(suspended, tensor.data_ptr(), count, copy.data_ptr())
                if status != c.ACRE_E_POINTER:
                    _library.check(status)
                    return copy
            if self._is_away(tensor.data_ptr()):
                raise RuntimeError("the tensor is paused, and its region has no backup: its contents are lost")
        return None

    def _is_away(self, address):
        """Lock held: returns whether the address is in memory that a pause took away."""
        for part in self._all():
            for device in range(DEVICES if part.tag in self._away else 0):
                is_open = _plug.plug().acre_torch_device(device)
                if is_open and _library.lib().acre_pool_owns(part.acre_pool(device), address):
                    return True
        return False


torch_memory_saver = TorchMemorySaver()
region = torch_memory_saver.region
disable = torch_memory_saver.disable
cuda_graph = torch_memory_saver.cuda_graph
pause = torch_memory_saver.pause
resume = torch_memory_saver.resume


@contextlib.contextmanager
def configure_subprocess() -> Iterator[None]:
    """A no-op: processes that use acre.saver need no preloaded library."""
    yield
