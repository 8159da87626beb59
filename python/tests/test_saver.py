"""acre.saver: the behaviour of torch_memory_saver, on both ways: use(), and PyTorch's own allocator."""

import pytest

import torch_scripts

pytestmark = torch_scripts.needs


def run(script, **options):
    """Runs a script on a card of 64 MiB."""
    return torch_scripts.run(script, ACRE_SOFT_BYTES="64MiB", **options)


BEGIN = """
import acre, acre.torch, torch
from acre.saver import torch_memory_saver as saver
UNIT = 1 << 18       # the card has 256 of them
def free_units():
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0] // UNIT
"""
WAYS = {"use": BEGIN + "acre.torch.use()\n", "mempool": BEGIN}


@pytest.fixture(params=WAYS)
def begin(request):
    return WAYS[request.param]


def test_pause_frees_the_card_and_resume_brings_addresses_back(begin):
    run(begin + """
plain = torch.empty(20 * UNIT).fill_(1)
with saver.region():
    t = torch.empty(100 * UNIT).fill_(2)
where, before = t.data_ptr(), free_units()
saver.pause()
assert saver.is_paused() and free_units() >= before + 100, (before, free_units())
assert saver.info()["released_bytes"] >= 100 * UNIT and saver.info()["kept_bytes"] == 0
assert plain[-1] == 1, "other memory stays"
other = torch.empty(100 * UNIT).fill_(3)       # serves others meanwhile
del other
torch.cuda.empty_cache()
saver.resume()
assert not saver.is_paused() and t.data_ptr() == where
assert t.fill_(4)[-1] == 4
""")


def test_backup_keeps_contents(begin):
    run(begin + """
with saver.region(tag="weights", enable_cpu_backup=True):
    kept = torch.empty(10 * UNIT).fill_(7)
with saver.region(tag="weights"):
    dropped = torch.empty(10 * UNIT).fill_(8)
saver.pause("weights")
assert 10 * UNIT <= saver.info("weights")["kept_bytes"] < 20 * UNIT, saver.info("weights")
saver.resume("weights")
assert kept.values() == {7}
assert dropped.fill_(9)[0] == 9
for retained in (True, False):
    saver.retain = retained
    saver.pause("weights"); saver.resume("weights")
    assert kept.values() == {7}
""")


def test_tags_pause_and_resume_one_by_one(begin):
    run(begin + """
with saver.region(tag="weights", enable_cpu_backup=True):
    weights = torch.empty(40 * UNIT).fill_(1)
with saver.region(tag="kv cache/1"):
    kv = torch.empty(40 * UNIT).fill_(2)
start = free_units()
saver.pause("kv cache/1")
assert start + 40 <= free_units() < start + 80
assert weights[0] == 1
saver.pause("weights")
assert free_units() >= start + 80
saver.pause()                       # both are: a no-op
saver.resume("weights")
assert saver.is_paused("kv cache/1") and not saver.is_paused("weights")
assert weights[0] == 1
saver.resume()
saver.resume()                      # a no-op
assert kv.fill_(3)[0] == 3 and free_units() == start
saver.pause("never used"); saver.resume("never used")
""")


def test_regions_of_a_paused_tag_refuse(begin):
    said = run(begin + """
with saver.region("a"):
    t = torch.empty(4 * UNIT)
saver.pause("a")
with saver.region("a"):
    torch.empty(4 * UNIT)
""", fails=True)
    assert "'a' is paused" in said


def test_tensors_can_be_freed_while_they_are_away(begin):
    run(begin + """
with saver.region():
    t, u = torch.empty(30 * UNIT), torch.empty(30 * UNIT)
saver.pause()
del t
saver.resume()
u.fill_(1)
assert u[0] == 1
""")


def test_disable_leaves_the_region(begin):
    run(begin + """
with saver.region():
    t = torch.empty(30 * UNIT)
    with saver.disable():
        stays = torch.empty(30 * UNIT).fill_(5)
    u = torch.empty(30 * UNIT)
before = free_units()
saver.pause()
assert before + 60 <= free_units() < before + 90, (before, free_units())
assert stays[0] == 5
saver.resume()
""")


def test_graphs_stay_valid(begin):
    run(begin + """
g = torch.cuda.CUDAGraph()
source = torch.empty(UNIT).fill_(1)
with saver.cuda_graph(g, tag="graph"):
    out = torch.empty(20 * UNIT).fill_(5)
    scratch = torch.empty(20 * UNIT).fill_(6)
    del scratch
g.replay()
assert out.values() == {5}
before = free_units()
saver.pause("graph")
assert free_units() >= before + 40, (before, free_units())
saver.resume("graph")
g.replay()
assert out.values() == {5} and source[0] == 1
g.reset()
""")


