#!/usr/bin/env python3
"""One case of torch_suite.py, in a process of its own: `torch_cases.py CASE WAY`.

WAY is native (PyTorch's own allocator, without acre), use (acre.torch.use()) or pool (PyTorch's own
allocator, and acre.torch.pool() for regions). The last line of the output is JSON: the figures of the case.
A case that finds something wrong raises an error.
"""

import copy
import ctypes
import json
import mmap
import os
import random
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

GIB = 1 << 30
MIB = 1 << 20
SAVED_BYTES = int(os.environ.get("ACRE_SUITE_SAVED_GIB", "16")) * GIB


def check(is_true, what):
    """Raises an error that says what was expected."""
    if not is_true:
        raise AssertionError(what)


def model(width=1024):
    """Returns a small network with the same weights in every process."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).cuda()


def gradients(net):
    """Returns copies of the gradients."""
    return [p.grad.clone() for p in net.parameters()]


def tag_bytes(name):
    """Returns the live bytes of a tag."""
    import acre.torch

    return {t["tag"]: t["live_bytes"] for t in acre.torch.stats()["tags"]}.get(name, 0)


# ---- graphs ----


def graph(way):
    """Forward and backward in a graph: the gradients of eager mode, and no other tensor is overwritten."""
    import acre.torch

    net, x, side = model(), torch.randn(256, 1024, device="cuda"), torch.cuda.Stream()

    def both():
        loss = net(x).square().mean()
        loss.backward()
        return loss

    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            net.zero_grad(set_to_none=True)
            both()
    torch.cuda.current_stream().wait_stream(side)
    net.zero_grad(set_to_none=True)
    captured = torch.cuda.CUDAGraph()
    options = {"pool": acre.torch.pool("graphs").mempool().id} if way == "pool" else {}
    with torch.cuda.graph(captured, **options):
        loss = both()
    sizes = [1 << 10, 1 << 16, 1 << 20, 1 << 20, 4 << 20, 256 * 4096, 256 * 4096, 1024 * 4096]
    junk = [torch.full((n,), 7.0, device="cuda") for n in sizes]
    x.copy_(torch.randn(256, 1024, device="cuda", generator=torch.Generator("cuda").manual_seed(3)))
    captured.replay()
    torch.cuda.synchronize()
    got, graph_loss = gradients(net), loss.item()
    hurt = sum(int((j != 7.0).sum().item()) for j in junk)
    net.zero_grad(set_to_none=True)
    eager_loss = both().item()
    differ = sum(not torch.equal(a, b) for a, b in zip(got, gradients(net)))
    check(hurt == 0, f"the replay overwrote {hurt} words of other tensors")
    check(differ == 0 and graph_loss == eager_loss, f"{differ} gradients differ; {graph_loss} {eager_loss}")
    captured.reset()
    return {"gradients": len(got)}


def shared_graphs(way):
    """Graphs of one pool share memory, and give it back when the last of them is gone."""
    del way
    net = model(2048)
    x = torch.randn(4096, 2048, device="cuda")
    with torch.no_grad():
        want = net(x)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        start = torch.cuda.memory_reserved()
        handle, held, graphs = torch.cuda.graph_pool_handle(), [], []
        for _ in range(4):
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured, pool=handle):
                out = net(x).sum()
            graphs.append((captured, out))
            held.append((torch.cuda.memory_reserved() - start) // MIB)
    for captured, _ in graphs:
        captured.replay()
    torch.cuda.synchronize()
    sums = {out.item() for _, out in graphs}
    check(sums == {want.sum().item()}, f"sums {sums}, expected {want.sum().item()}")
    check(held[3] < held[0] * 1.5 + 16, f"four graphs of one pool hold {held} MiB: they do not share it")
    for captured, _ in graphs:
        captured.reset()
    del graphs, captured, out, want, _
    torch._C._cuda_clearCublasWorkspaces()  # one was made in the first capture
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    left = (torch.cuda.memory_reserved() - start) // MIB
    check(left <= 64, f"{left} MiB are held after all graphs are gone")
    return {"held_mib": held, "left_mib": left}


def graphed_callables(way):
    """torch.cuda.make_graphed_callables trains as the same network without graphs."""
    del way
    plain, x = model(512), torch.randn(64, 512, device="cuda")
    graphed_net = copy.deepcopy(plain)
    graphed = torch.cuda.make_graphed_callables(graphed_net, (x.clone(),))

    def train(net, called):
        optimizer, losses = torch.optim.SGD(net.parameters(), lr=0.1), []
        for step in range(8):
            torch.manual_seed(step)
            loss = called(torch.randn_like(x)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
        return losses

    a, b = train(plain, plain), train(graphed_net, graphed)
    check(all(abs(p - q) <= 1e-4 * abs(p) for p, q in zip(a, b)), f"losses {a} and {b}")
    return {"bit_equal": a == b}


# ---- training ----


def checkpoint(way):
    """Gradients with activation checkpointing are those without."""
    del way
    from torch.utils.checkpoint import checkpoint as recompute

    net, x = model(), torch.randn(512, 1024, device="cuda")
    net(x).square().mean().backward()
    want = gradients(net)
    net.zero_grad(set_to_none=True)
    recompute(net, x, use_reentrant=False).square().mean().backward()
    check(all(torch.equal(a, b) for a, b in zip(want, gradients(net))), "gradients differ")
    return {}


class Numbers(torch.utils.data.Dataset):
    """Rows whose contents say which they are."""

    def __len__(self):
        return 512

    def __getitem__(self, index):
        return torch.full((1000,), float(index))


def dataloader(way):
    """Workers are forked while tensors are live, and their batches arrive."""
    del way
    kept = [torch.ones(1000, device="cuda") for _ in range(100)]
    kept[0].record_stream(torch.cuda.Stream())
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=16, num_workers=4, pin_memory=True)
    total = 0.0
    for _ in range(2):
        for batch in loader:
            total += batch.cuda(non_blocking=True).double().sum().item()
    check(total == 2 * 1000 * sum(range(512)), f"the batches add up to {total}")
    check(sum(k.sum().item() for k in kept) == 100 * 1000, "a tensor changed")
    return {}


def compiled(way):
    """torch.compile works; its mode with graphs works on PyTorch's own allocator, or is refused by name."""
    net, x = model(512), torch.randn(64, 512, device="cuda")
    want = net(x)
    start = time.perf_counter()
    if way == "use":
        got = torch.compile(net)(x)
        try:
            torch.compile(net, mode="reduce-overhead")
            refused = ""
        except RuntimeError as error:
            refused = str(error)
        check("reduce-overhead" in refused and "acre" in refused, f"reduce-overhead is not refused: {refused}")
    else:
        import acre.torch

        with acre.torch.pool("inputs"):
            x = x.clone()
        with torch.no_grad():
            fast = torch.compile(net, mode="reduce-overhead")
            for _ in range(4):
                torch.compiler.cudagraph_mark_step_begin()
                got = fast(x).clone()
    check(torch.allclose(want, got, rtol=1e-2, atol=1e-3), "the results differ")
    return {"seconds": round(time.perf_counter() - start, 2)}


