"""Lifetimes: garbage collection and exit in any order, threads, fork."""

import threading

import pytest

import acre

MIB = 1 << 20

# Objects in a module that are alive when the interpreter ends, in cycles and in globals, in an order that suits nobody.
AT_EXIT = """
import acre, atexit, threading
device = acre.open("soft", soft_bytes=256 << 20)
stream = device.stream()
class Cycle: pass
cycle = Cycle(); cycle.me = cycle
cycle.pool = device.pool(); cycle.blocks = [cycle.pool.alloc(1000, stream) for _ in range(10)]
a_vec = device.vec("float32", stream=stream, ahead_bytes=4 << 20); a_vec.append(bytes(4000))
plan = device.plan(device_bytes=1 << 20); buffer = plan.want(100)
range_ = device.range(64 << 20); range_.commit(0, 2 << 20)
heap = device.heap()
view = device.alloc(100, kind="pinned").buffer
capsule = device.alloc(100, kind="pinned").__dlpack__()
suspended = device.suspend(how="stay", rules=[acre.Rule("keep", object=a_vec)])
trace = acre.trace("/dev/shm/acre_test_%p.trace") if {trace} else None
tag = acre.tag("exit"); tag.__enter__()
acre.set_log(lambda level, area, line: None, "debug")
cycle.pool.set_callback(lambda wanted, attempt: False)
event = device.event()
{more}
print("end")
"""


@pytest.mark.parametrize(
    "more",
    [
        "",
        "del device",
        "del view, capsule; device.close()",
        "import sys; sys.modules['acre'] = None",
        "import gc; gc.disable(); del cycle, view",
        "del view, capsule; atexit.register(device.close)",
        "class Late:\n    def __del__(self): device and a_vec\nlate = Late()",
        "threading.Thread(target=lambda: [device.alloc(10, stream) for _ in range(1000)]).start()",
        "threading.Thread(target=lambda: __import__('time').sleep(0.2) or view, daemon=True).start()",
    ],
)
def test_exit_in_any_order_is_silent(run_python, more):
    said = run_python(AT_EXIT.format(trace=False, more=more))
    assert said.strip() == "end"


def test_exit_with_exports_of_a_device_that_atexit_closes(run_python):
    said = run_python(AT_EXIT.format(trace=False, more="atexit.register(device.close)"))
    assert "BufferError: cannot close device soft:0" in said


def test_exit_by_exception(run_python):
    said = run_python("import acre; d = acre.open('soft'); b = d.alloc(10); v = d.vec(); 1 / 0", rc=1)
    assert said.count("Traceback") == 1 and "ZeroDivisionError" in said


FORK = """
import acre, os, sys, warnings
# Python 3.12 and later warn of a fork with threads, such as those of the device.
warnings.filterwarnings("ignore", ".* multi-threaded, use of fork", DeprecationWarning)
device = acre.open("soft", soft_bytes=256 << 20)
pool, vec, stream = device.pool(), device.vec("uint8"), device.stream()
block = pool.alloc(1000); block.fill(3)
vec.append(b"abc")
host = device.alloc(10, kind="pinned")
view = host.buffer
child = os.fork()
if child == 0:
    try:
        for use in (lambda: device.alloc(1), lambda: device.info, lambda: vec.append(b"x"), lambda: acre.open("soft"),
                    lambda: stream.synchronize(), lambda: block.free(), lambda: len(vec), lambda: vec.ptr,
                    lambda: vec.nbytes, lambda: vec.capacity, lambda: vec.mapped_nbytes, lambda: block.usable_nbytes,
                    lambda: block.ptr in pool, lambda: pool.blocks(), lambda: host.buffer):
            try:
                use()
            except acre.Error as error:
                assert error.name == "ACRE_E_FORKED", error
            else:
                raise AssertionError("worked in a child")
        assert "acre.Vec" in repr(vec) and "acre.Block" in repr(block)
        del block, vec, stream, pool, view, host, device
        import gc; gc.collect()
    except BaseException as error:
        print(repr(error)); sys.stdout.flush(); os._exit(1)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert block.tobytes() == bytes([3]) * 1000 and vec.tobytes() == b"abc"
print("parent works")
"""


