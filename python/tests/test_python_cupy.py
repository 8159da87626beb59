"""acre.cupy against a fake of CuPy, on the soft device."""

import gc
import os
import pickle
import random
import sys
import threading
import weakref

import forked
import pytest

FAKES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fakes")
sys.path.insert(0, FAKES)

import fake_cupy  # noqa: E402

fake_cupy.install()

import acre.cupy  # noqa: E402
import cupy  # noqa: E402
from acre._library import check, lib  # noqa: E402

WAYS = ["c", "checked", "python"]


def start(way, monkeypatch):
    """Makes acre the allocator in one of three ways, and returns its Pool."""
    monkeypatch.setattr(fake_cupy, "RAISES", way != "checked")
    pool = acre.cupy.use(stream_ordered="python" if way == "python" else True, driver="soft")
    assert pool.how == {"c": "c", "checked": "c, checked in Python", "python": "python"}[way]
    return pool


@pytest.fixture(name="pool", params=WAYS)
def fixture_pool(request, monkeypatch):
    """Runs a test in every way, and checks afterwards that no block and no stream is left."""
    pool = start(request.param, monkeypatch)
    before = acre.cupy.stats()
    yield pool
    gc.collect()
    pool.set_limit()
    pool.free_all_blocks()
    after = acre.cupy.stats()
    assert after["live_blocks"] == before["live_blocks"]
    assert (after["streams_with_blocks"], after["blocks_on_streams"]) == (0, 0)
    assert (after["late_frees"], after["lost_frees"]) == (before["late_frees"], before["lost_frees"])
    assert not acre.cupy._kept
    acre.cupy.stop()


@pytest.fixture(name="lag")
def fixture_lag():
    """Work that is queued begins only after 1000 further operations, or when the host waits for it."""
    check(lib().acre_soft_set_lag(fake_cupy.device(), 1000, 0))
    yield
    check(lib().acre_soft_set_lag(fake_cupy.device(), 0, 0))


def fill(block, stream):
    """Queues work on the stream that writes the block."""
    check(lib().acre_fill(fake_cupy.device(), block.ptr, 7, block.mem.size, stream.ptr))


def addresses(count):
    """The addresses of blocks of 64 KiB that are live together."""
    blocks = [cupy.cuda.alloc(1 << 16) for _ in range(count)]
    return {block.ptr for block in blocks}


def test_cupy_alloc_counts_in_stats(pool):
    before = acre.cupy.stats()["live_blocks"]
    block = cupy.cuda.alloc(1000)
    assert block.ptr % 512 == 0
    assert acre.cupy.stats()["live_blocks"] == before + 1
    assert pool.used_bytes() >= 1000
    assert pool.total_bytes() >= pool.used_bytes()
    del block
    assert acre.cupy.stats()["live_blocks"] == before


def test_cupy_zero_bytes_is_no_block(pool):
    assert pool
    assert cupy.cuda.alloc(0).ptr == 0


def test_cupy_freed_block_stays_with_its_own_stream(pool, lag):
    assert pool and not lag
    first, second = cupy.cuda.Stream(), cupy.cuda.Stream()
    with first:
        block = cupy.cuda.alloc(1 << 16)
        again = block.ptr
        fill(block, first)
    with second:
        del block  # the current stream is another one
        # Work of the first stream still uses it, so no block of this stream has the address.
        assert again not in addresses(64)


def test_cupy_freed_block_is_reused_on_its_stream_at_once(pool, lag):
    assert pool and not lag
    first = cupy.cuda.Stream()
    with first:
        blocks = [cupy.cuda.alloc(1 << 16) for _ in range(8)]
        freed = {block.ptr for block in blocks}
        for block in blocks:
            fill(block, first)
    del block
    with cupy.cuda.Stream():
        blocks.clear()  # the current stream is another one
    with first:
        assert freed & addresses(8), "no block of the stream was reused while its work is queued"


def test_cupy_default_stream_only_ignores_streams(monkeypatch, lag):
    """The opposite of the test before: it would notice if streams were ignored."""
    monkeypatch.setattr(fake_cupy, "RAISES", True)
    acre.cupy.use(stream_ordered=False, driver="soft")
    assert not lag
    first, second = cupy.cuda.Stream(), cupy.cuda.Stream()
    with first:
        block = cupy.cuda.alloc(1 << 16)
        again = block.ptr
        fill(block, first)
        del block
    with second:
        assert again in addresses(64)
    assert acre.cupy.stats()["streams_with_blocks"] == 0
    acre.cupy.stop()


