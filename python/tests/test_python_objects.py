"""Vecs, ranges, plans, heaps, suspend and resume, shares."""

import os
import weakref

import forked
import pytest

import acre
from acre import _declarations as c

MIB = 1 << 20


# ---- vecs ----


@pytest.mark.parametrize("options", [{}, {"strategy": "copy"}, {"kind": "pinned"}, {"strategy": "managed"}])
def test_vec_grows_and_shrinks(device, options):
    with device.vec("int32", **options) as vec:
        assert len(vec) == 0 and vec.nbytes == 0
        vec.append(b"\1\0\0\0\2\0\0\0")
        vec.grow(1)
        device.fill(vec.ptr + 8, 0, 4)
        assert vec.size == 3 and vec.tobytes() == b"\1\0\0\0\2\0\0\0\0\0\0\0"
        vec.resize(1000)
        vec.shrink(998)
        assert vec.get().tolist() == [1, 2]
        vec.reserve(5000)
        assert vec.capacity >= 5000 and vec.mapped_nbytes >= 8
        vec.shrink_to_fit()
        vec.clear()
        assert vec.info.size == 0 and vec.info.kind == vec.kind
    assert device.stats.vecs == 0
    vec.close()
    with pytest.raises(ValueError, match="closed"):
        vec.append(b"")


def test_vec_within_its_addresses_does_not_move(device):
    vec = device.vec("uint8")
    vec.append(b"1")
    address = vec.ptr
    for _ in range(20):
        vec.append(bytes(MIB))
    assert vec.ptr == address and vec.info.moves == 0 and vec.info.strategy == "vmm"


def test_vec_limits_and_wrong_arguments(device):
    vec = device.vec("float64", limit_bytes=2 * MIB)
    with pytest.raises(acre.OutOfMemory) as caught:
        vec.grow(MIB)
    assert caught.value.status == c.ACRE_E_LIMIT and vec.size == 0
    with pytest.raises(ValueError, match="whole number"):
        vec.append(b"123")
    with pytest.raises(TypeError, match="address"):
        vec.append(12345)
    with pytest.raises(acre.Error):
        vec.shrink(1)
    for wrong in ("1", None, 1.5):
        with pytest.raises(TypeError, match="count"):
            vec.grow(wrong)
    with pytest.raises(ValueError, match="strategy"):
        device.vec(strategy="nothing")
    with pytest.raises(TypeError, match="type of elements"):
        device.vec("float33")
    with pytest.raises(TypeError):
        device.vec(no_such_option=1)
    with pytest.raises(acre.Error):
        device.vec(kind="mapped")


def test_vec_uses_of_streams(device):
    with device.stream() as own, device.stream() as other:
        vec = device.vec("uint8", stream=own, ahead_bytes=4 * MIB, chunk_bytes=2 * MIB)
        vec.append(bytes(3 * MIB))
        vec.record_use(other)
        vec.close()


# ---- ranges ----


def test_range_commits_pieces(device):
    with device.range(64 * MIB) as range_:
        assert range_.nbytes == 64 * MIB and range_.parts() == []
        range_.commit(8 * MIB, 4 * MIB)
        range_.commit(32 * MIB, 2 * MIB)
        device.fill(range_.ptr + 8 * MIB, 7, 4 * MIB)
        result = bytearray(10)
        device.copy(result, range_.ptr + 12 * MIB - 10, 10)
        assert result == b"\7" * 10
        range_.decommit(8 * MIB, 2 * MIB)
        parts = [(part.offset, part.nbytes, part.is_committed) for part in range_.parts()]
        assert parts == [(8 * MIB, 2 * MIB, False), (10 * MIB, 2 * MIB, True), (32 * MIB, 2 * MIB, True)]
        assert range_.parts()[0].ptr == range_.ptr + 8 * MIB
        assert range_.stats.committed_bytes == 4 * MIB and range_.stats.idle_bytes == 2 * MIB
        with device.stream() as stream:
            range_.record_use(stream)
        device.synchronize()
        range_.trim()
        assert range_.stats.idle_bytes == 0
        with pytest.raises(acre.Error) as caught:
            range_.commit(64 * MIB, 2 * MIB)
        assert caught.value.status == c.ACRE_E_RANGE
    with pytest.raises(ValueError, match="closed"):
        range_.ptr