def test_graphs_may_name_a_pool(begin):
    """As engines call it, which pass the same pool for all their graphs."""
    run(begin + """
handle = torch.cuda.graph_pool_handle()
g = torch.cuda.CUDAGraph()
with saver.cuda_graph(cuda_graph=g, pool=handle, stream=torch.cuda.Stream()):
    out = torch.empty(20 * UNIT).fill_(5)
saver.pause()
saver.resume()
g.replay()
assert out.values() == {5}
g.reset()
""")


def test_resume_on_a_full_card_can_be_repeated(begin):
    run(begin + """
with saver.region(enable_cpu_backup=True):
    t = torch.empty(150 * UNIT).fill_(9)
saver.pause()
filler = torch.empty(180 * UNIT)
try:
    saver.resume()
    raise SystemExit("no error")
except acre.OutOfMemory as error:
    assert error.name == "ACRE_E_DEVICE_MEMORY", error
assert saver.is_paused()
del filler
saver.resume()
assert t.values() == {9}
""")


def test_two_engines_take_turns(begin):
    """As in reinforcement learning: training and generation have the card one after the other."""
    run(begin + """
with saver.region("training", enable_cpu_backup=True):
    optimizer = torch.empty(150 * UNIT).fill_(1)
saver.pause("training")
with saver.region("rollout", enable_cpu_backup=True):
    weights = torch.empty(100 * UNIT).fill_(2)
with saver.region("kv"):
    kv = torch.empty(60 * UNIT)
for step in range(2):
    saver.pause("rollout"); saver.pause("kv")
    saver.resume("training")
    assert optimizer[0] == step + 1
    optimizer.fill_(step + 2)
    saver.pause("training")
    saver.resume("rollout"); saver.resume("kv")
    assert weights[-1] == 2
    kv.fill_(step)
""")


def test_the_rest_of_the_interface_is_there(begin):
    run(begin + """
import acre.saver
assert saver.enabled and acre.saver.torch_memory_saver is saver
saver.hook_mode = "preload"
with acre.saver.configure_subprocess():
    pass
with acre.saver.region("x"):
    t = torch.empty(UNIT)
acre.saver.pause("x"); acre.saver.resume("x")
saver.retain_cpu_backup = True
assert saver.retain and saver.retain_cpu_backup
""")


def test_backups_can_be_read_while_their_memory_is_away(begin):
    """As slime does, which sends weights from the copy: None means that the tensor itself has them."""
    run(begin + """
with saver.region("weights", enable_cpu_backup=True):
    a, b = torch.empty(9 * UNIT).fill_(1), torch.empty(1000).fill_(2)
with saver.region("kv"):
    dropped = torch.empty(9 * UNIT).fill_(3)
plain = torch.empty(1000).fill_(4)
assert saver.get_cpu_backup(a) is None
saver.pause()
other = torch.empty(100 * UNIT)     # the card is used by others
copies = [saver.get_cpu_backup(a), saver.get_cpu_backup(b, zero_copy=True)]
assert saver.get_cpu_backup(plain) is None
try:
    saver.get_cpu_backup(dropped)
    raise SystemExit("no error")
except RuntimeError as error:
    assert "has no backup" in str(error)
del other
torch.cuda.empty_cache()
saver.resume()
assert copies[0].bytes() == b"\\1" * (9 * UNIT) and copies[1].bytes() == b"\\2" * 1000
assert saver.get_cpu_backup(a) is None
try:
    saver.get_cpu_backup(copies[0])
    raise SystemExit("no error")
except ValueError:
    pass
""")


def test_everything_is_in_the_default_region_on_request():
    """As slime runs its training engine."""
    run(WAYS["use"] + """
weights = torch.empty(60 * UNIT).fill_(7)
with saver.region("kv"):
    kv = torch.empty(60 * UNIT)
start = free_units()
saver.pause()
assert saver.is_paused() and free_units() >= start + 120, (start, free_units())
assert saver.get_cpu_backup(weights).bytes() == b"\\7" * (60 * UNIT)
with saver.disable():
    other = torch.empty(100 * UNIT).fill_(8)
    assert other[-1] == 8
    del other
assert free_units() >= start + 110, (start, free_units())
try:
    torch.empty(1000)
    raise SystemExit("no error")
except RuntimeError as error:
    assert "memory of the pool is suspended" in str(error), error
saver.resume()
assert weights.values() == {7}
torch.empty(1000)
""", TMS_INIT_ENABLE="1", TMS_INIT_ENABLE_CPU_BACKUP="1")
    said = run(WAYS["mempool"] + "saver.pause()", fails=True, TMS_INIT_ENABLE="1")
    assert "TMS_INIT_ENABLE needs acre.torch.use()" in said