def test_a_forked_child_fails_cleanly_and_the_parent_works(run_python):
    assert run_python(FORK).strip() == "parent works"


def test_multiprocessing_by_fork_and_spawn(run_python):
    program = """
import multiprocessing, acre
def work(number):
    import acre
    with acre.open("soft", soft_bytes=64 << 20) as device:
        block = device.alloc(1000); block.fill(number)
        return block.tobytes()[0]
if __name__ == "__main__":
    # fork works if the parent has not opened a device
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, range(4)))
"""
    assert run_python(program).strip() == "[0, 1, 2, 3]"


def run_threads(count, work):
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_threads_allocate_and_free(device):
    pool = device.pool()
    passed = []

    def work(number):
        with device.stream() as stream, acre.tag(f"thread{number}"):
            for turn in range(200):
                block = pool.alloc(1000 + turn, stream)
                if turn % 3 == 0:
                    passed.append(block)  # another thread frees it
                elif turn % 3 == 1:
                    block.free()
                if len(passed) > 10:
                    passed.pop()
            stream.synchronize()

    run_threads(4, work)
    passed.clear()
    assert pool.stats.live_blocks == 0
    pool.close()


def test_errors_belong_to_their_thread(device):
    barrier = threading.Barrier(4)

    def work(number):
        wrong = [lambda: acre.open("soft:99"), lambda: device.alloc_direct(10, write_combined=True)]
        for turn in range(50):
            barrier.wait()
            with pytest.raises(acre.Error) as caught:
                wrong[number % 2]()
            assert ("99" in caught.value.detail) == (number % 2 == 0), caught.value

    run_threads(4, work)


def test_threads_grow_one_vec(device):
    vec = device.vec("int64")

    def work(number):
        for _ in range(100):
            vec.append(number.to_bytes(8, "little") * 10)

    run_threads(4, work)
    device.synchronize()
    found = vec.get()
    assert len(found) == 4000 and sorted(set(found.tolist())) == [0, 1, 2, 3]
    assert all((found == number).sum() == 1000 for number in range(4))


