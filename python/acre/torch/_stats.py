"""Statistics: PyTorch's own functions with acre's figures, and acre's own."""

from __future__ import annotations

import ctypes
from typing import Any, Dict

from .. import _library
from . import _plug

c = _library.c

# Statistics of PyTorch that acre has no figures for. "oversize" has no parts for small and large blocks.
EMPTY = ("inactive_split", "inactive_split_bytes")
OVERSIZE = ("oversize_allocations", "oversize_segments")
# Functions behind torch.accelerator, and those of torch.cuda that return the same.
ACCELERATOR = {
    "_accelerator_getDeviceStats": "_cuda_memoryStats",
    "_accelerator_resetPeakStats": "_cuda_resetPeakMemoryStats",
    "_accelerator_resetAccumulatedStats": "_cuda_resetAccumulatedMemoryStats",
}
KEYS = ("current", "peak", "allocated", "freed")

_fractions = {}


def _index(device):
    """Returns the number of a device, as PyTorch's functions take it."""
    if isinstance(device, int):
        return device
    import torch

    if device is None:
        return torch.cuda.current_device()
    number = torch.device(device).index
    return torch.cuda.current_device() if number is None else number


def _counter(counter):
    return dict(zip(KEYS, (counter.current, counter.peak, counter.total, counter.freed)))


def _parts(counter):
    """PyTorch counts small and large blocks separately; acre does not."""
    none = dict.fromkeys(KEYS, 0)
    return {"all": counter, "small_pool": none, "large_pool": dict(none)}


def nested(device):
    """Returns the statistics of a device as torch._C._cuda_memoryStats does."""
    stats = _plug.stats_of(_index(device))
    none = dict.fromkeys(KEYS, 0)
    result = {
        "allocation": _parts(_counter(stats.blocks)),
        "active": _parts(_counter(stats.blocks)),
        "segment": _parts(none),
        "allocated_bytes": _parts(_counter(stats.allocated)),
        "active_bytes": _parts(_counter(stats.allocated)),
        "requested_bytes": _parts(_counter(stats.requested)),
        "reserved_bytes": _parts(_counter(stats.held)),
        "num_ooms": stats.failures,
        "acre": {"wrong_frees": stats.wrong_frees, "recorded_streams": stats.recorded,
                 "late_frees": stats.late_frees},
    }
    result.update({name: _parts(none) for name in EMPTY})
    result.update({name: dict(none) for name in OVERSIZE})
    result.update(dict.fromkeys(
        ("num_alloc_retries", "num_sync_all_streams", "num_device_alloc", "num_device_free"), 0))
    result["max_split_size"] = -1
    return result


def _refuse(name, instead):
    def refused(*_args, **_kwargs):
        raise RuntimeError(f"{name} records what PyTorch's own allocator does, and acre is the allocator: "
                           f"use {instead}")

    return refused


def replace(torch):
    """Makes PyTorch's statistics work, which throw under any allocator but its own.

    torch.cuda.memory_allocated and all others end in these functions of torch._C and look them up in each
    call. So they work wherever a program imported them from, and whenever.
    """
    core, plug = torch._C, _plug.plug()
    core._cuda_memoryStats = nested
    core._cuda_resetPeakMemoryStats = lambda device: plug.acre_torch_reset_peaks(_index(device))
    core._cuda_resetAccumulatedMemoryStats = lambda device: plug.acre_torch_reset_totals(_index(device))
    core._cuda_memorySnapshot = _refuse("torch.cuda.memory.memory_snapshot", "acre.torch.snapshot(path)")
    core._cuda_record_memory_history = core._cuda_record_memory_history_legacy = _refuse(
        "torch.cuda.memory._record_memory_history", "acre.torch.record_stacks()")
    core._cuda_attach_out_of_memory_observer = _refuse(
        "torch._C._cuda_attach_out_of_memory_observer",
        "the text of torch.OutOfMemoryError, which is acre's report")
    for theirs, ours in ACCELERATOR.items():
        if hasattr(core, theirs):
            setattr(core, theirs, getattr(core, ours))
    inner = getattr(core, "_cuda_setMemoryFraction", None)
    if inner is None:
        return

    def set_fraction(fraction, device):
        inner(fraction, device)
        _fractions[device] = fraction

    core._cuda_setMemoryFraction = set_fraction
    core._cuda_getMemoryFraction = lambda device: _fractions.get(device, 1.0)


