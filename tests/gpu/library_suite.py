#!/usr/bin/env python3
"""Programs of well-known libraries on acre: what they compute must be what they compute without it.

    library_suite.py [BUILD] [--only NAME,...] [--output FILE]

BUILD is a build folder of acre (default: build/gpu). Each case of library_cases.py runs in processes of its own:
on PyTorch's allocator (native), with acre.torch.use(), and under `acre run` with PyTorch's cache (serve) and without
it (nocache-serve). A library that is not installed counts as skipped.

Prints a line for each process, with the most that PyTorch's allocator or acre held and the most that was live, and
"passed P failed F skipped S" last. FILE gets all of it as JSON. Exit status: 1 if a case failed.
"""

import argparse
import importlib.util
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from torch_turns import WAYS

HERE = pathlib.Path(__file__).resolve().parent
CASE_SECONDS = 150
AT_ONCE = 6
ALL = ("native", "use", "serve", "nocache-serve")

# Name, the modules that it needs, ways, and the largest relative difference of its results. Zero where all kernels
# are deterministic; others add in an order of their own in each run.
CASES = [
    ("trainer", ("transformers", "accelerate"), ALL, 0),
    ("generate", ("transformers",), ALL, 0),
    ("lightning", ("pytorch_lightning",), ALL, 0),
    ("resnet", ("torchvision",), ALL, 0),
    ("detection", ("torchvision",), ALL, 2e-2),
    ("geometric", ("torch_geometric",), ALL, 1e-3),
    ("gaussian_process", ("gpytorch",), ALL, 1e-2),
    ("batch_size", ("accelerate",), ("native", "use"), 0),
    ("numpyro", ("numpyro", "jax"), ("native", "serve"), 0.2),  # rounding may send a chain elsewhere
]


def run(args, case, way):
    """Runs one case on one way; returns its figures, or a text if it failed."""
    options, variables = WAYS[way]
    environment = dict(os.environ, PYTHONPATH=str(args.build / "python"), CUBLAS_WORKSPACE_CONFIG=":4096:8",
                       XLA_PYTHON_CLIENT_PREALLOCATE="false", XLA_FLAGS="--xla_gpu_autotune_level=0",
                       TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1", **variables)
    prefix = [] if options is None else [str(args.build / "acre"), "run", *options, "--"]
    start = time.monotonic()
    process = subprocess.Popen([*prefix, sys.executable, "-W", "ignore", str(HERE / "library_cases.py"), case, way],
                               env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=CASE_SECONDS)
        said = f"exit status {process.returncode}\n{output[-2500:]}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # workers of data loaders, too
        output, said = process.communicate()[0], f"not done after {CASE_SECONDS} s"
    seconds = time.monotonic() - start
    line = next((l for l in reversed(output.splitlines()) if l.startswith("{")), "")
    figures = json.loads(line) if line and process.returncode == 0 else said
    is_good = isinstance(figures, dict)
    print(f"{case:18}{way:15}{seconds:6.1f} s  " + (
        f"live {figures['live_mib']} MiB, held {figures['held_mib']} MiB, {figures['result']}" if is_good
        else f"FAILED: {said}"), flush=True)
    return figures


def differ(a, b, tolerance):
    """Returns whether two results differ by more than the tolerance."""
    if isinstance(a, list):
        return not isinstance(b, list) or len(a) != len(b) or any(differ(x, y, tolerance) for x, y in zip(a, b))
    if isinstance(a, float) and tolerance:
        return not math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    return a != b


def main():
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=HERE.parent.parent / "build" / "gpu")
    parser.add_argument("--only", default="")
    parser.add_argument("--output", type=pathlib.Path)
    args = parser.parse_args()
    args.build = args.build.resolve()
    names = set(filter(None, args.only.split(",")))
    passed = failed = skipped = 0
    jobs, results = [], {}
    for case, modules, ways, tolerance in CASES:
        if names and case not in names:
            continue
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        if missing:
            print(f"{case}: {', '.join(missing)} not installed")
            skipped += 1
        else:
            jobs += [(case, way, tolerance) for way in ways]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (case, way, tolerance), figures in zip(jobs, pool.map(lambda job: run(args, *job[:2]), jobs)):
            results.setdefault(case, {})[way] = figures
            native = results[case]["native"]
            is_good = isinstance(figures, dict) and isinstance(native, dict)
            if is_good and differ(native["result"], figures["result"], tolerance):
                print(f"{case} {way}: FAILED: {figures['result']}, without acre {native['result']}", flush=True)
                is_good = False
            passed, failed = passed + is_good, failed + (not is_good)
    if args.output:
        args.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"passed {passed} failed {failed} skipped {skipped}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
