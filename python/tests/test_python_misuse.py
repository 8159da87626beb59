"""What programs do wrong, or at the wrong time: nothing is freed twice, hidden or lost."""

import copy
import pickle
import sys
import threading

import numpy
import pytest

import acre
from acre import _declarations as c

MIB = 1 << 20


def owners(device):
    """Objects that own something of the library."""
    pool = device.pool()
    return [device, pool, pool.alloc(MIB), pool.empty((3, 4)), device.vec("float32"), device.plan(), device.stream(),
            device.event(), device.range(64 * MIB), device.alloc_direct(MIB)]


def test_owners_cannot_be_copied(device):
    for owner in owners(device):
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="it owns what it stands for"):
                make(owner)


def test_nothing_has_an_address_after_its_device_is_closed():
    device = acre.open("soft", soft_bytes=64 * MIB)
    plan = device.plan()
    with plan.step():
        step_block = plan.alloc(1000, keep=True)
    dead = [device.alloc_direct(MIB), device.pool().alloc(MIB), step_block, device.stream()]
    device.close()
    for thing in dead:
        with pytest.raises(ValueError, match="closed"):
            thing.ptr


# ---- callbacks in a program without hooks of its own ----


@pytest.mark.parametrize("function", ["lambda wanted, attempt: 1 / 0", "lambda: 0"])
def test_exceptions_of_a_callback_are_printed_and_count_as_false(run_python, function):
    said = run_python(f"""
import acre
device = acre.open("soft", soft_bytes=16 << 20)
pool = device.pool()
kept = pool.alloc(10 << 20)
pool.set_callback({function})
try:
    pool.alloc(8 << 20)
except acre.OutOfMemory:
    print("out of memory")
""")
    assert said.count("Exception ignored in a callback of acre") == 1
    assert ("ZeroDivisionError" in said or "TypeError" in said) and said.splitlines()[0] == "out of memory"


def test_leaks_at_exit_do_not_call_a_log_function_that_is_gone(run_python):
    said = run_python("""
import acre
device = acre.open("soft", soft_bytes=64 << 20)
acre.set_log(print)
block = device.alloc(1000)
print("last line of the program")
""", ACRE_DEBUG="1")
    assert "last line of the program" in said


# ---- plans ----


def test_blocks_end_with_their_step(device):
    pool = device.pool()
    plan = device.plan(device_pool=pool)

    def step():
        with plan.step():
            first = plan.alloc(MIB)
            first.fill(1)
            second = plan.alloc(MIB)
            second.fill(2)
        assert first.is_freed and second.is_freed

    for _ in range(50):
        step()
    assert plan.stats.hits == 98 and plan.stats.misses == 0
    assert pool.stats.live_blocks == 0


def test_kept_blocks_live_on(device):
    pool = device.pool()
    plan = device.plan(device_pool=pool)
    kept = []
    for number in range(4):
        with plan.step():
            kept.append(plan.alloc(1000, keep=True))
            plan.alloc(MIB).fill(number)
            kept[-1].fill(number)
    assert [block.tobytes()[0] for block in kept] == [0, 1, 2, 3]
    assert plan.stats.hits == 3 and pool.stats.live_blocks == 4
    kept[0].free()  # outside of a step
    del kept[1:]
    assert pool.stats.live_blocks == 0


def test_a_block_that_others_use_outlives_its_step(device):
    pool = device.pool("pinned")
    plan = device.plan(host_pool=pool)
    for number in range(3):
        with plan.step():
            block = plan.alloc(1000, "host")
            array = numpy.asarray(block)
            array[:] = number
        assert not block.is_freed and array[999] == number
        del array, block
    with plan.step():
        pass
    assert pool.stats.live_blocks == 0