# ---- acre's own ----


def tags():
    """Returns the tags of all pools, parents before their children."""
    found = []

    @c.acre_tag_walk_fn
    def add(_user, info):
        tag = info.contents
        found.append({"tag": tag.path.decode(), "live_bytes": tag.live_bytes, "blocks": tag.live_blocks,
                      "peak_bytes": tag.peak_bytes, "limit_bytes": tag.limit_bytes})
        return 0

    _library.check(_library.lib().acre_tag_walk(add, None))
    return found


def pool_stats(device):
    """Returns all statistics of a device's default pool; empty if acre has not opened the device."""
    plug = _plug.plug()
    if not plug.acre_torch_device(device):
        return {}
    pool = ctypes.c_void_p()
    _library.check(plug.acre_torch_pool_of(-1, device, ctypes.byref(pool)))
    values = _library.make(c.acre_pool_stats)
    _library.check(_library.lib().acre_pool_get_stats(pool, ctypes.byref(values)))
    return {name: getattr(values, name) for name, _ in c.acre_pool_stats._fields_ if name != "struct_size"}


def stats(device: Any = None) -> Dict[str, Any]:
    """Returns what acre holds for PyTorch on a device (default: the current one).

    allocated, requested, blocks and held have current, peak, allocated and freed, as PyTorch's own
    statistics; `pool` has all statistics of the default pool, `tags` the memory by tag.
    """
    index = _index(device)
    values = _plug.stats_of(index)
    return {
        "device": index,
        "allocated": _counter(values.allocated),
        "requested": _counter(values.requested),
        "blocks": _counter(values.blocks),
        "held": _counter(values.held),
        "failures": values.failures,
        "wrong_frees": values.wrong_frees,
        "recorded_streams": values.recorded,
        "late_frees": values.late_frees,
        "pool": pool_stats(index),
        "tags": tags(),
    }


def size_text(count):
    """Returns bytes as people read them."""
    if count < 0:
        return "-" + size_text(-count)
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.1f} {unit}" if unit != "bytes" else f"{count} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def memory_summary(device: Any = None) -> str:
    """Returns a text that says what fills the card, the largest part first."""
    from . import _snapshot

    index = _index(device)
    values = stats(index)
    handle = _plug.plug().acre_torch_device(index)
    if not handle:
        return f"acre has no memory on device {index}: nothing was allocated through it yet\n"
    info = _library.make(c.acre_device_info)
    _library.check(_library.lib().acre_device_get_info(handle, ctypes.byref(info)))
    counts = _library.make(c.acre_device_stats)
    _library.check(_library.lib().acre_device_get_stats(handle, ctypes.byref(counts)))
    held, live, away = values["held"]["current"], values["allocated"]["current"], counts.suspended_bytes
    here = max(0, held - away)
    rows = [
        (live, f"tensors, {values['blocks']['current']} blocks"),
        (max(0, held - live), "free in acre's pools (torch.cuda.empty_cache() releases it)"),
        (max(0, info.total_bytes - info.free_bytes - here), "outside acre: other processes, libraries, the CUDA context"),
        (info.free_bytes, "free"),
    ]
    if away:
        rows.insert(2, (-away, "of these suspended: not on the card (acre.saver's pause, or acre_suspend)"))
    lines = [f"Memory of device {index}, {size_text(info.total_bytes)}"]
    lines += [f"  {size_text(count):>12}  {what}" for count, what in rows]
    lines.append(f"Highest: {size_text(values['allocated']['peak'])} of tensors, "
                 f"{size_text(values['held']['peak'])} held")
    by_tag = sorted((t for t in values["tags"] if t["live_bytes"]), key=lambda t: -t["live_bytes"])
    if by_tag:
        lines.append("Tensors, by tag")
        lines += [f"  {size_text(t['live_bytes']):>12}  {t['tag']}, {t['blocks']} blocks, at most "
                  f"{size_text(t['peak_bytes'])}" for t in by_tag]
    by_line = _snapshot.by_line()
    if by_line:
        lines.append("Tensors, by the line that made them")
        lines += [f"  {size_text(count):>12}  {where}, {blocks} blocks" for where, count, blocks in by_line[:20]]
    return "\n".join(lines) + "\n"