def streams(way):
    """A pipeline over five streams that records each stream before it queues the work."""
    del way
    first, sides = torch.cuda.current_stream(), [torch.cuda.Stream() for _ in range(4)]
    numbers, sums = random.Random(3), []
    for i in range(600):
        count = numbers.choice((1000, 70_000, 1 << 20, 3 << 20))
        x = torch.full((count,), float(i % 100), device="cuda")
        side = sides[i % 4]
        side.wait_stream(first)
        x.record_stream(side)
        with torch.cuda.stream(side):
            torch.cuda._sleep(300_000)
            sums.append((x.sum(dtype=torch.float64), count * float(i % 100)))
        del x
        torch.full((count,), -1.0, device="cuda")  # overwrites memory that is freed too early
    torch.cuda.synchronize()
    wrong = sum(got.item() != want for got, want in sums)
    check(wrong == 0, f"{wrong} of {len(sums)} sums are wrong: memory was reused too early")
    return {"sums": len(sums)}


def cudnn_benchmark(way):
    """torch.backends.cudnn.benchmark stays False with a warning, and convolutions work."""
    del way
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.backends.cudnn.benchmark = True
    said = "; ".join(str(warning.message) for warning in seen)
    check("cudnn.benchmark stays False" in said, f"no warning: {said}")
    check(torch.backends.cudnn.benchmark is False, "benchmark is on")
    x, net = torch.randn(4, 8, 64, 64, device="cuda"), nn.Conv2d(8, 16, 3, padding=1).cuda()
    net(x).square().mean().backward()
    check(all(bool(p.grad.isfinite().all()) for p in net.parameters()), "gradients are not finite")
    return {"warning": said}


