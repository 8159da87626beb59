"""acre.torch.pool(), statistics by tag, and snapshots, on both ways: use(), and PyTorch's own allocator."""

import pickle
import pickletools

import pytest

import torch_scripts
from torch_scripts import run

pytestmark = torch_scripts.needs

BEGIN = """
import acre.torch, torch
MIB = 1 << 20
def tag(name):
    return {t["tag"]: t["live_bytes"] for t in acre.torch.stats()["tags"]}.get(name, 0)
"""
WAYS = {"use": BEGIN + "acre.torch.use()\n", "mempool": BEGIN}


@pytest.fixture(params=WAYS)
def begin(request):
    return WAYS[request.param]


def test_pool_counts_under_its_tag(begin):
    run(begin + """
with acre.torch.pool(tag="model/kv") as kv:
    a = torch.empty(4 * MIB).fill_(5)
b = torch.empty(4 * MIB)
assert tag("model/kv") == tag("model") == 4 * MIB, tag("model/kv")
with kv:
    with kv, acre.torch.pool("inner"):
        c = torch.empty(MIB)
    d = torch.empty(MIB)
assert tag("model/kv") + tag("inner") >= 6 * MIB
e = torch.empty(MIB)
assert tag("model/kv") + tag("inner") < 7 * MIB
assert a[-1] == 5
del a, c, d
kv.release()
import gc; gc.collect()
assert tag("model/kv") <= 2 * MIB
""")


def test_pool_follows_the_calling_thread_only(begin):
    run(begin + """
with acre.torch.pool("forward"):
    mine = torch.empty(MIB)
    theirs = torch.backward(lambda: torch.empty(MIB))
assert tag("forward") == MIB
""")


def test_pool_with_backward_serves_its_threads(begin):
    run(begin + """
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    with acre.torch.pool("gradients", backward=True):
        mine = torch.empty(MIB)
        theirs = torch.backward(lambda: torch.empty(MIB))
    after = torch.backward(lambda: torch.empty(MIB))
assert tag("gradients") == 2 * MIB, tag("gradients")
""")


def test_pool_refuses_wrong_tags(begin):
    for wrong in ('a"b', "a//b", "a/", "x" * 100):
        assert "is not a tag" in run(begin + f"acre.torch.pool({wrong!r})", fails=True)


def test_pool_says_when_a_tag_has_too_many_names(begin):
    assert "16 names" in run(begin + "acre.torch.pool('/'.join('abcdefghijklmnopqrstu'))", fails=True)


def test_pool_with_backward_serves_the_default_stream(begin):
    run(begin + """
with acre.torch.pool("gradients", backward=True):
    theirs = torch.backward(lambda: torch.empty(MIB))
after = torch.backward(lambda: torch.empty(MIB))
assert tag("gradients") == MIB, tag("gradients")
""")


def test_release_waits_until_no_thread_is_in_a_region():
    run(BEGIN + """
import threading
entered, may_leave = threading.Event(), threading.Event()
def work():
    with acre.torch.pool("other"):
        entered.set()
        may_leave.wait()
thread = threading.Thread(target=work)
kv = acre.torch.pool("kv")
with kv:
    t = torch.empty(MIB)
del t
thread.start()
entered.wait()
kv.release()
with kv:
    kv.release()
assert tag("kv") == MIB, "still there"
may_leave.set()
thread.join()
assert tag("kv") == 0
""")


def test_each_device_has_mempools_of_its_own():
    run(BEGIN + """
kv = acre.torch.pool("kv")
first = kv.mempool()
torch._C.current = 1
assert kv.mempool() is not first
torch._C.current = 0
assert kv.mempool() is first
""")


def test_record_stacks_needs_use():
    assert "needs acre.torch.use()" in run(BEGIN + "acre.torch.record_stacks()", fails=True)


def test_pool_says_when_there_are_too_many(begin):
    assert "32 regions" in run(begin + "[acre.torch.pool(f'r{i}') for i in range(33)]", fails=True)


def test_pool_out_of_memory_has_acres_report(begin):
    run(begin + """
try:
    with acre.torch.pool("kv"):
        torch.empty(1 << 30)
    raise SystemExit("no error")
except torch.OutOfMemoryError as error:
    assert "CUDA out of memory" in str(error) and "acre" in str(error), error
""")


def test_graphs_in_a_pool(begin):
    run(begin + """
kv = acre.torch.pool("graphs")
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g, pool=None if acre.torch.is_used() else kv.mempool().id):
    if acre.torch.is_used():
        with kv:
            out = torch.empty(MIB).fill_(9)
    else:
        out = torch.empty(MIB).fill_(9)
assert tag("graphs") in (0, MIB)        # a tag needs a thread that entered the region
junk = [torch.empty(MIB).fill_(1) for _ in range(8)]
g.replay()
assert out[0] == 9 and all(j[0] == 1 for j in junk)
g.reset()
""")


def test_pools_of_two_threads_do_not_meet(begin):
    run(begin + """
import threading
def work(n):
    torch._C.tls.stream = torch.cuda.Stream()
    for _ in range(50):
        with acre.torch.pool("shared"):
            t = torch.empty(4096)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
""")


def test_memory_summary_names_tags_and_lines():
    out = run(WAYS["use"] + """
assert "nothing was allocated" in acre.torch.memory_summary()
acre.torch.record_stacks()
def make_cache():
    return torch.empty(8 * MIB)
with acre.torch.pool("kv"):
    cache = make_cache()
other = torch.backward(lambda: torch.empty(MIB))
print(acre.torch.memory_summary())
acre.torch.record_stacks(False)
assert "make_cache" not in acre.torch.memory_summary()
""")
    assert "8.0 MiB  kv, 1 blocks" in out
    assert "256.0 MiB" in out and "free in acre's pools" in out
    assert "make_cache" in out or "malloc" in out


def _strings(path):
    return {arg for op, arg, _ in pickletools.genops(path.read_bytes()) if isinstance(arg, str)}


def test_snapshot_is_one_that_memory_viz_opens(tmp_path):
    path = tmp_path / "memory.pickle"
    run(WAYS["use"] + f"""
acre.torch.record_stacks()
with acre.torch.pool("kv"):
    cache = torch.empty(8 * MIB)
acre.torch.snapshot({str(path)!r})
acre.torch.snapshot({str(tmp_path / "plain.json")!r}, format="acre")
""")
    snapshot = pickle.loads(path.read_bytes())  # written by this test
    assert {"segments", "device_traces"} <= set(snapshot)
    blocks = [b for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
    assert [b["size"] for b in blocks] == [8 << 20]
    assert any("<module>" in text for text in _strings(path))
    assert "acre-snapshot/1" in (tmp_path / "plain.json").read_text()


def test_snapshot_says_what_went_wrong(tmp_path):
    said = run(WAYS["use"] + f"""
t = torch.empty(100)
acre.torch.snapshot({str(tmp_path / "no" / "folder")!r})
""", fails=True)
    assert "acre export failed" in said
