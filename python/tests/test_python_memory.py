"""Memory of every kind: allocation, copies, fills, registration, and what queries say."""

import gc

import numpy
import pytest

import acre
from acre import _declarations as c

MIB = 1 << 20
KINDS = ["device", "pinned", "mapped", "managed"]


@pytest.mark.parametrize("kind", KINDS)
def test_single_allocations_of_every_kind(device, kind):
    with device.alloc_direct(5000, kind) as memory:
        assert memory.ptr % 256 == 0 and memory.nbytes == len(memory) == 5000
        memory.fill(9)
        assert memory.tobytes() == b"\x09" * 5000
        memory.set(bytes(range(250)) * 20)
        assert memory.tobytes() == bytes(range(250)) * 20
        found = device.query(memory)
        assert (found.kind, found.base, found.bytes) == (kind, memory.ptr, 5000)
        assert found.is_of_acre and not found.is_in_pool
        assert device.query(memory.ptr + 100).base == memory.ptr
        assert memory.device_ptr
    assert memory.is_freed and device.stats.mem_blocks == 0
    memory.free()
    with pytest.raises(ValueError, match="freed"):
        memory.ptr


def test_unreferenced_memory_is_freed(device):
    memory = device.alloc_direct(MIB)
    assert device.stats.mem_bytes == MIB
    del memory
    assert device.stats.mem_bytes == 0


def test_zero_bytes_have_no_address(device):
    for memory in (device.alloc(0), device.alloc_direct(0, "pinned")):
        assert memory.ptr == 0 and memory.tobytes() == b""
        memory.free()


def test_resize_keeps_contents(device):
    memory = device.alloc_direct(3 * MIB)
    memory.fill(4)
    memory.resize(8 * MIB)
    assert memory.nbytes == 8 * MIB and memory.tobytes()[: 3 * MIB] == b"\4" * (3 * MIB)
    with device.alloc_direct(100, "pinned") as pinned, pytest.raises(acre.Error) as caught:
        pinned.resize(200)
    assert caught.value.status == c.ACRE_E_KIND
    memory.free()


def test_flags_of_another_kind_are_refused(device):
    device.alloc_direct(100, "pinned", portable=True, write_combined=True).free()
    device.alloc_direct(100, "managed", attach_host=True).free()
    with pytest.raises(acre.Error) as caught:
        device.alloc_direct(100, "device", write_combined=True)
    assert caught.value.status == c.ACRE_E_INVALID


def test_managed_memory_is_advised_and_moved(device):
    with device.alloc_direct(MIB, "managed") as memory:
        memory.fill(1)
        memory.prefetch("host")
        memory.prefetch("device")
        for advice in ("read_mostly", "not_read_mostly", "prefer", "not_prefer", "accessed_by", "not_accessed_by"):
            memory.advise(advice, "host")
        memory.attach("host")
        memory.attach("global")
        memory.attach("single", device.stream())
        with pytest.raises(ValueError, match="advice"):
            memory.advise("nothing")
        with pytest.raises(ValueError, match="place"):
            memory.prefetch("moon")


def test_access_for_a_second_device():
    first = acre.open("soft:0", soft_bytes=64 * MIB, soft_devices=2)
    second = acre.open("soft:1", soft_bytes=64 * MIB, soft_devices=2)
    with first, second:
        memory = first.alloc_direct(4 * MIB)
        memory.set_access(second)
        memory.set_access(second, "none")
        vec = first.vec("uint8")
        vec.set_access(second, "read")
        vec.close()
        memory.free()


def test_copies_between_all_kinds_and_buffers(device):
    memories = [device.alloc(300, kind=kind) for kind in KINDS]
    memories[0].copy_from(bytes(range(150)) * 2)
    for before, after in zip(memories, memories[1:]):
        after.copy_from(before)
        device.synchronize()
    target = bytearray(300)
    memories[-1].copy_to(target)
    assert target == bytes(range(150)) * 2
    part = memoryview(target)[100:110]
    memories[0].copy_to(part, 10)
    assert target[100:110] == bytes(range(10))
    device.copy(memories[0].ptr + 290, b"0123456789", 10)
    assert memories[0].tobytes()[-10:] == b"0123456789"


def test_copies_check_sizes_and_types(device):
    block = device.alloc(100)
    with pytest.raises(ValueError, match="nbytes"):
        block.copy_from(b"123")
    with pytest.raises(ValueError, match="more than"):
        block.copy_from(b"123", 4)
    with pytest.raises(TypeError, match="nbytes"):
        device.copy(block.ptr, block.ptr)
    with pytest.raises(BufferError):
        block.copy_to(bytes(100))  # read-only
    for wrong in (None, 1.5, "text", object()):
        with pytest.raises(TypeError, match="source"):
            block.copy_from(wrong)
    with pytest.raises(ValueError):
        block.copy_from(b"12345", -1)
    with pytest.raises(acre.Error) as caught:
        device.copy(block.ptr, block.ptr + 10, 50)
    assert caught.value.status == c.ACRE_E_OVERLAP
    with pytest.raises(acre.Error) as caught:
        device.copy(block.ptr, b"\0" * 100000, 100000)
    assert caught.value.status == c.ACRE_E_RANGE
    with pytest.raises(acre.Error) as caught:
        device.copy(0, b"123", 3)
    assert caught.value.status == c.ACRE_E_NULL