def test_ranges_share_a_budget(device):
    budget = device.budget(8 * MIB)
    first, second = device.range(64 * MIB, budget=budget), device.range(64 * MIB, budget=budget, piece_bytes=4 * MIB)
    first.commit(0, 6 * MIB)
    with pytest.raises(acre.OutOfMemory):
        second.commit(0, 4 * MIB)
    budget.set_limit(16 * MIB)
    second.commit(0, 4 * MIB)
    assert budget.stats.ranges == 2 and budget.stats.committed_bytes == 10 * MIB
    first.decommit(0, 6 * MIB)
    device.synchronize()
    budget.trim()
    assert budget.stats.idle_bytes == 0
    with pytest.raises(acre.Error) as caught:
        budget.close()
    assert caught.value.status == c.ACRE_E_BUSY
    first.close()
    second.close()
    budget.close()
    with pytest.raises(TypeError, match="Budget"):
        device.range(MIB, budget=3)


# ---- plans ----


def test_plan_places_at_once(device):
    with device.plan(device_bytes=16 * MIB, host_bytes=4 * MIB) as plan:
        on_device, on_host = plan.want(1000, name="weights"), plan.want(2000, "host")
        assert on_device.is_placed and on_device.ptr % 256 == 0
        on_device.fill(3)
        on_host.copy_from(on_device, 1000)
        device.synchronize()
        assert bytes(on_host.buffer[:1000]) == b"\3" * 1000
        found = {placed.name: placed for placed in plan.placements()}
        assert found["weights"].ptr == on_device.ptr and found["weights"].place == "device"
        assert found[""].nbytes == 2000 and plan.stats.wishes == 2
        assert plan.want(0).ptr == 0
        with pytest.raises(acre.OutOfMemory):
            plan.want(64 * MIB)
        with pytest.raises(ValueError, match="place"):
            plan.want(10, "moon")


def test_plan_packs_steps(device):
    plan = device.plan(device_bytes=4 * MIB)
    first, second = plan.want(2 * MIB, steps=(0, 3)), plan.want(2 * MIB, steps=(4, 5))
    with pytest.raises(ValueError, match="commit"):
        first.ptr
    plan.commit()
    assert first.ptr == second.ptr and plan.stats.is_committed and plan.stats.device_used_bytes == 2 * MIB
    with pytest.raises(acre.Error) as caught:
        plan.want(10)
    assert caught.value.status == c.ACRE_E_COMMITTED
    plan.release()
    with pytest.raises(ValueError, match="released"):
        first.ptr
    adjacent = plan.want_many([{"nbytes": 1000}, {"nbytes": 500, "alignment": 8}], adjacent=True)
    assert adjacent[1].ptr == adjacent[0].ptr + 1000
    fixed = plan.want(100, offset=MIB)
    assert fixed.ptr - adjacent[0].ptr == MIB - plan.placements()[0].offset
    plan.close()


def test_plan_defers_and_cancels(device):
    plan = device.plan(deferred=True, device_bytes=acre.AS_NEEDED)
    buffers = [plan.want(1000) for _ in range(10)]
    assert not any(buffer.is_placed for buffer in buffers)
    addresses = set()
    plan.satisfy()
    addresses.update(buffer.ptr for buffer in buffers)
    assert len(addresses) == 10
    waiting = plan.want(10)
    plan.cancel()
    assert not waiting.is_placed and plan.stats.waiting == 0
    # acre writes into the variables of requests, so that these must live until then.
    forgotten = [weakref.ref(plan.want(10)) for _ in range(100)]
    assert all(known() is not None for known in forgotten)
    plan.satisfy()
    assert plan.stats.wishes == 110 and all(known() is None for known in forgotten)


def test_plan_serves_a_loop(device):
    with device.pool() as pool:
        plan = device.plan(device_pool=pool)
        seen = []
        for _ in range(4):
            with plan.step() as running:
                first, second = running.alloc(100000), running.alloc(50000, "host")
                seen.append(first.ptr)
                first.free()
                second.free()
        assert plan.stats.steps == 4 and plan.stats.hits == 6 and plan.stats.misses == 0
        assert seen[1] == seen[2] == seen[3]
        with pytest.raises(acre.Error) as caught:
            plan.alloc(10)
        assert caught.value.status == c.ACRE_E_INVALID
        plan.close()


# ---- heaps ----


def test_heap_from_the_host(device):
    heap = device.heap(initial_bytes=4 * MIB, limit_bytes=16 * MIB, service=False)
    assert len(heap.kernel_argument) == 32
    assert heap.stats.mapped_bytes == 4 * MIB and len(heap.stats.classes) == c.ACRE_HEAP_CLASSES
    assert heap.stats.classes[0].bytes == 16
    heap.grow(8 * MIB)
    assert heap.stats.mapped_bytes == 8 * MIB
    heap.limit_bytes = 8 * MIB
    assert heap.limit_bytes == 8 * MIB
    with pytest.raises(acre.OutOfMemory):
        heap.grow(10 * MIB)
    assert heap.blocks() == []
    heap.reset()
    heap.trim()
    assert heap.stats.mapped_bytes < 8 * MIB
    assert heap.close() == acre.Leaked(0, 0)


