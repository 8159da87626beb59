#!/usr/bin/env python3
"""Trains the models of work.py with several allocators at the same time, in turns.

    torch_turns.py BUILD FOLDER

FOLDER has work.py; BUILD is a build folder of acre. Each allocator has a process, and the processes take turns of
a few steps on the same cores, so that a change of the machine's speed hits all of them. Prints the figures as JSON
in its last line.

Random lengths: 200 steps; the time of all turns, the most that the allocator held, and the most that was live.
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

WAYS = ("native", "use", "expandable")
CORES = 4
MARK = "TURN "
# Rounds, and the steps of a turn.
FRAG = (10, 20)
GPT = (10, 5)
GPT_WARM = 15


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
        times = []
        for _ in range(steps + 1):
            x = self.tokens(16, 512)
            self.torch.cuda.synchronize()
            begin = time.perf_counter()
            loss = self.step("gpt", x)
            self.torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        self.hash.update(struct.pack("<d", loss.item()))
        return {"times": times[1:]}

    def serve(self):
        """Does what the lines of standard input say."""
        print(MARK + "{}", flush=True)
        for line in sys.stdin:
            name, steps = line.split()
            result = {"frag": self.frag, "gpt": self.gpt}[name](int(steps))
            result["losses"] = self.hash.hexdigest()[:12]
            print(MARK + json.dumps(result), flush=True)


class Way:
    """The parent's side of a child."""

    def __init__(self, way, build, work):
        environment = dict(os.environ, PYTHONPATH=str(build / "python"), CUBLAS_WORKSPACE_CONFIG=":4096:8")
        if way == "expandable":
            environment["PYTORCH_CUDA_ALLOC_CONF"] = environment["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        self.way = way
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--child", way, str(work)], env=environment, text=True,
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
    for i in range(rounds):
        first = i % len(ways)
        for way in ways[first:] + ways[:first]:
            answers[way.way].append(way.ask(name, steps))
    return answers


def measure(build, work):
    """Returns the figures of each way."""
    ways = [Way(way, build, work) for way in WAYS]
    try:
        for way in ways:
            way.answer()
        frag = run_turns(ways, "frag", *FRAG)
        run_turns(ways, "gpt", 1, GPT_WARM)
        gpt = run_turns(ways, "gpt", *GPT)
    finally:
        for way in ways:
            way.process.kill()
        for way in ways:
            way.process.wait()  # the card is free then
    return {way: {
        "gpt_step_ms": round(statistics.median(t for turn in gpt[way] for t in turn["times"]) * 1e3, 2),
        "gpt_least_ms": round(min(t for turn in gpt[way] for t in turn["times"]) * 1e3, 2),
        "frag_seconds": round(sum(turn["seconds"] for turn in frag[way]), 2),
        # The first turn also loads kernels, for the first process from the disk.
        "frag_first_seconds": round(frag[way][0]["seconds"], 2),
        "frag_held_mib": frag[way][-1]["held"] >> 20, "frag_live_mib": frag[way][-1]["live"] >> 20,
        "losses": gpt[way][-1]["losses"]} for way in WAYS}


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
        print(json.dumps(measure(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