def test_steps_of_several_threads(device):
    plan = device.plan(device_pool=device.pool())
    lock = threading.Lock()

    def work():
        for _ in range(20):
            with lock, plan.step():
                plan.alloc(1000).fill(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert plan.stats.steps == 80 and plan.stats.hits == 79


def test_closing_a_plan_frees_blocks_of_its_pool(device):
    pool = device.pool()
    plan = device.plan(device_pool=pool)
    with plan.step():
        block = plan.alloc(1000, keep=True)
    assert pool.stats.live_blocks == 1
    plan.close()
    assert pool.stats.live_blocks == 0
    with pytest.raises(ValueError, match="its plan is closed"):
        block.ptr


# ---- types of elements ----


def test_elements_of_another_type_are_refused(device):
    vec = device.vec("float32")
    for wrong in (numpy.array([1.0, 2.0]), numpy.array([1, 2], "int32"), memoryview(numpy.ones(2, "float64"))):
        with pytest.raises(TypeError, match="the vec has float32; convert it first"):
            vec.append(wrong)
    with pytest.raises(TypeError, match="other order"):
        vec.append(numpy.array([1.0], ">f4"))
    with pytest.raises(TypeError, match="other order"):
        device.vec(numpy.dtype(">f4"))
    for right in (numpy.array([1.0, 2.0], "float32"), b"\0\0\x40\x40", numpy.array([4.0], "<f4").view("uint8")):
        vec.append(right)
    assert list(vec.get()) == [1.0, 2.0, 3.0, 4.0]
    other = device.vec("float32")
    other.append(vec)
    with pytest.raises(TypeError):
        device.vec("int64").append(vec)
    raw = device.vec()
    raw.append(numpy.ones(3))
    assert raw.size == 24 and other.size == 4
    for name in ("int8", "uint16", "int64", "float16", "complex64", "bool"):
        vec = device.vec(name)
        vec.append(numpy.ones(3, name))
        assert vec.size == 3


def test_addresses_need_a_size(device):
    block = device.alloc(1000)
    for call in (block.copy_from, block.copy_to):
        with pytest.raises(TypeError, match="nbytes is required"):
            call(12345)
    with pytest.raises(TypeError, match="nbytes is required"):
        device.fill(block.ptr, 1)
    device.fill(block.ptr, 1, 1000)
    assert block.tobytes() == b"\1" * 1000


# ---- other libraries' streams ----


class Producer:
    """An array of another library, whose work goes to a stream."""

    def __init__(self, block, stream):
        self.__cuda_array_interface__ = {"shape": (block.nbytes,), "typestr": "|u1", "data": (block.ptr, False),
                                         "version": 3, "strides": None, "stream": stream.ptr}


def test_copies_wait_for_the_stream_of_an_array(run_python):
    """Without the wait the copies come before the last fill of the other stream."""
    said = run_python("""
import acre
from test_python_misuse import Producer
device = acre.open("soft", soft_bytes=256 << 20)
theirs, ours = device.stream(non_blocking=True), device.stream(non_blocking=True)
source, target, vec = device.alloc(4 << 20, theirs), device.alloc(4 << 20, ours), device.vec()
source.fill(7, theirs)
target.copy_from(Producer(source, theirs), stream=ours)
vec.append(Producer(source, theirs), stream=ours)
ours.synchronize()
print(target.tobytes()[:2], vec.get()[:2])
source.fill(8, theirs)                                   # and before they write
device.fill(Producer(source, theirs), 9, stream=ours)
ours.synchronize()
theirs.synchronize()
print(source.tobytes()[:2])
""", ACRE_SOFT_LAG="20ms", ACRE_SOFT_CHECK="1", PYTHONPATH=":".join(sys.path))
    assert said == "b'\\x07\\x07' [7 7]\nb'\\t\\t'\n"


# ---- threads ----


def test_exports_race_with_frees(run_python):
    """An export never reads memory that another thread frees meanwhile."""
    run_python("""
import sys, threading, numpy, acre
sys.setswitchinterval(1e-6)
device = acre.open("soft", soft_bytes=256 << 20)
pool = device.pool("pinned")
bad = []
for _ in range(3000):
    block = pool.alloc(4096)
    def export():
        try:
            array = numpy.asarray(block)
        except ValueError:
            return
        if block.is_freed:
            bad.append(array)
    thread = threading.Thread(target=export)
    thread.start()
    try:
        block.free()
    except BufferError:
        pass
    thread.join()
assert not bad
""")


def test_a_trace_ends_once(device, tmp_path):
    first = acre.trace(tmp_path / "first.acre")
    first.stop()
    second = acre.trace(tmp_path / "second.acre")
    first.stop()  # not the second one
    with pytest.raises(ValueError, match="has ended"):
        first.mark("late")
    second.mark("in time")
    second.stop()
    second.stop()


def test_statuses_are_those_of_the_library(device):
    plan = device.plan()
    with pytest.raises(acre.Error) as caught:
        plan.alloc(10)
    assert caught.value.status == c.ACRE_E_INVALID