def test_cupy_stream_lives_as_long_as_its_blocks(pool):
    assert pool
    stream = cupy.cuda.Stream()
    alive = weakref.ref(stream)
    with stream:
        block = cupy.cuda.alloc(5000)
    del stream
    gc.collect()
    assert alive(), "the stream of a live block was destroyed"
    assert acre.cupy.stats()["streams_with_blocks"] == 1
    del block
    assert acre.cupy.stats()["streams_with_blocks"] == 0
    with cupy.cuda.Stream():  # a new stream lets go of idle ones
        cupy.cuda.alloc(1)
    gc.collect()
    assert not alive(), "a stream without blocks was kept"


def test_cupy_many_streams_keep_few(pool):
    assert pool
    streams = []
    for _ in range(100):
        stream = cupy.cuda.Stream()
        streams.append(weakref.ref(stream))
        with stream:
            cupy.cuda.alloc(100)
        del stream
    gc.collect()
    assert sum(stream() is not None for stream in streams) <= 1


def test_cupy_external_stream_is_not_retired(pool, monkeypatch):
    assert pool
    owner = cupy.cuda.Stream()
    with cupy.cuda.ExternalStream(owner.ptr):
        cupy.cuda.alloc(100)
    del owner  # destroyed: a retire would now touch a dead handle
    retired = []
    real = acre.cupy.lib
    monkeypatch.setattr(acre.cupy, "lib", lambda: retired.append(1) or real())
    acre.cupy._drop_idle()
    assert not retired and not acre.cupy._kept


def test_cupy_per_thread_stream_is_freed_by_another_thread(pool, lag):
    assert pool and not lag
    blocks = []

    def work():
        with cupy.cuda.Stream.ptds as stream:
            blocks.extend(cupy.cuda.alloc(1 << 16) for _ in range(8))
            for block in blocks:
                fill(block, stream)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert acre.cupy.stats()["blocks_on_streams"] == 8
    freed = {block.ptr for block in blocks}
    with cupy.cuda.Stream.ptds:
        blocks.clear()
        assert acre.cupy.stats()["blocks_on_streams"] == 0
        assert not freed & addresses(16), "memory was reused while the other thread's work is queued"


def test_cupy_table_of_blocks_grows_and_shrinks(pool):
    assert pool
    shuffle = random.Random(7).shuffle
    with cupy.cuda.Stream():
        blocks = [cupy.cuda.alloc(256 + i % 3000) for i in range(3000)]
    assert acre.cupy.stats()["blocks_on_streams"] == 3000
    shuffle(blocks)
    del blocks[:1500]
    assert acre.cupy.stats()["blocks_on_streams"] == 1500
    plain = [cupy.cuda.alloc(512) for _ in range(100)]  # these are not in the table
    assert acre.cupy.stats()["blocks_on_streams"] == 1500
    del plain, blocks
    assert acre.cupy.stats()["blocks_on_streams"] == 0


def test_cupy_out_of_memory_raises_cupys_error_with_report(pool):
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError) as caught:
        cupy.cuda.alloc(1 << 50)
    assert isinstance(caught.value, (acre.OutOfMemory, MemoryError))
    assert caught.value.name == "ACRE_E_DEVICE_MEMORY"
    assert "1125899906842624 bytes requested" in caught.value.detail
    assert "Memory of soft:0" in caught.value.report
    assert "Memory of soft:0" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.status) == (str(caught.value), caught.value.status)
    del caught
    assert cupy.cuda.alloc(100).ptr, pool  # the next allocation works


def test_cupy_limit_is_kept(pool):
    used = acre.cupy.stats()["used_bytes"]
    pool.set_limit(size=used + (8 << 20))
    assert pool.get_limit() == used + (8 << 20)
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError) as caught:
        cupy.cuda.alloc(16 << 20)
    assert caught.value.name == "ACRE_E_LIMIT"
    assert caught.value.status == -27
    pool.set_limit(fraction=1)
    assert pool.get_limit() > 16 << 20
    for wrong in ({"size": -1}, {"fraction": 2}, {"size": 1, "fraction": 1}):
        with pytest.raises(ValueError):
            pool.set_limit(**wrong)
    pool.set_limit()
    assert pool.get_limit() == 0


