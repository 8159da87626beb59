"""Virtual memory by hand: chunks, reservations, mappings. The last test finds functions that Python lacks."""

import gc
import glob
import os
import re

import numpy
import pytest

import acre
from acre import _declarations as c

MIB = 1 << 20


def test_chunks_are_mapped_anywhere(device):
    unit = device.granularity().minimum
    assert device.granularity().recommended % unit == 0
    with device.reserve(4 * unit) as addresses, device.chunk(1) as low, device.chunk(unit + 1) as high:
        assert addresses.nbytes == 4 * unit and low.nbytes == unit and high.nbytes == 2 * unit
        first, second = addresses.map(low), addresses.map(high, 2 * unit)
        assert (first.ptr, second.ptr) == (addresses.ptr, addresses.ptr + 2 * unit)
        first.fill(1)
        second.copy_from(first, unit)
        assert second.tobytes()[:unit] == b"\1" * unit
        second.free()
        second.free()
        high.close()
        with pytest.raises(ValueError, match="freed"):
            second.fill(1)
        assert first.tobytes() == b"\1" * unit
        first.free()


def test_one_chunk_has_two_addresses(device):
    unit = device.granularity().minimum
    addresses, chunk = device.reserve(2 * unit), device.chunk(unit)
    first, second = addresses.map(chunk), addresses.map(chunk, unit)
    chunk.close()  # the mappings keep the memory
    first.fill(7)
    device.synchronize()
    assert second.tobytes() == b"\7" * unit
    before = device.stats.driver_unmaps
    del first, second
    gc.collect()
    assert device.stats.driver_unmaps == before + 2
    addresses.close()


def test_reservation_in_use_is_not_closed(device):
    addresses = device.reserve(1, alignment=4 * MIB)
    assert addresses.ptr % (4 * MIB) == 0
    mapping = addresses.map(device.chunk(1))
    with pytest.raises(acre.Error) as caught:
        addresses.close()
    assert caught.value.status == c.ACRE_E_BUSY and addresses.is_open
    with pytest.raises(acre.Error) as caught:
        addresses.map(device.chunk(1))
    assert caught.value.status == c.ACRE_E_BUSY
    mapping.free()
    addresses.close()
    addresses.close()
    with pytest.raises(ValueError, match="closed"):
        addresses.map(device.chunk(1))


def test_wrong_arguments(device):
    unit = device.granularity().minimum
    addresses, chunk = device.reserve(2 * unit), device.chunk(unit)
    for offset, status in ((1, c.ACRE_E_INVALID), (2 * unit, c.ACRE_E_RANGE)):
        with pytest.raises(acre.Error) as caught:
            addresses.map(chunk, offset)
        assert caught.value.status == status
    with pytest.raises(TypeError, match="acre.Chunk"):
        addresses.map(addresses)
    with pytest.raises(ValueError, match="access"):
        addresses.map(chunk, access="write")
    with pytest.raises(ValueError, match="kind"):
        device.chunk(1, kind="managed")
    with pytest.raises(ValueError, match="nbytes"):
        device.chunk(-1)
    with pytest.raises(ValueError, match="takes no options"):
        device.chunk(1, fd=0, shareable=True)
    with pytest.raises(acre.OutOfMemory):
        device.chunk(1 << 50)
    with pytest.raises(TypeError):
        acre.Chunk(None, 1)


def test_access(device):
    addresses, chunk = device.reserve(1), device.chunk(1)
    mapping = addresses.map(chunk, access="none")
    assert mapping.get_access(device) == "none"
    mapping.set_access(device, "read")
    assert mapping.get_access(device) == "read"
    mapping.set_access(device)
    mapping.fill(1)
    with pytest.raises(acre.Error) as caught:
        mapping.set_access(None)
    assert caught.value.status == c.ACRE_E_KIND
    device.synchronize()
    mapping.free()