# ---- suspend ----


def test_suspend_and_resume(device):
    block, kept = device.alloc(8 * MIB), device.vec("uint8")
    block.fill(5)
    kept.append(b"\6" * (4 * MIB))
    before = device.info.free_bytes
    suspended = device.suspend()
    assert suspended.info.released_bytes >= 12 * MIB and suspended.info.kept_bytes >= 12 * MIB
    assert device.info.free_bytes > before and device.stats.suspended_bytes
    with pytest.raises(acre.Error) as caught:
        block.tobytes()
    assert caught.value.status == c.ACRE_E_SUSPENDED
    assert suspended.read(block, 3) == b"\5" * 3 and suspended.read(kept.ptr + 9, 4) == b"\6" * 4
    with pytest.raises(acre.Error) as caught:
        suspended.read(block, 64 * MIB)
    assert caught.value.status == c.ACRE_E_POINTER
    suspended.resume()
    suspended.resume()
    assert block.tobytes() == b"\5" * (8 * MIB) and kept.tobytes() == b"\6" * (4 * MIB)


def test_suspend_by_rules(device, tmp_path):
    with device.pool() as drop, device.pool() as stay:
        dropped, stays = drop.alloc(8 * MIB), stay.alloc(8 * MIB)
        with acre.tag("file"):
            filed = device.alloc(8 * MIB)
        stays.fill(1)
        filed.fill(2)
        rules = [
            acre.Rule("drop", pool=drop),
            acre.Rule("file", tag="file"),
            acre.Rule("stay", object=stays),
        ]
        with device.suspend(how="stay", rules=rules, folder=tmp_path, retain=True) as away:
            assert away.info.dropped_bytes == 8 * MIB and away.info.file_bytes >= 8 * MIB
            assert stays.tobytes() == b"\1" * (8 * MIB)
        assert filed.tobytes() == b"\2" * (8 * MIB)
        device.forget_suspended()
        dropped.free()
        with pytest.raises(ValueError, match="how"):
            device.suspend(how="nothing")
        with pytest.raises(TypeError, match="Rule"):
            device.suspend(rules=["file"])
        with pytest.raises(acre.Error):
            device.suspend(how="file")
        with pytest.raises(TypeError):
            device.suspend(rules=[acre.Rule("drop", object="x")])


# ---- sharing ----

IMPORTER = """
import sys, acre
with acre.open("soft", soft_bytes=256 << 20) as device, device.import_(sys.argv[1]) as memory:
    assert memory.info.owner_pid == int(sys.argv[2]) and memory.nbytes == int(sys.argv[3])
    assert memory.tobytes() == b"\\7" * memory.nbytes
    memory.fill(8)
    device.synchronize()
    memory.refresh()
"""


@pytest.mark.parametrize("kind", ["vec", "allocation"])
def test_memory_is_shared_with_another_process(device, tmp_path, kind):
    if kind == "vec":
        memory = device.vec("uint8", shareable=True)
        memory.grow(3 * MIB)
    else:
        memory = device.alloc_direct(4 * MIB)
    memory.fill(7)
    device.synchronize()
    path = str(tmp_path / "share")
    with acre.Share(memory, path, importers=2) as share:
        done = forked.run(IMPORTER, path, str(os.getpid()), str(memory.nbytes))
        assert done.returncode == 0, done.stderr
        with pytest.raises(acre.Error) as caught:
            memory.close() if kind == "vec" else memory.free()
        assert caught.value.status == c.ACRE_E_BUSY
        assert share.is_open
    assert memory.tobytes() == b"\x08" * memory.nbytes
    fds = acre.export_fds(memory)
    assert sum(nbytes for _, nbytes in fds) >= memory.nbytes
    for fd, _ in fds:
        os.close(fd)


def test_shares_are_refused(device, tmp_path):
    with pytest.raises(TypeError, match="shared"):
        acre.Share(device.alloc(10), tmp_path / "s")
    with pytest.raises(acre.Error) as caught:
        device.vec("uint8").share(tmp_path / "s")
    assert caught.value.status == c.ACRE_E_KIND
    with pytest.raises(acre.Error) as caught:
        device.import_(tmp_path / "none", timeout=0.05)
    assert caught.value.status == c.ACRE_E_GONE
    with pytest.raises(ValueError):
        device.import_(tmp_path / "none", uids=[-1])