def test_cupy_garbage_is_collected_when_memory_is_short(pool):
    gc.disable()
    try:
        cycle = []
        cycle.append(cycle)
        cycle.append(cupy.cuda.alloc(6 << 20))
        pool.set_limit(size=acre.cupy.stats()["used_bytes"] + (1 << 20))
        del cycle
        assert cupy.cuda.alloc(6 << 20).ptr
    finally:
        gc.enable()


def test_cupy_threads_get_distinct_blocks(pool):
    assert pool
    faults = []
    taken = {}  # address: thread; single operations of a dict are atomic

    def work(seed):
        pick = random.Random(seed)
        streams = [cupy.cuda.Stream.null, cupy.cuda.Stream.ptds, cupy.cuda.Stream(), cupy.cuda.Stream()]
        live = {}
        for _ in range(1500):
            with pick.choice(streams):
                if live and pick.random() < 0.5:
                    block = live.pop(pick.choice(list(live)))
                    if taken.pop(block.ptr, None) != seed:
                        faults.append(block.ptr)
                else:
                    block = cupy.cuda.alloc(pick.choice([8, 300, 5000, 70000]))
                    if taken.setdefault(block.ptr, seed) != seed or block.ptr in live:
                        faults.append(block.ptr)
                    live[block.ptr] = block
                del block
        for address in live:
            taken.pop(address, None)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_cupy_record_use_needs_a_live_block(pool):
    assert pool

    class Array:
        """An array, as record_use sees it."""

        data = cupy.cuda.alloc(4096)

    stream = cupy.cuda.Stream()
    acre.cupy.record_use(Array, stream)
    acre.cupy.record_use(Array)
    address = Array.data.ptr
    Array.data = None
    gone = type("Gone", (), {"data": type("Data", (), {"mem": type("Mem", (), {"ptr": address, "device_id": 0})})})
    with pytest.raises(acre.Error) as caught:
        acre.cupy.record_use(gone, stream)
    assert caught.value.name == "ACRE_E_POINTER"


@pytest.mark.parametrize("signature", [None, b"intptr_t (int)", b"PyObject *(void)"])
def test_cupy_without_its_c_function_uses_python(signature, monkeypatch):
    monkeypatch.setattr(fake_cupy, "SIGNATURE", signature)
    monkeypatch.setattr(fake_cupy, "RAISES", True)
    assert acre.cupy.use(driver="soft").how == "python"
    assert acre.cupy.use(stream_ordered=False, driver="soft").how == "c"
    acre.cupy.stop()


def test_cupy_use_refuses_other_values():
    with pytest.raises(ValueError):
        acre.cupy.use(stream_ordered="c", driver="soft")


def test_cupy_stop_returns_the_allocator():
    def mine(size):
        return size

    cupy.cuda.set_allocator(mine)
    acre.cupy.use(driver="soft")
    block = cupy.cuda.alloc(100)
    acre.cupy.use(stream_ordered="python", driver="soft")
    acre.cupy.stop()
    assert cupy.cuda.get_allocator() is mine
    before = acre.cupy.stats()["live_blocks"]
    del block
    assert acre.cupy.stats()["live_blocks"] == before - 1
    cupy.cuda.set_allocator(None)


CHILD = """
import os, sys
sys.path.insert(0, sys.argv[1])
import fake_cupy; fake_cupy.install()
import acre.cupy, cupy
acre.cupy.use(stream_ordered=sys.argv[2] == "python" and "python" or True, driver="soft")
kept = cupy.cuda.alloc(1000)
stream = cupy.cuda.Stream()
with stream:
    also = cupy.cuda.alloc(1000)
cycle = [also]; cycle.append(cycle)
if sys.argv[3] == "fork":
    pid = os.fork()
    if pid == 0:
        try:
            cupy.cuda.alloc(1000)
        except acre.Error as error:
            os._exit(0 if error.name == "ACRE_E_FORKED" else 4)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print("end", flush=True)
"""


@pytest.mark.parametrize("way", ["c", "python"])
@pytest.mark.parametrize("what", ["exit", "fork"])
def test_cupy_exit_with_live_blocks_is_clean(way, what):
    done = forked.run(CHILD, FAKES, way, what)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_cupy_missing_library_says_what_to_do():
    done = forked.run(CHILD, FAKES, "c", "exit", environment={"ACRE_CUPY_LIBRARY": "/nowhere/libacre_cupy.so"})
    assert done.returncode == 1
    assert "ACRE_CUPY_LIBRARY" in done.stderr
