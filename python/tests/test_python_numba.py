"""acre.numba against a fake of Numba, on the soft device."""

import gc
import os
import pickle
import sys
import threading
import types

import forked
import pytest

FAKES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fakes")
sys.path.insert(0, FAKES)

import fake_numba  # noqa: E402

fake_numba.install()

import acre.numba  # noqa: E402
from acre._library import check, lib  # noqa: E402


class Soft(acre.numba.Manager):
    """The plug-in on the soft device."""

    driver = "soft"


def live():
    """Live blocks of the pool, pending ones included."""
    return acre.numba.stats(driver="soft")["live_blocks"]


@pytest.fixture(name="context", params=["wait", "stream"])
def fixture_context(request, monkeypatch):
    """A context in both orders of frees; afterwards no block is left."""
    monkeypatch.setenv("ACRE_NUMBA_ORDER", request.param)
    fake_numba.set_memory_manager(Soft)
    context = fake_numba.Context()
    context.memory_manager.get_memory_info()  # opens the device
    before = live()
    yield context
    gc.collect()
    context.memory_manager.flush()
    assert live() == before
    assert not context.memory_manager._live


def test_numba_alloc_returns_memory_of_the_pool(context):
    before = live()
    memory = context.memalloc(1000)
    assert memory.size == 1000
    assert memory.device_pointer_value % 512 == 0
    assert live() == before + 1
    empty = context.memalloc(0)
    assert empty.device_pointer_value


def test_numba_freed_memory_is_pending_until_the_device_is_done(monkeypatch):
    monkeypatch.setenv("ACRE_NUMBA_ORDER", "wait")
    fake_numba.set_memory_manager(Soft)
    context = fake_numba.Context()
    blocks = [context.memalloc(1 << 16) for _ in range(8)]
    freed = {block.device_pointer_value for block in blocks}
    handle = new_stream()
    device = context.memory_manager._device
    check(lib().acre_soft_set_lag(device, 1000, 0))
    for block in blocks:
        check(lib().acre_fill(device, block.device_pointer_value, 7, 1 << 16, handle))
    del block
    blocks.clear()
    again = [context.memalloc(1 << 16) for _ in range(16)]
    assert not freed & {block.device_pointer_value for block in again}, "reused while a stream writes it"
    assert lib().acre_stream_query(device, handle) != 0
    context.memory_manager.flush()
    assert lib().acre_stream_query(device, handle) == 0, "flush did not wait for the device"
    check(lib().acre_soft_set_lag(device, 0, 0))
    check(lib().acre_stream_destroy(device, handle))
    more = [context.memalloc(1 << 16) for _ in range(64)]
    assert freed & {block.device_pointer_value for block in more}, "freed memory was not reused"


def new_stream():
    """A stream of the soft device."""
    import ctypes

    device, stream = ctypes.c_void_p(), ctypes.c_void_p()
    check(lib().acre_open(b"soft", None, ctypes.byref(device)))
    check(lib().acre_stream_create(device, 0, ctypes.byref(stream)))
    lib().acre_close(device)
    return stream


def test_numba_pending_memory_is_bounded(context):
    before = live()
    for _ in range(1000):
        context.memalloc(100)
    assert live() - before <= acre.numba.PENDING_COUNT + 1


def test_numba_pending_bytes_are_bounded(context):
    before = acre.numba.stats(driver="soft")["live_bytes"]
    most = acre.numba.PENDING_PART * context.memory_manager._total
    size = int(most / 3)
    for _ in range(6):
        context.memalloc(size)
    assert acre.numba.stats(driver="soft")["live_bytes"] - before <= most + 2 * size


def test_numba_defer_cleanup_does_not_wait(context):
    manager = context.memory_manager
    before = live()
    kept = 200 if manager._waits else 0  # frees in stream order never wait
    with manager.defer_cleanup():
        assert manager.deferred == 1
        for _ in range(200):
            context.memalloc(100)
        assert live() - before == kept
    assert manager.deferred == 0
    context.memalloc(100)
    assert live() == before


