"""acre: GPU memory management.

    import acre

    with acre.open() as device:
        a = device.zeros((1024, 1024), "float32")     # from the device's pool
        v = device.vec("float32")                     # grows in place
        v.append(a)

Works on NVIDIA GPUs, and without one on the soft device, which emulates the same calls on the CPU. torch, CuPy and
JAX take arrays, blocks and vecs by DLPack, without a copy: torch.from_dlpack(a). Errors are acre.Error, with `status`,
`name` and `detail`; acre.OutOfMemory is also a MemoryError, and has a `report`.

acre.torch, acre.cupy and acre.numba make acre the allocator of these libraries. `python -m acre` is the tool.
"""

from ._device import Device, Event, Stream, device_count, open, retire_stream
from ._heap import Heap, HeapBlock, heap_header
from ._library import Error, OutOfMemory
from ._memory import Allocation, Array, Memory
from ._plan import AS_NEEDED, Placed, Plan, PlanBlock, PlanBuffer, Step
from ._pool import Block, Leaked, LiveBlock, Pool, SpillableBlock
from ._range import Budget, Part, Range
from ._share import Import, Share, export_fds
from ._suspend import Rule, Suspended
from ._transfer import Registration
from ._values import DType, Record
from ._vec import Vec
from ._vm import Chunk, Granularity, Mapping, Reservation
from ._watch import (
    Setting,
    Trace,
    export_stats,
    oom_report,
    set_log,
    set_tag_limit,
    settings,
    snapshot,
    tag,
    tags,
    trace,
    version,
)

__all__ = [
    "AS_NEEDED", "Allocation", "Array", "Block", "Budget", "Chunk", "DType", "Device", "Error", "Event", "Granularity",
    "Heap", "HeapBlock", "Import", "Leaked", "LiveBlock", "Mapping", "Memory", "OutOfMemory", "Part", "Placed", "Plan",
    "PlanBlock", "PlanBuffer", "Pool", "Range", "Record", "Registration", "Reservation", "Rule", "Setting", "Share",
    "SpillableBlock", "Step", "Stream", "Suspended", "Trace", "Vec", "device_count", "export_fds", "export_stats",
    "heap_header", "oom_report", "open", "retire_stream", "set_log", "set_tag_limit", "settings", "snapshot", "tag",
    "tags", "trace", "version",
]
