"""acre.torch.use(): acre as the allocator of the (fake) PyTorch."""

import pytest

import torch_scripts
from torch_scripts import run

pytestmark = torch_scripts.needs

USE = """
import acre.torch, torch
acre.torch.use()
MIB = 1 << 20
"""


def test_without_pytorch_use_says_so():
    said = run("import sys; sys.modules['torch'] = None; import acre.torch; acre.torch.use()", fails=True)
    assert said.endswith("ImportError: acre.torch needs PyTorch, which this Python does not have\n"), said


def test_use_serves_tensors_from_acre():
    run(USE + """
assert acre.torch.is_used()
acre.torch.use()                    # again: a no-op
t = torch.empty(3 * MIB).fill_(7)
assert t.bytes() == bytes([7]) * (3 * MIB)
s = acre.torch.stats()
assert s["allocated"]["current"] == 3 * MIB and s["blocks"]["current"] == 1, s
assert s["pool"]["live_bytes"] >= 3 * MIB
del t
assert acre.torch.stats()["allocated"]["current"] == 0
""")


def test_use_sets_every_function_that_acre_has():
    run(USE + """
assert set(torch._C.allocator.functions) == {
    "set_record_stream_fn", "set_reset_fn", "set_memory_fraction_fn", "set_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn", "set_release_pool"}
""")


def test_use_refuses_after_the_first_use_of_cuda():
    said = run("import acre.torch, torch; torch.empty(100); acre.torch.use()", fails=True)
    assert "must come before the first use of CUDA" in said


def test_use_refuses_an_old_torch():
    said = run("import acre.torch, torch; torch.__version__ = '1.13.1'; acre.torch.use()", fails=True)
    assert "2.1 or later" in said and "1.13.1" in said


def test_use_refuses_a_torch_without_cuda():
    said = run("import acre.torch, torch; torch.version.cuda = None; acre.torch.use()", fails=True)
    assert "built without CUDA" in said


def test_use_refuses_without_a_compiler_unless_told(tmp_path):
    said = run(USE, fails=True, XDG_CACHE_HOME=str(tmp_path), CXX="false")
    assert "OutOfMemoryError" in said and "helper=False" in said


def test_use_refuses_a_cache_that_others_can_write(tmp_path):
    (tmp_path / "acre").mkdir()
    (tmp_path / "acre").chmod(0o777)
    assert "other users can write" in run(USE, fails=True, XDG_CACHE_HOME=str(tmp_path))


def test_use_without_the_helper_tells_failures():
    out = run("""
import acre.torch, torch, subprocess, sys
acre.torch.use(helper=False)
t = torch.empty(1000)
assert torch.cuda.memory_allocated() == 1024
t = torch._C.allocator.malloc(1 << 40, 0)
assert t is None
""")
    assert out == ""


def test_use_compiles_the_helper_once(tmp_path):
    folder = tmp_path / "acre"
    run(USE, XDG_CACHE_HOME=str(tmp_path))
    files = {f.name: f.stat().st_mtime_ns for f in folder.glob("*.so")}
    run(USE, XDG_CACHE_HOME=str(tmp_path))
    assert files == {f.name: f.stat().st_mtime_ns for f in folder.glob("*.so")}
    assert len([name for name in files if name.startswith("torch-2.11.0+fake-")]) == 1
    assert not list(folder.glob("tmp*"))


def test_out_of_memory_is_torchs_own_error_with_acres_report():
    run(USE + """
keep = torch.empty(200 * MIB)
try:
    torch.empty(100 * MIB)
    raise SystemExit("no error")
except torch.OutOfMemoryError as error:
    text = str(error)
assert text.startswith("CUDA out of memory. Tried to allocate 100.00 MiB"), text
assert "Memory of cuda:0" in text and "What to do" in text, text
assert acre.torch.stats()["failures"] == 1
assert torch.cuda.memory_stats()["num_ooms"] == 1
del keep
torch.empty(150 * MIB)
""")


