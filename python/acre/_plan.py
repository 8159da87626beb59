"""Plans: declare buffers and their lifetimes once."""

from __future__ import annotations

import collections
import ctypes
import threading
import weakref
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _declarations as c
from . import _native
from ._device import Device
from ._closing import Unique
from ._library import Error, check, lib, make
from ._memory import Exports, Memory, OwnedMemory
from ._object import Handle
from ._pool import Pool
from ._values import KINDS, PLACES, Record, choice, record, size, stream_handle, text

AS_NEEDED = c.ACRE_PLAN_AS_NEEDED


class Placed(NamedTuple):
    """A request of a plan and where it was placed; `ptr` is 0 before that."""

    name: str
    ptr: int
    nbytes: int
    offset: int
    first_step: int
    last_step: int
    place: str


class PlanBuffer(Memory):
    """Memory that was requested from a plan. Its address is known when the plan has placed it, and is invalid after
    release()."""

    def __init__(self, plan: Plan, nbytes: int, place: str) -> None:
        super().__init__(plan.device, "device" if place == "device" else plan.host_kind, None)
        self.plan = plan
        self.place = place
        self._nbytes = nbytes
        self._round = plan._round
        self._variable = ctypes.c_void_p()  # acre writes the address here

    @property
    def is_placed(self) -> bool:
        return self._round == self.plan._round and bool(self._variable.value or not self._nbytes)

    @property
    def ptr(self) -> int:  # type: ignore[override]
        self.plan.handle  # raises if it is closed
        if self._round != self.plan._round:
            raise ValueError("the plan was released: this buffer has no memory any more")
        if not self.is_placed:
            raise ValueError("the plan has not placed this buffer yet: call satisfy() or commit()")
        return self._variable.value or 0

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return self._nbytes

    def _root(self) -> Memory:
        return self.plan._exports

    def _exports_of(self) -> List[Exports]:
        return [*super()._exports_of(), self.plan._all_exports]


class PlanBlock(OwnedMemory):
    """A block that a plan allocated in a step. It ends with its step, unless keep=True."""

    def __init__(self, plan: Plan, ptr: int, nbytes: int, place: str, keep: bool) -> None:
        super().__init__(plan.device, ptr, nbytes, "device" if place == "device" else plan.host_kind, plan._step_stream)
        self.plan = plan
        self.keep = keep
        plan._blocks.add(self)

    @property
    def ptr(self) -> int:  # type: ignore[override]
        if not self.plan.is_open:
            raise ValueError("this block has no memory any more: its plan is closed")
        return OwnedMemory.ptr.fget(self)  # type: ignore[attr-defined]

    def _exports_of(self) -> List[Exports]:
        pools = [pool._exports for pool in self.plan._pools if pool is not None]
        return [*super()._exports_of(), self.plan._all_exports, *pools]

    def _free(self, ptr: int, stream: int) -> int:
        """A plan frees in its steps. Outside of one, blocks of a pool are freed at once, others at the next step."""
        plan = self.plan
        if not plan.is_open:
            return c.ACRE_OK
        if plan._stepper == threading.get_ident():
            return lib().acre_plan_free(plan.handle, ptr)
        if lib().acre_free(ptr, stream) != c.ACRE_OK:
            plan._late.append(ptr)
        return c.ACRE_OK

    def _end_with_plan(self) -> None:
        """The plan is about to be destroyed. It does not free blocks of pools."""
        ptr, self._ptr = self._ptr, None
        if ptr:
            lib().acre_free(ptr, self._last_stream())


class _Exports(Memory):
    """Counts the exports of a plan's buffers, for all of them together."""

    ptr = 0
    nbytes = 0