def test_host_memory_is_shared_with_numpy(device):
    chunk = device.chunk(1, kind="pinned")
    addresses = device.reserve(chunk.nbytes)
    mapping = addresses.map(chunk, access="none")
    for use in (numpy.asarray, lambda m: m.tobytes(), lambda m: m.copy_from(b"1", 1), lambda m: m.view().fill(1)):
        with pytest.raises(BufferError, match="set_access"):
            use(mapping)
    mapping.set_access(device)
    mapping.set_access(None, "read")
    with pytest.raises(BufferError, match="the host has the access 'read'"):
        mapping.copy_from(b"1", 1)
    assert mapping.tobytes()[:1] == b"\0"
    mapping.set_access(None)
    array = numpy.asarray(mapping)
    array[:] = 3
    with pytest.raises(BufferError, match="still uses"):
        mapping.free()
    with pytest.raises(BufferError, match="take access away"):
        mapping.set_access(None, "read")
    del array
    gc.collect()
    assert mapping.tobytes()[:2] == b"\3\3"
    mapping.free()
    assert numpy.asarray(addresses.map(chunk))[0] == 3


def test_chunk_of_another_process(device):
    with device.chunk(1, shareable=True) as chunk:
        fd = chunk.export_fd()
        addresses = device.reserve(2 * chunk.nbytes)
        mapping = addresses.map(chunk)
        mapping.fill(9)
        with device.chunk(chunk.nbytes, fd=fd) as same:
            os.close(fd)
            assert addresses.map(same, chunk.nbytes).tobytes() == b"\11" * chunk.nbytes
    with device.chunk(1) as private, pytest.raises(acre.Error) as caught:
        private.export_fd()
    assert caught.value.status == c.ACRE_E_KIND


def test_imported_host_memory_is_no_memory_of_the_host(device):
    with device.chunk(1, kind="pinned", shareable=True) as chunk:
        fd = chunk.export_fd()
        with device.chunk(chunk.nbytes, fd=fd) as same, device.reserve(chunk.nbytes) as addresses:
            os.close(fd)
            with addresses.map(same) as mapping:
                assert mapping.kind == "pinned"
                with pytest.raises(BufferError, match="the host"):
                    mapping.tobytes()


def test_cycles_free_everything(run_python):
    out = run_python(
        """
import acre, gc
class Both: pass
with acre.open("soft") as device:
    for _ in range(3):
        both = Both()
        both.addresses = device.reserve(1)
        both.mapping = both.addresses.map(device.chunk(1))
        both.self = both
    del both
    gc.collect()
print("closed")
""",
        ACRE_LOG="stderr",
    )
    assert out == "closed\n"


def test_free_waits_for_other_devices(run_python):
    run_python(
        """
import acre
with acre.open("soft:0") as owner, acre.open("soft:1") as user, user.stream(non_blocking=True) as stream:
    to = user.alloc_direct(2 << 20)
    addresses = owner.reserve(2 << 20)
    mapping = addresses.map(owner.chunk(2 << 20))
    mapping.set_access(user)
    user.copy(to, mapping, stream=stream)
    assert not stream.done
    mapping.free()
    stream.synchronize()
""",
        ACRE_SOFT_DEVICES="2",
        ACRE_SOFT_LAG="1000",
    )


def test_lost_device_frees_mappings(run_python):
    run_python(
        """
import acre
with acre.open("soft") as device:
    addresses = device.reserve(1)
    mapping = addresses.map(device.chunk(1))
    try:
        device.synchronize()
    except acre.Error as error:
        assert error.name == "ACRE_E_DEVICE_LOST"
    else:
        raise SystemExit("not lost")
    mapping.free()
    addresses.close()
""",
        ACRE_FAULT="cuCtxSynchronize:1:sticky:719",
    )


# Calls that Python has in another form.
OTHER_FORMS = {
    "acre_alloc": "acre_pool_alloc of the default pool",
    "acre_copy_as": "acre_copy, which finds the direction",
    "acre_copy_sync": "acre_copy and acre_stream_sync",
    "acre_fill_sync": "acre_fill and acre_stream_sync",
    "acre_vm_unmap": "acre_vm_unmap_sync",
    "acre_heap_walk": "acre_heap_inspect",
    "acre_plan_want": "acre_plan_want_many",
    "acre_plan_want_for": "acre_plan_want_many",
    "acre_pool_get_info": "attributes of acre.Pool",
}


def test_every_function_of_the_library_has_its_place():
    folder = os.path.dirname(acre.__file__)
    text = ""
    for path in glob.glob(os.path.join(folder, "**", "*.py"), recursive=True):
        if not path.endswith("_declarations.py"):
            with open(path) as file:
                text += file.read()
    used = set(re.findall(r"\bacre_[a-z0-9_]+", text))
    # Kernels on the soft device are C.
    wanted = {name for name in c.FUNCTIONS if not name.startswith("acre_soft_")}
    assert wanted - used == set(OTHER_FORMS)