def test_numba_out_of_memory_is_numbas_error_with_report(context):
    with pytest.raises(fake_numba.CudaAPIError) as caught:
        context.memalloc(1 << 50)
    assert isinstance(caught.value, (acre.OutOfMemory, MemoryError))
    assert caught.value.code == 2
    assert caught.value.name == "ACRE_E_DEVICE_MEMORY"
    assert "Memory of soft:0" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_numba_pending_memory_serves_before_it_fails(context):
    pool = context.memory_manager._pool
    used = acre.numba.stats(driver="soft")["used_bytes"]
    check(lib().acre_pool_set_limits(pool, 0, used + (8 << 20)))
    try:
        with context.memory_manager.defer_cleanup():
            for _ in range(5):
                cycle = [context.memalloc(6 << 20)]
                cycle.append(cycle)
                del cycle
    finally:
        check(lib().acre_pool_set_limits(pool, 0, 0))


def test_numba_reset_frees_live_arrays_once(context):
    before = live()
    blocks = [context.memalloc(100) for _ in range(5)]
    context.memory_manager.reset()
    assert context.memory_manager.resets == 1
    assert live() == before
    again = context.memalloc(100)
    del blocks  # their memory is free already, and may be that of `again`
    assert live() == before + 1
    assert again


def test_numba_memory_info_counts_idle_memory_as_free(context):
    info = context.memory_manager.get_memory_info()
    assert 0 < info.free <= info.total
    block = context.memalloc(info.total // 16)
    after = context.memory_manager.get_memory_info()
    assert info.free - after.free >= info.total // 16
    del block
    context.memory_manager.flush()
    assert context.memory_manager.get_memory_info().free >= after.free + info.total // 16


def test_numba_ipc_handle_is_refused(context):
    with pytest.raises(NotImplementedError, match="IPC"):
        context.memory_manager.get_ipc_handle(context.memalloc(100))


def test_numba_threads_allocate_and_free(context):
    def work():
        for i in range(300):
            keep = [context.memalloc(100 + i) for _ in range(3)]
            del keep

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_numba_pointer_has_the_form_of_the_binding(monkeypatch):
    driver = sys.modules["numba.cuda.cudadrv.driver"]
    monkeypatch.setattr(driver, "USE_NV_BINDING", True)
    monkeypatch.setattr(driver, "binding", types.SimpleNamespace(CUdeviceptr=fake_numba.CUdeviceptr), raising=False)
    assert isinstance(acre.numba._pointer(512), fake_numba.CUdeviceptr)
    monkeypatch.delattr(driver, "USE_NV_BINDING")  # newer versions have only that binding
    assert isinstance(acre.numba._pointer(512), fake_numba.CUdeviceptr)
    monkeypatch.setattr(driver, "USE_NV_BINDING", False, raising=False)
    assert type(acre.numba._pointer(512)).__name__ == "c_ulong"


def test_numba_wrong_order_is_refused(monkeypatch):
    monkeypatch.setenv("ACRE_NUMBA_ORDER", "later")
    with pytest.raises(ValueError, match="later"):
        fake_numba.set_memory_manager(Soft)


CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import fake_numba; fake_numba.install()
context = None
import acre.numba
acre.numba.Manager.driver = "soft"
context = fake_numba.Context()
kept = context.memalloc(1000)
for _ in range(10):
    context.memalloc(1000)
print(type(context.memory_manager).__module__)
"""


def test_numba_environment_chooses_the_plug_in_and_exit_is_clean():
    done = forked.run(CHILD, FAKES, environment={"NUMBA_CUDA_MEMORY_MANAGER": "acre.numba"})
    assert (done.returncode, done.stdout) == (0, "acre.numba\n"), done.stderr
    assert "Traceback" not in done.stderr
