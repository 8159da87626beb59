#!/usr/bin/env python3
"""Trains the models of work.py with several allocators at the same time, in turns.

    torch_turns.py BUILD FOLDER [WAY...]

FOLDER has work.py; BUILD is a build folder of acre. Each way has a process, and the processes take turns of a few
steps on the same cores, so that a change of the machine's speed hits all of them. Prints the figures as JSON in its
last line. WAYS below says what the ways are; the default is native, use and expandable.

Random lengths (not all ways): 200 steps; the time of all turns, the most that the allocator held, and the most that was live.
GPT: the median of the steps at a fixed length. Checksums of losses must be the same with every allocator.
"""

import ctypes
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import signal
import statistics
import struct
import subprocess
import sys
import time

NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
EXPANDABLE = {name: "expandable_segments:True" for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")}
# Options of `acre run` (None: without it), and environment. "again" is native once more: their difference is noise.
WAYS = {
    "native": (None, {}),
    "again": (None, {}),
    "use": (None, {}),  # acre.torch.use()
    "expandable": (None, EXPANDABLE),
    "serve": ([], {}),
    "watch": (["--watch"], {}),
    "nocache": (None, NO_CACHE),
    "nocache-serve": ([], NO_CACHE),
    "nocache-defer": (["--free=defer"], NO_CACHE),
}
DEFAULT = ("native", "again", "use", "expandable")
# Ways that train random lengths, too. PyTorch's own allocator needs 33 GiB for them: the card has room for one or two.
FRAG_WAYS = ("native", "use", "expandable", "nocache-serve")
CORES = 4
MARK = "TURN "
# Rounds, and the steps of a turn.
FRAG = (10, 20)
GPT = (10, 5)
GPT_WARM = 15


def own_bytes():
    """Returns what NVML says that this process has on the GPU; 0 if it does not say."""
    try:
        answer = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                                capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    rows = [line.split(",") for line in answer.splitlines()]
    return sum(int(row[1]) << 20 for row in rows if len(row) == 2 and row[0].strip() == str(os.getpid())
               and row[1].strip().isdigit())


class Child:
    """The models, in the process of one allocator."""

    def __init__(self, work):
        sys.argv = ["work.py", "turns", "native", ""]  # no task: its functions only
        spec = importlib.util.spec_from_file_location("work", work / "work.py")
        self.work = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.work)
        self.torch = self.work.torch
        self.hash = hashlib.sha1()
        self.models = {}
        self.random = random.Random(5)
        self.data = self.torch.Generator().manual_seed(9)

    def tokens(self, batch, length):
        """Returns random data on the GPU."""
        return self.torch.randint(0, self.work.V, (batch, length + 1), generator=self.data).to("cuda")

    def step(self, name, x):
        """One step of training. Returns its loss, which is not computed yet."""
        if name not in self.models:
            self.models.clear()
            self.models[name] = self.work.make()
        model, optimizer = self.models[name]
        return self.work.step(model, optimizer, x[:, :-1], x[:, 1:])

    def frag(self, steps):
        """Steps of random lengths. Returns the seconds of all."""
        cuda = self.torch.cuda
        cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            length = self.random.randint(64, 2048)
            loss = self.step("frag", self.tokens(max(1, min(16, 8192 // length)), length))
        cuda.synchronize()
        seconds = time.perf_counter() - begin
        self.hash.update(struct.pack("<d", loss.item()))
        return {"seconds": seconds, "held": cuda.max_memory_reserved(), "live": cuda.max_memory_allocated()}

    def gpt(self, steps):
        """Steps of one length. Returns the seconds of each; the first of a turn is not measured."""
        times, host = [], []
        for _ in range(steps + 1):
            x = self.tokens(16, 512)
            self.torch.cuda.synchronize()
            begin = time.perf_counter()
            loss = self.step("gpt", x)
            queued = time.perf_counter()
            self.torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
            host.append(queued - begin)
        self.hash.update(struct.pack("<d", loss.item()))
        return {"times": times[1:], "host": host[1:]}

    def begin_gpt(self, steps):
        """The first steps of one length, with data and losses of their own."""
        self.hash = hashlib.sha1()
        self.data.manual_seed(7)
        return self.gpt(steps)

    def own(self, _steps):
        """What the process has on the card."""
        return {"own": own_bytes()}

    def serve(self):
        """Does what the lines of standard input say."""
        self.torch.ones(256, 256, device="cuda").sum().item()
        print(MARK + json.dumps(self.own(0)), flush=True)
        for line in sys.stdin:
            name, steps = line.split()
            result = getattr(self, name)(int(steps))
            result["losses"] = self.hash.hexdigest()[:12]
            print(MARK + json.dumps(result), flush=True)


class Way:
    """The parent's side of a child."""

    def __init__(self, way, build, work):
        options, variables = WAYS[way]
        environment = dict(os.environ, PYTHONPATH=str(build / "python"), CUBLAS_WORKSPACE_CONFIG=":4096:8", **variables)
        run = [] if options is None else [str(build / "acre"), "run", *options, "--"]
        self.way = way
        self.process = subprocess.Popen(
            [*run, sys.executable, __file__, "--child", way, str(work)], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answer(self):
        """Returns the child's next answer."""
        for line in self.process.stdout:
            if line.startswith(MARK):
                return json.loads(line[len(MARK):])
        raise RuntimeError(f"the process with {self.way} ended")

    def ask(self, name, steps):
        """Lets the child take a turn."""
        print(name, steps, file=self.process.stdin, flush=True)
        return self.answer()


def run_turns(ways, name, rounds, steps):
    """Returns the answers of each way."""
    answers = {way.way: [] for way in ways}
    order, pick = list(ways), random.Random(name)
    for _ in range(rounds):
        pick.shuffle(order)  # so that each comes after each other one
        for way in order:
            answers[way.way].append(way.ask(name, steps))
    return answers


def summary(frag, gpt, own):
    """Returns the figures of one way. `own`: bytes of its process before and after the random lengths."""
    times = [t for turn in gpt for t in turn["times"]]
    host = [t for turn in gpt for t in turn["host"]]
    turns = [statistics.median(turn["times"]) for turn in gpt]
    figures = {"gpt_step_ms": round(statistics.median(times) * 1e3, 2), "gpt_least_ms": round(min(times) * 1e3, 2),
               # The host's part: if it is nearly all of the step, the GPU waits for the host.
               "gpt_host_ms": round(statistics.median(host) * 1e3, 2), "gpt_host_least_ms": round(min(host) * 1e3, 2),
               "gpt_turns_ms": [round(t * 1e3, 2) for t in turns], "gpt_losses": gpt[-1]["losses"]}
    if frag:
        figures.update(
            frag_seconds=round(sum(turn["seconds"] for turn in frag), 2),
            # The first turn also loads kernels.
            frag_turns_seconds=[round(turn["seconds"], 2) for turn in frag],
            frag_held_mib=frag[-1]["held"] >> 20, frag_live_mib=frag[-1]["live"] >> 20,
            frag_own_mib=(own[1] - own[0]) >> 20, frag_losses=frag[-1]["losses"])
    return figures


def measure(build, work, names):
    """Returns the figures of each way."""
    ways = [Way(way, build, work) for way in names]
    try:
        own = {way.way: [way.answer()["own"]] for way in ways}
        frag = run_turns([way for way in ways if way.way in FRAG_WAYS], "frag", *FRAG)
        for way in ways:
            own[way.way].append(way.ask("own", 0)["own"])
        for way in ways:
            way.ask("begin_gpt", GPT_WARM)
        gpt = run_turns(ways, "gpt", *GPT)
    finally:
        for way in ways:
            way.process.kill()
        for way in ways:
            way.process.wait()  # the card is free then
    return {way: summary(frag.get(way), gpt[way], own[way]) for way in names}


def main():
    """Runs a child, or all of them."""
    if sys.argv[1] == "--child":
        way, work = sys.argv[2], pathlib.Path(sys.argv[3])
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a child that hangs ends with its parent
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
        if way == "use":
            import acre.torch

            acre.torch.use()
        Child(work).serve()
    else:
        build, work, names = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3:] or DEFAULT
        unknown = set(names) - set(WAYS)
        if unknown:
            sys.exit(f"torch_turns: unknown ways {sorted(unknown)}; the ways are {', '.join(WAYS)}")
        print(json.dumps(measure(build, work, names)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
