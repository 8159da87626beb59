"""Devices, streams, events, errors, and the loading of the library."""

import os
import pickle
import subprocess
import sys

import pytest

import acre
from acre import _declarations as c
from acre import _library

MIB = 1 << 20


def test_every_declared_function_is_in_the_library():
    missing = [name for name in c.FUNCTIONS if not hasattr(_library.lib(), name)]
    assert missing == []


def test_info_has_names_and_capabilities(device):
    info = device.info
    assert info.driver == device.driver and info.ordinal == device.ordinal
    assert info.total_bytes >= info.free_bytes > 0
    assert info.has_vmm is True
    assert "total_bytes" in str(info) and dict(info)["name"] == info.name
    with pytest.raises(AttributeError):
        info.total_bytes = 1
    with pytest.raises(AttributeError):
        info.no_such_value


def test_statistics_say_what_they_mean(device):
    stats = device.stats
    assert stats.chunks == 0 and "physical memory" in stats.meaning("chunks")
    assert set(stats) == set(c.MEANINGS["acre_device_stats"])


def test_open_twice_is_one_device(device):
    other = acre.open(device.name)
    assert other.handle == device.handle
    block = other.alloc(1000)
    other.close()
    assert block.ptr  # `device` still has it open
    block.free()
    assert device.default_pool().blocks() == []


