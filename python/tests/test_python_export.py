"""What other libraries see: the buffer protocol, NumPy, DLPack, and __cuda_array_interface__.

Device memory needs a GPU, or the stand-in for NVIDIA's driver, which makes the soft device one for acre.
"""

import ctypes
import gc
import os
import sys
import threading

import numpy
import pytest

import acre

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from dlpack_consumer import Taken  # noqa: E402

MIB = 1 << 20
TYPES = ["int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64", "complex128", "bool"]


# ---- host memory ----


def test_memoryview_of_host_memory(device):
    for kind in ("pinned", "mapped", "managed"):
        block = device.alloc(100, kind=kind)
        view = block.buffer
        view[:3] = b"abc"
        assert block.tobytes()[:3] == b"abc" and view.nbytes == 100 and not view.readonly
        with pytest.raises(BufferError, match="still uses"):
            block.free()
        with pytest.raises(BufferError, match="still uses"):
            block.resize(200)
        part = view[10:20]
        del view
        with pytest.raises(BufferError):
            block.free()  # a part of the view keeps all of it
        part.release()
        del part
        block.free()


def test_view_outlives_its_block(device):
    view = device.alloc(1000, kind="pinned").view("int32", (10, 5)).buffer
    assert view.format == "i" and view.shape == (10, 5)
    view[9, 4] = 77
    others = [device.alloc(1000, kind="pinned") for _ in range(20)]
    for other in others:
        other.fill(1)
    device.synchronize()
    assert view[9, 4] == 77
    pool = device.default_pool("pinned")
    assert len(pool.blocks()) == 21
    del view
    assert len(pool.blocks()) == 20


def test_device_memory_has_no_buffer(device):
    with pytest.raises(BufferError, match="host cannot access"):
        device.alloc(10).buffer
    with pytest.raises(BufferError):
        numpy.asarray(device.alloc(10))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes have a buffer since Python 3.12")
def test_buffer_protocol(device):
    block = device.alloc(100, kind="pinned")
    assert memoryview(block).nbytes == 100


@pytest.mark.parametrize("name", TYPES)
def test_numpy_shares_memory(device, name):
    array = device.empty((3, 4), name, kind="pinned")
    shared = numpy.asarray(array)
    assert shared.dtype == numpy.dtype(name) and shared.shape == (3, 4)
    shared[:] = numpy.arange(12).reshape(3, 4)
    device.synchronize()
    assert (array.get() == shared).all() and array.get() is not shared
    assert shared.__array_interface__["data"][0] == array.ptr
    assert array.view(shared.dtype, 12).get().tolist() == shared.reshape(12).tolist()
    assert not numpy.shares_memory(numpy.array(array, copy=True), shared)
    assert numpy.asarray(array, dtype="complex128").dtype == numpy.complex128


def test_numpy_takes_dlpack(device):
    block = device.alloc(48, kind="pinned").view("float32", (3, 4))
    block.set(numpy.arange(12, dtype="float32"))
    taken = numpy.from_dlpack(block)
    assert taken.shape == (3, 4) and taken[2, 3] == 11
    owner = block.owner
    del block
    with pytest.raises(BufferError):
        owner.free()
    del taken
    owner.free()


def test_dlpack_fields_of_host_memory(device):
    array = device.empty((2, 3, 5), "float64", kind="pinned")
    assert array.__dlpack_device__() == (1, 0)
    taken = Taken(array.__dlpack__())
    tensor = taken.tensor
    assert not taken.is_versioned and tensor.data == array.ptr and tensor.byte_offset == 0
    assert (tensor.device_type, tensor.device_id) == (1, 0)
    assert (tensor.code, tensor.bits, tensor.lanes) == (2, 64, 1)
    assert taken.shape == (2, 3, 5) and taken.strides == (15, 5, 1)
    taken.delete()
    taken = Taken(array.__dlpack__(max_version=(1, 1)))
    assert taken.is_versioned and (taken.managed.major, taken.managed.flags) == (1, 0)
    assert taken.shape == (2, 3, 5)
    taken.delete()
    with pytest.raises(BufferError, match="without a stream"):
        array.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="copy"):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="device"):
        array.__dlpack__(dl_device=(7, 0))


def test_types_of_elements():
    from acre._values import dtype

    known = [("int8", 0, 8), ("uint32", 1, 32), ("bfloat16", 4, 16), ("complex64", 5, 64), ("bool", 6, 8)]
    for name, code, bits in known:
        assert (dtype(name).code, dtype(name).itemsize * 8) == (code, bits)
    assert dtype(numpy.float32) == dtype("<f4") == dtype("float32") == dtype(numpy.dtype("f4"))
    for wrong in ("float31", None, 3, object, "S3"):
        with pytest.raises(TypeError, match="type of elements"):
            dtype(wrong)


def test_a_capsule_that_nobody_takes_frees_its_memory(device):
    pool = device.default_pool("pinned")
    capsule = pool.alloc(100).__dlpack__()
    assert len(pool.blocks()) == 1
    del capsule
    assert pool.blocks() == []