def test_statistics_of_torch_have_acres_figures():
    run("""
import acre.torch, torch
from torch.cuda import memory_allocated, max_memory_allocated     # imported before
MIB = 1 << 20
acre.torch.use()
assert memory_allocated() == 0
a, b = torch.empty(2 * MIB), torch.empty(1000)
del a
assert memory_allocated() == torch.cuda.memory_allocated(0) == 1024
assert max_memory_allocated() == 2 * MIB + 1024
assert torch.cuda.memory_reserved() >= 2 * MIB <= torch.cuda.max_memory_reserved()
stats = torch.cuda.memory_stats()
assert stats["allocation.all.current"] == 1 and stats["allocated_bytes.all.allocated"] == 2 * MIB + 1024
assert stats["requested_bytes.all.current"] == 1000
assert stats["allocated_bytes.all.freed"] == 2 * MIB
torch.cuda.reset_peak_memory_stats()
assert max_memory_allocated() == 1024
torch.cuda.reset_accumulated_memory_stats()
assert torch.cuda.memory_stats()["allocated_bytes.all.allocated"] == 0
assert torch.cuda.mem_get_info()[1] == 256 * MIB
try:
    torch.cuda.memory.memory_snapshot()
    raise SystemExit("no error")
except RuntimeError as error:
    assert "acre.torch.snapshot" in str(error)
""")


def test_empty_cache_and_fractions_work():
    run(USE + """
t = torch.empty(64 * MIB)
del t
torch.cuda.synchronize()
assert torch.cuda.memory_reserved() >= 64 * MIB
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() == 0
torch.cuda.set_per_process_memory_fraction(0.25)
assert torch.cuda.memory.get_per_process_memory_fraction() == 0.25
try:
    torch.empty(100 * MIB)
    raise SystemExit("no error")
except torch.OutOfMemoryError as error:
    assert "limit" in str(error)
torch.cuda.set_per_process_memory_fraction(1.0)
torch.empty(100 * MIB)
""")


def test_recorded_streams_count_until_the_free():
    run(USE + """
import ctypes, threading
gate = threading.Event()
wait = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gate.wait())
side = torch.cuda.Stream()
t = torch.empty(MIB)
p = t.data_ptr()
t.record_stream(side)                                  # before the work is queued, as programs do
torch.fake_driver.call("cuLaunchHostFunc", ctypes.c_void_p(side.cuda_stream), wait, None)
del t
others = [torch.empty(MIB) for _ in range(20)]
assert p not in [o.data_ptr() for o in others]
gate.set()
torch.cuda.synchronize()
assert acre.torch.stats()["recorded_streams"] == 1
""")


CAPTURE = USE + """
def capture(value, pool=None):
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, pool=pool):
        scratch = torch.empty(24 * MIB).fill_(value + 100)
        where = scratch.data_ptr()
        del scratch
        scratch = torch.empty(24 * MIB).fill_(value)        # reuses the memory inside the capture
        assert scratch.data_ptr() == where
        del scratch
    return g, where
"""


def test_graphs_keep_their_memory():
    run(CAPTURE + """
out = {}
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    out = torch.empty(2 * MIB).fill_(5)
    scratch = torch.empty(3 * MIB).fill_(6)
    where = scratch.data_ptr()
    del scratch
junk = [torch.empty(3 * MIB).fill_(7) for _ in range(20)]
assert where not in {j.data_ptr() for j in junk}
out.fill_(0)
g.replay()
assert out.values() == {5} and all(j.values() == {7} for j in junk)
g.reset()
assert out.values() == {5}, "the output outlives its graph"
del out, junk
torch.cuda.synchronize()
torch.cuda.empty_cache()
assert torch.cuda.memory_allocated() == 0 and torch.cuda.memory_reserved() == 0, torch.cuda.memory_reserved()
""")


def test_graphs_of_one_pool_share_memory():
    run(CAPTURE + """
handle = torch.cuda.graph_pool_handle()
shared = [capture(i, handle) for i in range(4)]
assert torch.cuda.memory_reserved() == 24 * MIB, torch.cuda.memory_reserved()
assert len({where for _, where in shared}) == 1
alone = [capture(i) for i in range(2)]
assert torch.cuda.memory_reserved() == 3 * 24 * MIB
again = capture(9, alone[0][0].pool())
assert again[1] == alone[0][1] and torch.cuda.memory_reserved() == 3 * 24 * MIB
for g, _ in shared + alone + [again]:
    g.replay()
torch.cuda.synchronize()
for g, _ in shared[1:] + alone + [again]:
    g.reset()
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() == 24 * MIB, "one graph of the pool is left"
shared[0][0].replay()
shared[0][0].reset()
torch.cuda.synchronize()
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() == 0
""")