def test_exports_race_with_growth(device):
    vec = device.vec("uint8", kind="pinned", address_bytes=4 * MIB, chunk_bytes=2 * MIB)
    vec.append(b"x" * 100)

    def work(number):
        for _ in range(100):
            if number % 2:
                view = vec.buffer
                assert bytes(view[:100]) == b"x" * 100
                del view
            else:
                try:
                    vec.grow(MIB // 4)
                except BufferError:
                    pass

    run_threads(4, work)
    assert vec.tobytes()[:100] == b"x" * 100


def test_a_callback_frees_in_other_threads(device):
    pool = device.pool(limit_bytes=8 * MIB)
    cache = []

    def make_room(_wanted, _attempt):
        try:
            cache.pop()
        except IndexError:
            return False
        return True

    pool.set_callback(make_room)

    def work(_number):
        for _ in range(100):
            try:
                cache.append(pool.alloc(MIB))
            except acre.OutOfMemory:
                pass

    run_threads(4, work)
    cache.clear()
    assert pool.stats.live_blocks == 0


# Each makes memory that another library reads, and what would free it. A crash ends the program, so it runs alone.
CLOSE = """
import numpy, acre
device = acre.open("soft", soft_bytes=256 << 20)
pool, plan = device.pool("pinned"), None
def block_of_a_plan():
    global plan
    plan = device.plan(host_pool=pool)
    with plan.step():
        return plan.alloc(4096, "host", keep=True)
memory = {memory}
closed = {closed}
view = {view}
view[4095] = 7
try:
    closed.close()
except BufferError as error:
    print(error)
else:
    print("closed")
assert view[4095] == 7 and closed.is_open
del view
closed.close()
assert not closed.is_open
try:
    memory.buffer
except ValueError as error:
    assert "closed" in str(error), error
"""


@pytest.mark.parametrize("view", ["memory.buffer", "numpy.asarray(memory)[:]"])
@pytest.mark.parametrize(
    "closed, memory",
    [
        ("device", 'device.alloc(4096, kind="pinned")'),
        ("device", 'device.zeros(4096, "uint8", kind="pinned")'),
        ("device", 'device.alloc_direct(4096, "pinned")'),
        ("device", 'pool.alloc(4096).view("uint8", 4096)'),
        ("device", 'device.plan(host_bytes=1 << 20).want(4096, "host")'),
        ("device", "block_of_a_plan()"),
        ("pool", "pool.alloc(4096)"),
        ("pool", 'pool.zeros((4096,), "uint8")'),
        ("pool", "block_of_a_plan()"),
        ("plan", "block_of_a_plan()"),
    ],
)
def test_close_waits_for_exports(run_python, closed, memory, view):
    said = run_python(CLOSE.format(closed=closed, memory=memory, view=view), imports="import acre, numpy").strip()
    assert said.startswith(f"cannot close {closed}") and "still uses" in said


def test_the_last_close_waits_for_exports():
    """Only the close that ends the device is refused; one that another open outlives is not."""
    first, second = acre.open("soft"), acre.open("soft")
    view = first.alloc(100, kind="pinned").buffer
    first.close()
    with pytest.raises(BufferError, match="cannot close device soft:0"):
        second.close()
    view[99] = 1
    del view
    second.close()
    assert not first.is_open and not second.is_open


def test_a_device_that_nobody_has_closes_after_its_last_export():
    first, second = acre.open("soft"), acre.open("soft")
    view = first.alloc(100, kind="pinned").buffer
    first.close()
    del first
    del second  # cannot close: the export is the last user
    view[99] = 1
    with acre.open("soft") as third:
        assert third.info.open_count == 2
    del view
    with acre.open("soft") as third:
        assert third.info.open_count == 1


def test_exports_do_not_hide_an_exception():
    with pytest.raises(ZeroDivisionError):
        with acre.open("soft") as opened, opened.pool("pinned") as pool:
            view = pool.alloc(100).buffer
            1 / 0
    view[99] = 1
    with pytest.raises(BufferError):
        with acre.open("soft") as opened, opened.pool("pinned") as pool:
            view = pool.alloc(100).buffer
    del view
    pool.close()
    opened.close()


def test_a_view_outlives_its_plan(run_python):
    program = """
import acre, gc
device = acre.open("soft", soft_bytes=256 << 20)
views = [device.plan(host_bytes=1 << 20).want(4096, "host").buffer for _ in range(3)]
gc.collect()
for view in views:
    view[4095] = 7
print("works")
"""
    assert run_python(program).strip() == "works"


def test_closing_a_default_pool_frees_its_blocks_later(device):
    pool = device.default_pool("pinned")
    block = pool.alloc(100)
    pool.close()
    assert block.buffer.nbytes == 100
    block.free()
    assert device.default_pool("pinned").blocks() == []


def test_memory_of_a_closed_pool_has_no_address(device):
    pool = device.pool("pinned")
    block = pool.alloc(100)
    array = block.view("int32")
    pool.close()
    for use in (lambda: block.buffer, lambda: array.ptr, lambda: block.fill(1), block.tobytes, array.__dlpack__):
        with pytest.raises(ValueError, match="pool is closed"):
            use()
    block.free()


def test_device_lives_as_long_as_its_objects(device):
    def make():
        return acre.open(device.name).alloc(100)

    block = make()
    block.fill(1)
    assert block.tobytes() == b"\1" * 100


def test_reference_counts_free_at_once(device):
    """No object keeps itself alive by a cycle: memory is freed without the garbage collector."""
    import gc

    gc.disable()
    try:
        pool = device.pool()
        array = pool.zeros((10, 10))
        vec = device.vec()
        vec.grow(10)
        range_ = device.range(2 * MIB)
        view = pool.device.alloc(10, kind="pinned").buffer
        plan = device.plan(device_bytes=MIB)
        buffer = plan.want(10)
        before = device.stats
        assert (before.vecs, before.ranges) == (1, 1) and device.stats.mem_blocks == before.mem_blocks
        del array
        assert pool.blocks() == []
        del vec, range_, view, buffer
        assert (device.stats.vecs, device.stats.ranges) == (0, 0)
        assert device.default_pool("pinned").blocks() == []
        handle = plan.handle
        del plan
        from acre import _library

        assert _library.lib().acre_plan_commit(handle) != 0
    finally:
        gc.enable()
