#!/usr/bin/env python3
"""Loads what `acre export --format memory_viz` wrote with PyTorch's own reader, torch.cuda._memory_viz.

    export_torch.py ACRE [TRACE...]

ACRE is the built tool, TRACE any file that it reads. With a GPU, PyTorch records one more snapshot first. Each file is exported, and the functions segsum, trace, memory, trace_plot and
segment_plot must accept the result; so must profile_plot, for a profile of PyTorch with a GPU, to show that the
module works here. Snapshots of PyTorch are compared with their exports: the same entries and the same sums.

Exit status: 1 if a check failed, 77 without PyTorch.
"""

import gzip
import os
import pickle
import subprocess
import sys
import tempfile

SKIPPED = 77

try:
    import torch
    from torch.cuda import _memory_viz as viz
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(SKIPPED)

failures = 0


def check(what, condition):
    global failures
    if not condition:
        failures += 1
        print(f"FAILED: {what}")


def record(path):
    """Writes a snapshot of a few training steps."""
    torch.cuda.memory._record_memory_history(max_entries=100000)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(5):
        optimizer.zero_grad()
        model(torch.randn(64 * (step + 1), 512, device="cuda")).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(path)
    torch.cuda.memory._record_memory_history(enabled=None)


def profile():
    """profile_plot takes a profile, not a snapshot; acre has no part in it."""
    from torch.profiler import ProfilerActivity
    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True,
                                record_shapes=True, with_stack=True) as done:
        (torch.randn(256, 256, device="cuda") @ torch.randn(256, 256, device="cuda")).sum()
    check("profile_plot", "<html>" in viz.profile_plot(done))


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    return pickle.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def is_pickle(path):
    with (gzip.open if open(path, "rb").read(2) == b"\x1f\x8b" else open)(path, "rb") as file:
        return file.read(1) == b"\x80"


def counts(snapshot):
    """What a snapshot and its export must have in common."""
    entries = [e for trace in snapshot["device_traces"] for e in trace]
    kinds = [e["action"] for e in entries if e["action"] in ("alloc", "free_requested")]
    live = [b for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
    return {"alloc": kinds.count("alloc"), "free": kinds.count("free_requested"), "live": len(live),
            "live_bytes": sum(b["requested_size"] for b in live),
            "reserved": sum(s["total_size"] for s in snapshot["segments"])}


def try_file(acre, path, folder):
    out = os.path.join(folder, "export.pickle")
    subprocess.run([acre, "export", "--force", "--format", "memory_viz", "-o", out, path], check=True)
    snapshot = load(out)
    entries = sum(len(trace) for trace in snapshot["device_traces"])
    summary, text = viz.segsum(snapshot), viz.trace(snapshot)
    check(f"{path}: segsum", f"segments: {len(snapshot['segments'])}" in summary)
    check(f"{path}: trace", f"{max(len(t) for t in snapshot['device_traces'])} entries" in text)
    lines = viz.memory(snapshot, format_flamegraph=lambda lines: lines)
    check(f"{path}: memory", sum(int(line.rsplit(" ", 1)[1]) for line in lines.splitlines())
          == sum(s["total_size"] for s in snapshot["segments"]))
    check(f"{path}: trace_plot", "<html>" in viz.trace_plot(snapshot))
    if hasattr(viz, "segment_plot"):
        check(f"{path}: segment_plot", "<html>" in viz.segment_plot(snapshot))
    if is_pickle(path):
        wanted, found = counts(load(path)), counts(snapshot)
        check(f"{path}: {found}, not {wanted}", found == wanted)
    print(f"{path}: {entries} entries, {len(snapshot['segments'])} segments", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        files = sys.argv[2:]
        if torch.cuda.is_available():
            files.append(os.path.join(folder, "torch.pickle"))
            record(files[-1])
            profile()
        if not files:
            print("skipped: no TRACE given, and no GPU to record one")
            sys.exit(SKIPPED)
        for path in files:
            try_file(sys.argv[1], path, folder)
    print("failed" if failures else f"PyTorch {torch.__version__} reads {len(files)} exports")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