def test_close_ends_all_objects():
    device = acre.open("soft", soft_bytes=64 * MIB)
    block, vec, pool, stream = device.alloc(10), device.vec(), device.pool(), device.stream()
    device.close()
    device.close()
    assert not device.is_open and "closed" in repr(device)
    block.free()
    vec.close()
    pool.close()
    stream.destroy()
    for use in (lambda: device.info, lambda: vec.size, lambda: pool.stats, lambda: device.alloc(1)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_objects_of_an_earlier_life_free_nothing_of_the_next():
    device = acre.open("soft", soft_bytes=64 * MIB)
    old = device.alloc(1000)
    address = old.ptr
    device.close()
    device = acre.open("soft", soft_bytes=64 * MIB)
    blocks = [device.alloc(1000) for _ in range(64)]
    del old  # if one of the new blocks has its address, it must stay live
    assert len(device.default_pool().blocks()) == 64, address
    del blocks
    device.close()


def test_a_close_by_another_library_ends_the_objects(device):
    name, handle = device.name, device.handle
    block = device.alloc(1000)
    _library.check(_library.lib().acre_close(handle))
    again = acre.open(name, soft_bytes=256 * MIB)
    assert not device.is_open
    blocks = [again.alloc(1000) for _ in range(64)]
    block.free()
    device.close()
    assert len(again.default_pool().blocks()) == 64
    del blocks
    _library.check(_library.lib().acre_close(again.handle))
    again.close()  # nothing is left to close


@pytest.mark.parametrize("name", ["soft:9", "nothing", ""])
def test_open_error_carries_status_and_detail(name):
    with pytest.raises(acre.Error) as caught:
        acre.open(name)
    error = caught.value
    assert error.status < 0 and error.name.startswith("ACRE_E_")
    assert error.detail in str(error) and error.name in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (again.status, again.name, again.detail) == (error.status, error.name, error.detail)


def test_open_refuses_wrong_types():
    with pytest.raises(TypeError):
        acre.open(3)
    with pytest.raises(ValueError):
        acre.open("soft\0")
    with pytest.raises(ValueError):
        acre.open("soft", soft_bytes=-1)
    with pytest.raises(acre.Error) as caught:
        acre.open("soft", soft=False)
    assert caught.value.status == c.ACRE_E_NO_DEVICE


def test_device_count():
    assert acre.device_count("soft") >= 1
    with pytest.raises(acre.Error):
        acre.device_count("nothing")


def test_streams_and_events_order_work(device):
    with device.stream(non_blocking=True) as first, device.stream() as second:
        assert first.id != second.id and first.__cuda_stream__() == (0, first.ptr)
        block = device.alloc(MIB, first)
        block.fill(3)
        event = first.record()
        second.wait_event(event)
        result = bytearray(MIB)
        device.copy(result, block, stream=second)
        assert result == b"\3" * MIB
        event.synchronize()
        assert event.done
        first.synchronize()
        assert first.done and second.done
        block.free()


def test_events_measure_time(device):
    with device.event(timing=True) as begin, device.event(timing=True) as end:
        begin.record()
        end.record()
        end.synchronize()
        assert begin.elapsed(end) >= 0
    with device.event() as plain, pytest.raises(acre.Error):
        plain.record()
        plain.elapsed(plain)


def test_destroyed_streams_are_refused(device):
    stream = device.stream()
    stream.destroy()
    stream.destroy()
    with pytest.raises(ValueError, match="destroyed"):
        stream.synchronize()
    with pytest.raises(ValueError, match="destroyed"):
        device.alloc(10, stream)


def test_memory_of_a_destroyed_stream_is_freed(device):
    for turn in range(3):
        stream = device.stream(non_blocking=True)
        # By handle, as the stream of another library; and by object.
        block, vec = device.alloc(1000, stream.ptr if turn == 0 else stream), device.vec(stream=stream)
        stream.destroy()
        if turn == 2:
            block.free()
            vec.close()
        del block, vec
        assert device.default_pool().blocks() == [] and device.stats.vecs == 0


class Torch:
    cuda_stream = 0


class Numba:
    class handle:
        value = None


@pytest.mark.parametrize("stream", [None, 0, Torch(), Numba()])
def test_streams_of_other_libraries_are_accepted(device, stream):
    device.alloc(100, stream).free()


@pytest.mark.parametrize("stream", ["0", 1.5, object(), True])
def test_other_objects_are_no_streams(device, stream):
    with pytest.raises(TypeError, match="stream"):
        device.alloc(100, stream)


def test_library_is_chosen_by_the_environment(run_python):
    said = run_python("import acre; acre.version()", rc=1, ACRE_LIBRARY="/nonexistent/libacre.so")
    assert "/nonexistent/libacre.so" in said and "ACRE_LIBRARY" in said
    path = _library.path()
    assert path in run_python("import acre; from acre import _library; print(_library.path())", ACRE_LIBRARY=path)


def test_a_library_of_another_kind_is_refused(run_python):
    # libc has no acre_version.
    said = run_python("import acre; acre.version()", rc=1, ACRE_LIBRARY="libc.so.6")
    assert "ImportError" in said and "acre_version" in said


def test_module_runs_the_tool():
    build = os.environ.get("ACRE_BUILD", "")
    if not os.path.exists(os.path.join(build, "acre")):
        pytest.skip("the tool is not built")
    command = [sys.executable, "-m", "acre", "--version"]
    # The tool does not need the sanitizer that the tests preload.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0 and acre.version() in done.stdout
    done = subprocess.run([*command[:-1], "nothing"], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 64


def test_trim_and_synchronize(device):
    device.alloc(MIB).free()
    device.synchronize()
    device.trim()
    assert device.stats.trims == 1 and device.stats.chunk_cached_bytes == 0


def test_settings_list_the_environment():
    found = {setting.name: setting for setting in acre.settings()}
    assert found["ACRE_DEVICE"].meaning and found["ACRE_SOFT_BYTES"].kind == "bytes"


def test_log_reaches_a_function(device):
    lines = []
    acre.set_log(lambda level, area, line: lines.append((level, area, line)), "debug")
    try:
        pool = device.pool()
        block = pool.alloc(1000)
        assert pool.close().blocks == 1  # a leak is logged
        block.free()
    finally:
        acre.set_log(None)
    assert any(area == "pool" for _, area, _ in lines)


def test_streams_and_events_close(device):
    for queued in (device.stream(), device.event()):
        queued.close()
        queued.close()
        queued.destroy()
        with pytest.raises(ValueError, match="destroyed"):
            queued.handle