def test_fills_check_values(device):
    block = device.alloc(100)
    for wrong in (-1, 256):
        with pytest.raises(ValueError, match="value"):
            block.fill(wrong)
    with pytest.raises(TypeError, match="value"):
        block.fill("a")
    with pytest.raises(TypeError, match="nbytes"):
        device.fill(block.ptr, 0)
    device.fill(block, 5, 10)
    device.fill(block.ptr + 10, 6, 90)
    assert block.tobytes() == b"\5" * 10 + b"\6" * 90


def test_copy_of_rows(device):
    block = device.zeros((4, 8), "uint8")
    device.copy_2d(block, 8, b"abcdefgh", 2, 2, 4)
    assert block.tobytes() == b"".join(row + bytes(6) for row in (b"ab", b"cd", b"ef", b"gh"))
    with pytest.raises(ValueError, match="rows"):
        device.copy_2d(block, 8, b"abcdefgh", 2, 2, 5)
    with pytest.raises(TypeError, match="pitch"):
        device.copy_2d(block, 8, b"ab", None, 2, 1)


def test_registered_buffers(device):
    buffer = bytearray(b"x" * 8192)
    with device.register(buffer) as registration:
        assert device.stats.mem_registered == 1
        with pytest.raises(BufferError):
            buffer.append(1)  # the registration holds the buffer
        with pytest.raises(acre.Error) as caught:
            device.register(buffer)
        assert caught.value.status == c.ACRE_E_REGISTERED
    registration.unregister()
    assert device.stats.mem_registered == 0
    buffer.append(1)
    kept = device.register(buffer, portable=True)
    del kept
    gc.collect()
    assert device.stats.mem_registered == 0
    with pytest.raises((BufferError, TypeError)):
        device.register(b"read-only")


def test_query_of_any_address(device):
    assert device.query(12345).kind == "pageable"
    block = device.alloc(1000)
    found = device.query(block)
    assert found.is_in_pool and found.usable_bytes >= 1000
    with pytest.raises(TypeError):
        device.query("a")


@pytest.mark.parametrize(
    "wrong, kind", [("1", TypeError), (1.0, TypeError), (None, TypeError), (-1, ValueError), (2**64, ValueError)]
)
def test_sizes_are_checked(device, wrong, kind):
    for call in (device.alloc, device.alloc_direct, device.range, device.default_pool().reserve):
        with pytest.raises(kind):
            call(wrong)


def test_kinds_are_checked(device):
    for call in (device.pool, device.default_pool):
        with pytest.raises(ValueError, match="kind"):
            call("nothing")
        with pytest.raises(TypeError, match="kind"):
            call(1)
    with pytest.raises(acre.Error):
        device.pool("pageable")
    with pytest.raises(TypeError, match="acre.Device"):
        acre.Pool("soft")


def test_a_size_beyond_any_memory(device):
    for kind in ("device", "pinned"):
        with pytest.raises(acre.OutOfMemory) as caught:
            device.alloc_direct(2**62, kind)
        assert isinstance(caught.value, MemoryError) and caught.value.detail


def test_subscripts_say_what_to_use(device):
    for kind, advice in (("pinned", r"numpy\.asarray\(memory\)\[\.\.\.\]"), ("device", r"memory\.get\(\)\[\.\.\.\]")):
        array = device.zeros((3, 4), kind=kind)
        for memory in (array, array.owner):
            with pytest.raises(TypeError, match=advice):
                memory[0]
            with pytest.raises(TypeError, match="numpy.asarray|copy_from"):
                memory[0] = 1
        with pytest.raises(TypeError):
            list(array)


def test_arrays_of_asarray_are_writable(device):
    array = device.zeros((3, 4), kind="pinned")
    numpy.asarray(array)[2, 3] = 5
    assert array.get()[2, 3] == 5


def test_a_view_past_the_end_of_a_vec_has_no_address(device):
    vec = device.vec("uint8")
    vec.append(bytes(1000))
    view, first = vec.view("int32"), vec.view("uint8", 10)
    vec.append(bytes(1000))
    assert view.shape == (250,) and view.ptr == vec.ptr and len(vec) == 2000
    vec.resize(100)
    assert view.shape == (250,)
    for use in (lambda: view.ptr, view.tobytes, lambda: view.fill(1)):
        with pytest.raises(ValueError, match="1000 bytes.*100"):
            use()
    assert first.tobytes() == bytes(10)
    vec.close()
    with pytest.raises(ValueError, match="closed"):
        first.tobytes()
    assert "closed" in repr(vec) and "10 bytes" in repr(first)