def refused(line, why="must stay free (set by acre.saver's memory_margin_bytes)"):
    return f"""
try:
    {line}
    raise SystemExit("no error")
except torch.OutOfMemoryError as error:
    assert "{why}" in str(error), error
"""


def test_margin_leaves_memory_free(begin):
    """Of 256 units, of which others may have some."""
    in_region = 'with saver.region("kv"): tensor = torch.empty({} * UNIT)'
    others = """
import ctypes
others = ctypes.c_uint64()
torch.cuda.init()
torch._driver.call("cuMemAlloc_v2", ctypes.byref(others), ctypes.c_size_t(100 * UNIT))
"""
    for more, too_many, enough in (("", 200, 100), (others, 100, 40)):
        run(begin + more + "saver.memory_margin_bytes = 100 * UNIT" + refused(in_region.format(too_many))
            + in_region.format(enough) + "\nassert free_units() >= 100\n"
            + refused("with saver.region('other'): torch.empty(60 * UNIT)")
            + "saver.memory_margin_bytes = 0\n" + in_region.format(60).replace("tensor", "more"))


def test_margin_and_fraction_do_not_replace_each_other():
    run(WAYS["use"] + """
torch.cuda.set_per_process_memory_fraction(0.25)
saver.memory_margin_bytes = 10 * UNIT
""" + refused("torch.empty(100 * UNIT)", "set_per_process_memory_fraction") + """
saver.memory_margin_bytes = 0
""" + refused("torch.empty(100 * UNIT)", "set_per_process_memory_fraction"))


def test_contents_on_disk(begin, tmp_path):
    run(begin + f"""
import os
try:
    with saver.region("w", enable_disk_backup=True):
        raise SystemExit("no error")
except ValueError as error:
    assert "set_disk_backup_dir" in str(error)
saver.set_disk_backup_dir({str(tmp_path / "new")!r})
with saver.region("w", enable_disk_backup=True, cpu_backup_backend="x", chunk_size=1):
    a = torch.empty(40 * UNIT).fill_(5)
free = free_units()
saver.pause("w")
assert free_units() >= free + 40
assert saver.info("w")["kept_bytes"] >= 40 * UNIT
assert saver.get_cpu_backup(a).bytes() == b"\\5" * (40 * UNIT)
saver.resume()
assert a.values() == {{5}}
try:
    saver.region("w", enable_disk_backup=True, enable_cpu_backup=True).__enter__()
    raise SystemExit("no error")
except ValueError:
    pass
""")
    run(begin + """
with saver.region("w", enable_disk_backup=True):
    a = torch.empty(9 * UNIT).fill_(5)
saver.pause(); saver.resume()
assert a.values() == {5} and saver.retain
""", TMS_DISK_BACKUP_DIR=str(tmp_path), TMS_RETAIN_CPU_BACKUP="1")


def test_tags_of_any_text_are_apart(begin):
    run(begin + """
for tag in ("_#1", "\u00e9", "_", "#"):
    with saver.region(tag):
        torch.empty(UNIT)
tensors = {}
for tag in ("_#1", "\u00e9", "_", "#"):
    with saver.region(tag):
        tensors[tag] = torch.empty(9 * UNIT).fill_(3)
saver.pause("\u00e9")
for tag, tensor in tensors.items():
    if tag != "\u00e9":
        assert tensor.values() == {3}, tag
""")


def test_summary_counts_paused_memory_once(begin):
    said = run(begin + """
with saver.region("kv"):
    tensor = torch.empty(200 * UNIT)
saver.pause()
with saver.region("other"):
    other = torch.empty(200 * UNIT)
print(acre.torch.memory_summary())
""")
    rows = {line.split(maxsplit=2)[2]: float(line.split()[0]) for line in said.splitlines() if line.startswith("  ")
            and line.split()[1] == "MiB"}
    away = next(count for what, count in rows.items() if what.startswith("of these suspended"))
    assert away <= -50 and abs(sum(rows.values()) - 64) < 1 + sum(
        count for what, count in rows.items() if "blocks, at most" in what), said


def test_disable_gives_memory_back_after_an_error():
    run(WAYS["use"] + """
try:
    with saver.disable():
        other = torch.empty(100 * UNIT)
        del other
        raise KeyError
except KeyError:
    pass
assert free_units() >= 250, free_units()
""", TMS_INIT_ENABLE="1")