def test_a_tensor_keeps_memory_alive(device):
    pool = device.default_pool("pinned")
    taken = Taken(pool.alloc(100).__dlpack__())
    gc.collect()
    assert [block.ptr for block in pool.blocks()] == [taken.tensor.data]
    thread = threading.Thread(target=taken.delete)  # a consumer may call it anywhere
    thread.start()
    thread.join()
    assert pool.blocks() == []


def test_deleters_in_many_threads(device):
    pool = device.default_pool("pinned")
    taken = [Taken(pool.alloc(1000).__dlpack__(max_version=(1, 0) if i % 2 else None)) for i in range(400)]

    def work(mine):
        for one in mine:
            one.delete()

    threads = [threading.Thread(target=work, args=(taken[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.blocks() == []


def test_an_exported_vec_does_not_move(device):
    vec = device.vec("uint8", kind="pinned", address_bytes=8 * MIB)
    vec.append(b"x" * 1000)
    address = vec.ptr
    view = vec.buffer
    vec.grow(MIB)  # within its addresses
    assert vec.ptr == address
    for change in (lambda: vec.reserve(1 << 33), lambda: vec.grow(1 << 33), lambda: vec.resize(1 << 33)):
        with pytest.raises(BufferError, match="cannot grow"):
            change()
    with pytest.raises(BufferError, match="cannot grow"):
        vec.append(bytes(vec.capacity))
    for change in (lambda: vec.shrink(1), vec.clear, lambda: vec.resize(1)):
        with pytest.raises(BufferError, match="shrink"):
            change()
    with pytest.raises(BufferError):
        vec.close()
    assert bytes(view[:1000]) == b"x" * 1000 and vec.ptr == address
    del view
    vec.resize(10)
    vec.close()


def test_an_exported_plan_is_not_released(device):
    plan = device.plan(host_bytes=MIB)
    view = plan.want(1000, "host").buffer
    for change in (plan.release, plan.close):
        with pytest.raises(BufferError):
            change()
    del view
    plan.release()
    plan.close()


def test_views_check_their_size(device):
    block = device.alloc(100)
    assert block.view("float32").shape == (25,) and block.view("int16", (3, 3), offset=4).ptr == block.ptr + 4
    assert block.view("int16", ()).nbytes == 2
    for shape in ((26,), (-1,), 26):
        with pytest.raises(ValueError):
            block.view("float32", shape)
    for shape in ("ab", (1.5,), object()):
        with pytest.raises(TypeError):
            block.view("float32", shape)
    with pytest.raises(ValueError, match="offset"):
        block.view("uint8", offset=101)


def test_soft_device_memory_is_not_exported(device):
    if device.driver != "soft":
        pytest.skip("not a soft device")
    for memory in (device.alloc(10), device.zeros(3), device.vec(), device.range(MIB)):
        for use in (memory.__dlpack__, memory.__dlpack_device__, lambda: memory.__cuda_array_interface__):
            with pytest.raises(BufferError, match="soft device"):
                use()
    assert not hasattr(device.alloc(10, kind="pinned"), "__cuda_array_interface__")


# ---- device memory, over the stand-in ----

FIELDS = """
import sys; sys.path.insert(0, {tests!r})
import acre
from dlpack_consumer import Taken
device = acre.open()
assert device.driver == "cuda"
own = device.stream(non_blocking=True)
array = device.empty((4, 8), "bfloat16", own)
assert array.__dlpack_device__() == (2, 0)
other = device.stream()
for stream in (None, 1, 2, -1, own.ptr, other.ptr):
    for version in (None, (1, 0)):
        taken = Taken(array.__dlpack__(stream=stream, max_version=version))
        tensor = taken.tensor
        assert (tensor.data, tensor.device_type, tensor.device_id) == (array.ptr, 2, 0)
        assert (tensor.code, tensor.bits, taken.shape, taken.strides) == (4, 16, (4, 8), (8, 1))
        try:
            array.owner.free()
        except BufferError:
            pass
        else:
            raise AssertionError("freed under a tensor")
        taken.delete()
for wrong, kind in ((0, ValueError), (-2, ValueError), ("1", TypeError), (1.0, TypeError), (True, TypeError)):
    try:
        array.__dlpack__(stream=wrong)
    except kind as error:
        assert "stream" in str(error)
    else:
        raise AssertionError(wrong)
for kind, devices in (("managed", [(2, 0), (13, 0), (1, 0)]), ("pinned", [(1, 0), (3, 0), (2, 0)])):
    block = device.alloc(100, kind=kind)
    assert block.__dlpack_device__() == devices[0]
    for wanted in devices:
        tensor = Taken(block.__dlpack__(dl_device=wanted)).tensor
        assert (tensor.device_type, tensor.device_id) == wanted
array.owner.free()
print("fields are right")
"""


def test_dlpack_fields_of_device_memory(run_python, standin):
    program = FIELDS.format(tests=os.path.dirname(os.path.abspath(__file__)))
    assert "fields are right" in run_python(program, cuda=True)


INTERFACE = """
import acre
device = acre.open()
stream = device.stream()
vec = device.vec("float32", stream=stream, address_bytes=8 << 20)
vec.append(bytes(400))
found = vec.__cuda_array_interface__
wanted = dict(shape=(100,), typestr="<f4", data=(vec.ptr, False), version=3, strides=None, stream=stream.ptr)
assert found == wanted, found
assert device.alloc(10).__cuda_array_interface__["stream"] == 1
vec.grow(1000)
try:
    vec.grow(1 << 36)
except BufferError as error:
    print("does not move:", error)
assert not hasattr(device.alloc(10, kind="pinned"), "__cuda_array_interface__")
try:
    device.empty(3, "bfloat16").__cuda_array_interface__
except BufferError as error:
    print("no type:", error)

class Foreign:
    def __init__(self, block, strides=None, read_only=False):
        self.block = block
        interface = block.__cuda_array_interface__
        self.__cuda_array_interface__ = {**interface, "strides": strides, "data": (block.ptr, read_only)}

target, source = device.alloc(64), device.zeros(16, "float32")
target.copy_from(Foreign(source))
assert target.tobytes() == bytes(64)
for wrong in (Foreign(target, strides=(8,)), Foreign(target, read_only=True)):
    try:
        device.copy(wrong, source)
    except BufferError:
        continue
    raise AssertionError
"""


def test_cuda_array_interface(run_python, standin):
    said = run_python(INTERFACE, cuda=True)
    assert "does not move" in said and "no type" in said


# Work of the soft device lags by some operations, so that only the order of streams makes results right.
ORDER = """
import sys; sys.path.insert(0, {tests!r})
import acre
from dlpack_consumer import Taken
device = acre.open()
own, other = device.stream(non_blocking=True), device.stream(non_blocking=True)
result, blocks = bytearray(1 << 20), []
for turn in range(1, 20):
    block = device.alloc(1 << 20, own)
    block.fill(turn)
    taken = Taken(block.__dlpack__(stream=other.ptr if {ordered} else -1))
    target = device.alloc(1 << 20, other)
    device.copy(target, block, stream=other)
    device.copy(result, target, stream=other)
    if result != bytes([turn]) * (1 << 20):
        print("wrong contents")
        break
    taken.delete()
else:
    print("right contents")
"""


def test_the_consumers_stream_waits(run_python, standin):
    tests = os.path.dirname(os.path.abspath(__file__))
    lag = {"ACRE_SOFT_LAG": "100"}
    assert "right contents" in run_python(ORDER.format(tests=tests, ordered=True), cuda=True, **lag)
    # Without the wait the copy overtakes the fill: the test above can fail.
    assert "wrong contents" in run_python(ORDER.format(tests=tests, ordered=False), cuda=True, **lag)


# A consumer's work is in flight when its tensor ends. The soft device lags, so that it stays in flight: the program
# must not get the memory again unless that work is done. For stream 2 the block is small, because its memory may be
# reused behind a wait in stream order; for others it takes most of the device, so that the next one needs its memory.
REUSE = """
import ctypes, sys; sys.path.insert(0, {tests!r})
import acre
from dlpack_consumer import Taken
device = acre.open()
own, other = device.stream(non_blocking=True), device.stream(non_blocking=True)
consumer = {consumer}
target = device.alloc(1 << 20, kind="pinned")
target.fill(1)
device.synchronize()
pool, most = device.pool(), 1 << 20 if consumer == 2 else device.info.free_bytes // 4 * 3
block = pool.alloc(most, own)
device.fill(block, 7, 1 << 20, own)
event = own.record()
own.synchronize()
taken = Taken(block.__dlpack__(stream=consumer))
device.copy(target, block, 1 << 20, consumer)
assert ctypes.string_at(target.ptr, 1) == bytes([1]), "the device does not lag"
address = block.ptr
{end}
taken.delete()
{after}
block = pool.alloc(most, own)
is_elsewhere = most == 1 << 20 and block.ptr != address
assert is_elsewhere or ctypes.string_at(target.ptr, 1) == bytes([7]), "reused too early"
print("not reused too early")
"""


@pytest.mark.parametrize("consumer", ["2", "other.ptr"])
@pytest.mark.parametrize(
    "end, after",
    [
        ("del block", ""),
        ("", "block.free()"),
        ("", "block.free_after(event)"),
        ("", "pool.free_many([block])"),
    ],
)
def test_memory_is_not_reused_under_a_consumer(run_python, standin, consumer, end, after):
    tests = os.path.dirname(os.path.abspath(__file__))
    program = REUSE.format(tests=tests, consumer=consumer, end=end, after=after)
    assert "not reused too early" in run_python(program, cuda=True, ACRE_SOFT_LAG="100")