class Plan(Handle):
    """Memory whose use is known in advance. want() requests buffers; acre packs those whose steps do not overlap into
    the same memory.

    Options: device_bytes, host_bytes (AS_NEEDED: grow with the requests), budget of the search, host_kind ("pinned",
    "mapped", "pageable"), deferred (want() queues, satisfy() places), device_pool and host_pool for loops.

    In a loop, `with plan.step(stream):` and plan.alloc() record the first step, and serve all later ones from it.
    Blocks end with their step, or earlier by free(); those of alloc(keep=True) live on, and a pool serves them.
    """

    def __init__(
        self,
        device: Device,
        *,
        device_bytes: int = 0,
        host_bytes: int = 0,
        budget: int = 0,
        host_kind: str = "pinned",
        deferred: bool = False,
        device_pool: Optional[Pool] = None,
        host_pool: Optional[Pool] = None,
    ) -> None:
        super().__init__(device)
        self.host_kind = host_kind
        self._pools = (device_pool, host_pool)  # keeps them alive
        self._round = 0
        self._step_stream: Any = None
        self._stepper: Optional[int] = None  # the thread that is in a step
        self._blocks: weakref.WeakSet = weakref.WeakSet()  # live blocks of steps
        self._late: Deque[int] = collections.deque()  # freed outside of a step
        self._waiting: List[PlanBuffer] = []  # acre still writes their variables
        self._exports = _Exports(device, "device", None)
        self._exported = Exports()  # buffers, and blocks of steps
        options = make(
            c.acre_plan_options,
            device_bytes=size(device_bytes, "device_bytes"),
            host_bytes=size(host_bytes, "host_bytes"),
            budget=size(budget, "budget"),
            host_kind=choice(host_kind, KINDS, "host_kind"),
            flags=c.ACRE_PLAN_DEFERRED if deferred else 0,
            device_pool=device_pool.handle if device_pool is not None else None,
            host_pool=host_pool.handle if host_pool is not None else None,
        )
        made = ctypes.c_void_p()
        check(lib().acre_plan_create(device.handle, ctypes.byref(options), ctypes.byref(made)))
        self._handle = made.value

    def _destroy(self, handle: int) -> None:
        for block in list(self._blocks):
            block._end_with_plan()
        check(lib().acre_plan_destroy(handle))

    def close(self) -> None:
        """Destroys the plan and frees its memory. A second call is a no-op."""
        self._close(lambda: self._exported.must_be_none("close plan"))

    @property
    def _all_exports(self) -> Exports:
        self.handle  # raises if it is closed
        return self._exported

    # ---- requests ----

    def want(
        self,
        nbytes: int,
        place: str = "device",
        *,
        steps: Optional[Tuple[int, int]] = None,
        alignment: int = 0,
        name: Optional[str] = None,
        offset: Optional[int] = None,
    ) -> PlanBuffer:
        """Requests a buffer: for all steps, which has its address at once unless the plan is deferred; or for the
        steps from first to last, which commit() places. `offset` fixes its place in the arena."""
        wish = {"nbytes": nbytes, "place": place, "steps": steps, "alignment": alignment}
        return self.want_many([{**wish, "name": name, "offset": offset}])[0]

    def want_many(self, wishes: Sequence[Dict[str, Any]], *, adjacent: bool = False) -> List[PlanBuffer]:
        """Requests several buffers, all or none: dicts with the arguments of want(). adjacent=True places them one
        after another."""
        buffers = []
        array = (c.acre_plan_wish * max(len(wishes), 1))()
        for item, wish in zip(array, wishes):
            buffers.append(self._fill(item, **wish))
        bits = c.ACRE_PLAN_ADJACENT if adjacent else 0
        # acre may write the variables in this call or in a later one.
        self._waiting += buffers
        try:
            check(lib().acre_plan_want_many(self.handle, array, len(buffers), bits))
        except BaseException:
            self._waiting = [known for known in self._waiting if known not in buffers]
            raise
        self._sweep()
        return buffers

    def _fill(
        self,
        item: c.acre_plan_wish,
        nbytes: int,
        place: str = "device",
        steps: Optional[Tuple[int, int]] = None,
        alignment: int = 0,
        name: Optional[str] = None,
        offset: Optional[int] = None,
    ) -> PlanBuffer:
        item.struct_size = ctypes.sizeof(c.acre_plan_wish)
        item.bytes = size(nbytes)
        item.place = choice(place, PLACES, "place")
        item.alignment = size(alignment, "alignment")
        item.name = None if name is None else text(name, "name")
        if steps is not None:
            first, last = steps
            item.first_step, item.last_step = size(first, "first step"), size(last, "last step")
            item.flags |= c.ACRE_WISH_STEPS
        if offset is not None:
            item.offset = size(offset, "offset")
            item.flags |= c.ACRE_WISH_FIXED
        buffer = PlanBuffer(self, item.bytes, place)
        item.p = ctypes.pointer(buffer._variable)
        return buffer

    def _sweep(self) -> None:
        self._waiting = [buffer for buffer in self._waiting if not buffer.is_placed]

    def satisfy(self) -> None:
        """Places the requests of a deferred plan."""
        check(lib().acre_plan_satisfy(self.handle))
        self._sweep()

    def cancel(self) -> None:
        """Drops all requests that are not placed."""
        check(lib().acre_plan_cancel(self.handle))
        self._waiting = []

    def commit(self) -> None:
        """Places all requests that wait, and fixes the plan until release()."""
        check(lib().acre_plan_commit(self.handle))
        self._sweep()

    def release(self, stream: Any = None) -> None:
        """Empties the plan for the next round and keeps its memory. Work queued on `stream` may still use it; None
        means all streams."""
        self._exports._must_be_free("release the plan")
        check(lib().acre_plan_release(self.handle, stream_handle(stream)))
        self._round += 1
        self._waiting = []

    def placements(self) -> List[Placed]:
        """Lists the requests of this round."""
        walk = lib().acre_plan_walk
        found = _native.walk(walk, c.acre_plan_walk_fn, "acre_python_plan", _native.PlanItem, self.handle)
        places = {number: name for name, number in PLACES.items()}
        made = []
        for item in found:
            at, name = item.placed, item.name.decode(errors="replace")
            made.append(
                Placed(name, at.p or 0, at.bytes, at.offset, at.first_step, at.last_step, places[at.place])
            )
        return made

    # ---- loops ----

    def step(self, stream: Any = None) -> Step:
        """Begins a step of a loop whose memory is used by work of `stream`; `with` ends it."""
        check(lib().acre_plan_step_begin(self.handle, stream_handle(stream)))
        self._step_stream, self._stepper = stream, threading.get_ident()
        while self._late:
            check(lib().acre_plan_free(self.handle, self._late.popleft()))
        return Step(self)

    def alloc(self, nbytes: int, place: str = "device", *, alignment: int = 0, keep: bool = False) -> PlanBlock:
        """Allocates a block in a step. It is freed at the end of the step at the latest, unless keep=True, or unless
        another library still uses it then."""
        p = ctypes.c_void_p()
        where, length, line = choice(place, PLACES, "place"), size(nbytes), size(alignment, "alignment")
        check(lib().acre_plan_alloc(self.handle, where, length, line, ctypes.byref(p)), report=True)
        return PlanBlock(self, p.value or 0, length, place, bool(keep))

    @property
    def stats(self) -> Record:
        """Statistics of the plan; stats.meaning("is_optimal") says what one counts."""
        stats = make(c.acre_plan_stats)
        check(lib().acre_plan_get_stats(self.handle, ctypes.byref(stats)))
        return record(stats)


class Step(Unique):
    """A step of a loop, until end() or the end of `with`."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self._is_begun = plan, True

    def end(self) -> None:
        """Frees the blocks of the step and ends it. A second call is a no-op."""
        if not self._is_begun:
            return
        self._is_begun = False
        for block in list(self.plan._blocks):
            try:
                if not block.keep:
                    block.free()
            except (BufferError, Error):  # it is freed when it is collected
                pass
        self.plan._stepper = None
        check(lib().acre_plan_step_end(self.plan.handle))

    def __enter__(self) -> Plan:
        return self.plan

    def __exit__(self, *_: Any) -> None:
        self.end()
