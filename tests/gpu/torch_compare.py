#!/usr/bin/env python3
"""PyTorch on its own allocator and on acre's pool, compared on this machine's GPU.

    torch_compare.py FOLDER PLUG [--seconds N] [--rounds N] [--output FILE]

FOLDER has work.py, which is called as `work.py LABEL native|plug CASE,...` and prints a line for each
case; PLUG is the library that puts acre under PyTorch (acre_torch.c of the same folder). Each round runs
the case frag, training steps of random lengths, with PyTorch's allocator, with its expandable segments and
with acre. The script runs as many rounds as fit into the time, then gpt and captures once with acre.

Prints the output of work.py, and a table at the end. Exit status: 1 if a case failed, 77 without PyTorch or
a GPU that it can use.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

WAYS = ["native", "expandable", "plug"]
RUN_SECONDS = 120  # far more than any case needs
SKIPPED = 77

FRAG = re.compile(r"frag: \d+ steps .* in ([0-9.]+) s, losses (\w+);")
OF_TORCH = re.compile(r"torch reserved (\d+) MiB, allocated (\d+) MiB")
OF_ACRE = re.compile(r"acre held (\d+) MiB, live (\d+) MiB")
PEAK_OF_ACRE = re.compile(r"held_peak_bytes=(\d+)")
GRAPH = re.compile(r"graph(?:warm)?: captured .* differ (\d+) of \d+, .* overwrote (\d+)$")


def has_torch():
    """Returns whether PyTorch is installed and finds the GPU."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def run(args, way, cases):
    """Returns the lines that work.py prints, or None if it failed."""
    environment = dict(os.environ)
    if way == "expandable":
        environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    if way == "plug":
        environment["ACRE_TORCH"] = os.path.abspath(args.plug)
    command = [sys.executable, "work.py", way, "plug" if way == "plug" else "native", cases]
    try:
        done = subprocess.run(
            command, cwd=args.folder, env=environment, timeout=RUN_SECONDS, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        print(f"{way} {cases}: not done after {RUN_SECONDS} s", flush=True)
        return None
    print(done.stdout, end="", flush=True)
    return done.stdout.splitlines() if done.returncode == 0 else None


def frag(args, way):
    """Returns seconds, peak MiB held and live, and a hash of the losses; None if the case failed."""
    result = None
    for line in run(args, way, "frag") or []:
        took, memory = FRAG.search(line), (OF_ACRE if way == "plug" else OF_TORCH).search(line)
        peak = PEAK_OF_ACRE.search(line)
        if took and memory:
            result = {"seconds": float(took[1]), "losses": took[2], "held_mib": int(memory[1]),
                      "live_mib": int(memory[2])}
        if result and peak:  # acre's figure above is sampled between steps only
            result["held_mib"] = int(peak[1]) >> 20
    return result


def frag_rounds(args):
    """Returns the results by way; a failed run is None."""
    results = {way: [] for way in WAYS}
    begin = time.monotonic()
    longest = 0.0
    for _ in range(args.rounds):
        start = time.monotonic()
        if start - begin + longest > args.seconds:
            break
        for way in WAYS:
            results[way].append(frag(args, way))
        longest = max(longest, time.monotonic() - start)
    return results


def others(args):
    """Runs gpt and captures with acre. Returns for each whether it passed, and its line."""
    results = {}
    lines = run(args, "plug", "gpt,graphwarm,graph") or []
    for name in ["gpt", "graphwarm", "graph"]:
        line = next((l for l in lines if l.startswith(f"plug {name}: ")), "no result")
        graph = GRAPH.search(line)
        good = "FAILED" not in line and line != "no result"
        if name != "gpt":
            good = bool(graph) and graph[1] == "0" and graph[2] == "0"
        results[name] = {"good": good, "line": line}
    return results


def summary(results):
    """Returns the medians of the rounds that passed, by way."""
    rows = {}
    for way, runs in results.items():
        good = [r for r in runs if r]
        if good:
            rows[way] = {key: statistics.median(r[key] for r in good)
                         for key in ("seconds", "held_mib", "live_mib")}
            if way == "plug" and "live_mib" in rows.get("expandable", {}):
                rows[way]["live_mib"] = rows["expandable"]["live_mib"]  # as PyTorch counts it
            rows[way]["held_to_live"] = rows[way]["held_mib"] / max(1, rows[way]["live_mib"])
            rows[way]["losses"] = "/".join(sorted({r["losses"] for r in good}))
        rows.setdefault(way, {}).update(runs=len(good), failed=len(runs) - len(good))
    return rows


def print_table(rows, more):
    """Prints the medians of frag and the results of the other cases."""
    native = rows["native"].get("seconds")
    print(f"\n{'frag':12}{'runs':>5}{'failed':>8}{'median s':>10}{'/ native':>10}{'held MiB':>10}"
          f"{'live MiB':>10}{'held/live':>11}  losses")
    for way, row in rows.items():
        if "seconds" not in row:
            print(f"{way:12}{row['runs']:5}{row['failed']:8}")
            continue
        ratio = f"{row['seconds'] / native:.3f}" if native else "-"
        print(f"{way:12}{row['runs']:5}{row['failed']:8}{row['seconds']:10.2f}{ratio:>10}"
              f"{row['held_mib']:10.0f}{row['live_mib']:10.0f}{row['held_to_live']:11.3f}  {row['losses']}")
    for name, result in more.items():
        print(f"{name:12}{'ok' if result['good'] else 'FAILED'}", flush=True)


def main():
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("plug")
    parser.add_argument("--seconds", type=float, default=280)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output")
    args = parser.parse_args()
    if not has_torch():
        print("torch_compare: skipped: PyTorch with a usable GPU is not installed")
        return SKIPPED
    results = frag_rounds(args)
    more = others(args)
    rows = summary(results)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as out:
            json.dump({"frag": rows, "frag_runs": results, "others": more}, out, indent=2)
    print_table(rows, more)
    bad = sum(row["failed"] for row in rows.values()) + sum(not r["good"] for r in more.values())
    return 1 if bad else 0


sys.exit(main())