@pytest.mark.parametrize("how", ["mode='reduce-overhead'", "mode='max-autotune'", "backend='cudagraphs'",
                                 "options={'triton.cudagraphs': True}"])
def test_compile_with_graphs_is_refused_by_name(how):
    said = run(USE + f"torch.compile(print, {how})", fails=True)
    assert how.split("=")[0] in said and "acre.torch.pool()" in said


def test_compile_sees_the_environment_and_the_configuration():
    assert "TORCHINDUCTOR_CUDAGRAPHS=1" in run(USE + "torch.compile(print)", fails=True, TORCHINDUCTOR_CUDAGRAPHS="1")
    said = run(USE + """
import sys, types
sys.modules["torch._inductor.config"] = config = types.SimpleNamespace(triton=types.SimpleNamespace(cudagraphs=False))
torch.compile(print)
config.triton.cudagraphs = True
torch.compile(print, options={"triton.cudagraphs": False})
torch.compile(print, mode="default")
""", fails=True)
    assert "torch._inductor.config.triton.cudagraphs" in said


def test_cudnn_benchmark_stays_off_with_a_warning():
    begin = "import warnings; warnings.simplefilter('error')\n"
    for line in ("torch.backends.cudnn.benchmark = True; acre.torch.use()",
                 "acre.torch.use(); torch.backends.cudnn.benchmark = True",
                 "acre.torch.use(); torch._C._set_cudnn_benchmark(True)"):
        program = f"import torch, acre.torch\n{line}\nassert torch.backends.cudnn.benchmark is False\n"
        run(program)
        assert "UserWarning: torch.backends.cudnn.benchmark stays False under acre.torch.use()" in run(
            begin + program, fails=True)
    run(begin + USE + "torch.backends.cudnn.benchmark = False")


def test_mem_pools_of_pytorch_are_refused_by_name():
    assert "torch.cuda.MemPool does not work under acre.torch.use()" in run(USE + "torch.cuda.MemPool()", fails=True)


def test_a_fraction_holds_for_regions_too():
    """Of a card of 256 MiB."""
    run(USE + """
torch.cuda.set_per_process_memory_fraction(0.125)
def created():
    return acre.open().stats.chunk_created_bytes
def refused(count):
    before = created()
    try:
        return torch.empty(count * MIB) is None
    except torch.OutOfMemoryError as error:
        assert "left of the limit of 33554432 bytes on cuda:0 (set by torch.cuda.set_per_process_memory_fraction)" \
            in str(error), error
        assert created() == before, "memory beyond the limit was taken, if only for a moment"
        return True
with acre.torch.pool(tag="kv", own=True):
    kept = torch.empty(20 * MIB)
    assert refused(20)
    small = torch.empty(4 * MIB)
assert refused(16)
other = torch.empty(4 * MIB)
del small, kept
other = None
with acre.torch.pool(tag="kv", own=True):
    kept = torch.empty(24 * MIB)      # idle memory makes room, of any pool
torch.cuda.set_per_process_memory_fraction(1.0)
with acre.torch.pool(tag="kv", own=True):
    more = torch.empty(30 * MIB)
""")


def test_out_of_memory_observers_are_refused_by_name():
    said = run(USE + "torch._C._cuda_attach_out_of_memory_observer(print)", fails=True)
    assert "_cuda_attach_out_of_memory_observer" in said and "acre's report" in said


def test_a_filter_that_throws_leaves_no_lock():
    run(USE + """
def filter(stream):
    raise RuntimeError("cannot query the stream")
torch._C.allocator.begin((0, 77), filter)
kept = [torch.empty(MIB) for _ in range(2)]
torch._C.allocator.end((0, 77))
""")


def test_compile_without_graphs_works():
    run(USE + """
assert torch.compile(print) is print
assert torch.compile(print, mode="max-autotune-no-cudagraphs") is print
assert torch.compile(print, options={"triton.cudagraphs": False}) is print
""")


def test_workers_that_are_forked_can_drop_tensors():
    run(USE + """
import os
t = torch.empty(MIB)
t.record_stream(torch.cuda.Stream())
child = os.fork()
if not child:
    del t
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert torch.cuda.memory_allocated() == MIB
assert t.fill_(3)[5] == 3
""")


def test_tensors_that_live_until_the_exit_are_freed_quietly():
    assert run(USE + "import builtins; builtins.kept = torch.empty(MIB); print('end')") == "end\n"