def backward_pool(way):
    """pool() follows the calling thread; with backward=True also the threads of backward."""
    del way
    import acre.torch

    net, x = model(), torch.randn(256, 1024, device="cuda")
    with acre.torch.pool("forward"):
        loss = net(x).square().mean()
    check(tag_bytes("forward") > MIB, "forward allocated nothing under its tag")
    before = tag_bytes("forward")
    with acre.torch.pool("forward"):
        loss.backward()
    check(tag_bytes("forward") <= before, "backward was served without backward=True")
    net.zero_grad(set_to_none=True)
    with acre.torch.pool("gradients", backward=True):
        net(x).square().mean().backward()
    wanted = sum(p.numel() * 4 for p in net.parameters())
    check(tag_bytes("gradients") >= wanted, f"{tag_bytes('gradients')} bytes of gradients, expected {wanted}")
    return {"gradients_mib": tag_bytes("gradients") // MIB}


# ---- what one sees ----


def out_of_memory(way):
    """The error is PyTorch's own, with acre's report, and the program can go on."""
    import contextlib

    import acre.torch

    region = acre.torch.pool("filler") if way == "pool" else contextlib.nullcontext()
    blocks = []
    try:
        with region:
            while True:
                blocks.append(torch.empty(8 * GIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        text = str(error)
    check("CUDA out of memory" in text, f"PyTorch's words are missing: {text[:300]}")
    check("What to do" in text and "Memory of cuda:0" in text, f"acre's report is missing: {text[:300]}")
    count = len(blocks)
    blocks.clear()
    torch.ones(1000, device="cuda").sum().item()
    return {"blocks_of_8_gib": count, "text": text[:2000]}


def statistics(way):
    """PyTorch's statistics have acre's figures."""
    del way
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    check(torch.cuda.memory_allocated() - before == 100 * MIB, "memory_allocated")
    del x
    check(torch.cuda.max_memory_allocated() - before == 100 * MIB, "max_memory_allocated")
    check(torch.cuda.memory_allocated() == before, "memory_allocated after the free")
    check(torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved() > 0, "memory_reserved")
    check(torch.cuda.memory_stats()["num_ooms"] == 0, "memory_stats")
    summary = torch.cuda.memory_summary()
    check("Allocated memory" in summary, "memory_summary of PyTorch")
    torch.cuda.reset_accumulated_memory_stats()
    torch.cuda.set_per_process_memory_fraction(0.5)
    torch.cuda.set_per_process_memory_fraction(1.0)
    free, total = torch.cuda.mem_get_info()
    check(0 < free < total, "mem_get_info")
    return {}


def snapshot(way):
    """PyTorch reads the snapshot, with Python stacks."""
    del way
    import pickle

    import acre.torch
    from torch.cuda import _memory_viz

    acre.torch.record_stacks()

    def make_cache():
        return torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")

    with acre.torch.pool("kv"):
        cache = make_cache()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "memory.pickle")
        acre.torch.snapshot(path)
        with open(path, "rb") as file:
            data = pickle.load(file)  # written above
    text = _memory_viz.segsum(data)
    sizes = [b["size"] for s in data["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
    check(64 * MIB in sizes and len(text) > 100, f"the block is missing: {sizes}")
    check("make_cache" in repr(data), "the Python stack is missing")
    summary = acre.torch.memory_summary()
    check("kv" in summary and "make_cache" in summary, summary)
    del cache
    return {"summary": summary}


# ---- the saver ----


def saver(way):
    """Pause and resume with contents kept: times, contents, a graph, and what the card has meanwhile."""
    del way
    from acre.saver import torch_memory_saver as keeper

    with keeper.region("weights", enable_cpu_backup=True):
        weights = torch.empty(SAVED_BYTES // 8, dtype=torch.int64, device="cuda")
    with keeper.region("kv"):
        kv = torch.empty(4 * GIB, dtype=torch.uint8, device="cuda")
    torch.arange(weights.numel(), out=weights)

    def compute():
        return weights[:1000].sum() * 2

    compute()
    captured = torch.cuda.CUDAGraph()
    with keeper.cuda_graph(captured, tag="graph"):
        out = compute()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    where, figures = weights.data_ptr(), {"gib": SAVED_BYTES // GIB}
    for turn in ("first", "second", "retained"):
        keeper.retain = turn != "first"
        free = torch.cuda.mem_get_info()[0]
        start = time.perf_counter()
        keeper.pause()
        figures[f"pause_{turn}_s"] = round(time.perf_counter() - start, 3)
        freed = torch.cuda.mem_get_info()[0] - free
        # Not exactly: the driver may need some of the card for the pinned copies.
        check(freed >= 0.98 * (SAVED_BYTES + 4 * GIB), f"pause freed {freed} bytes")
        backup = keeper.get_cpu_backup(weights[-1000:])
        check(backup is not None and backup[-1].item() == weights.numel() - 1, "the copy on the host is wrong")
        start = time.perf_counter()
        keeper.resume()
        figures[f"resume_{turn}_s"] = round(time.perf_counter() - start, 3)
    check(weights.data_ptr() == where, "the address changed")
    step = 1 << 28
    for at in range(0, weights.numel(), step):
        part = weights[at:at + step]
        want = torch.arange(at, at + part.numel(), device="cuda")
        check(torch.equal(part, want), f"the contents changed behind {at}")
    kv.fill_(1)
    captured.replay()
    torch.cuda.synchronize()
    check(out.item() == 999 * 1000, f"the graph computed {out.item()}")
    return figures


def host_pages(way):
    """New host memory of the saver's size, touched by a thread for each core: twice, since a virtual machine may get
    its memory from the host on first use. A first pause needs it, too."""
    del way
    cores = len(os.sched_getaffinity(0))
    part = SAVED_BYTES // cores
    figures = {"gib": SAVED_BYTES // GIB}
    for turn in ("first", "second"):
        with mmap.mmap(-1, part * cores) as pages, ThreadPoolExecutor(cores) as pool:
            pages.madvise(mmap.MADV_HUGEPAGE)
            at = ctypes.addressof(ctypes.c_char.from_buffer(pages))
            start = time.perf_counter()
            list(pool.map(lambda i: ctypes.memset(at + i * part, 1, part), range(cores)))
            figures[f"touch_{turn}_s"] = round(time.perf_counter() - start, 3)
    return figures


CASES = {case.__name__: case for case in (
    graph, shared_graphs, graphed_callables, checkpoint, dataloader, compiled, streams, cudnn_benchmark, backward_pool,
    out_of_memory, statistics, snapshot, host_pages, saver)}


def main():
    """Runs the case."""
    case, way = sys.argv[1:]
    torch.backends.cuda.matmul.allow_tf32 = False
    if way == "use":
        import acre.torch

        acre.torch.use()
    print(json.dumps(CASES[case](way)), flush=True)


if __name__ == "__main__":
    main()
