#!/usr/bin/env python3
"""Runs the models of this folder with PyTorch's allocators and with acre, and compares them.

    tests/gpu/models/models_compare.py BUILD [--output FILE] [MODEL...]

BUILD is the folder of the build; its python/acre is used. A model passes if every allocator gives the same
checksum of losses. Prints a table, and "passed P failed F skipped S" last. FILE gets the figures as JSON; if OUT
names a folder, OUT/models.json does, too: both after each run, so that a run that takes too long costs no figures.
Exit status: 1 if a model failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

MODELS = ("unet", "kv")
ALLOCATORS = ("native", "acre", "expandable")  # the last is the first to miss if time runs out
RUN_SECONDS = 120
ALL_SECONDS = 340
SKIPPED = 77


def run(model, allocator, build, path, left):
    """Returns the figures of a run; None if it was skipped; a text if it failed. `left`: seconds for it."""
    seconds = min(RUN_SECONDS, left)
    if seconds < 10:
        return f"not run: {ALL_SECONDS} s are over"
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([os.path.join(build, "python"), os.environ.get("PYTHONPATH", "")])
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{model}.py")
    command = [sys.executable, program, "--allocator", allocator, "--json", path]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace",
                              timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {seconds:.0f} s"
    print(done.stdout, end="", flush=True)
    if done.returncode == SKIPPED:
        return None
    if done.returncode != 0:
        return f"exit status {done.returncode}: {done.stderr[-1500:]}"
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def line(model, allocator, row, native):
    """A line of the table."""
    ratio = row["step_median_ms"] / native["step_median_ms"] if native else float("nan")
    return (f"{model:6}{allocator:12}{row['live_peak_mib']:10}{row['held_peak_mib']:10}{row['device_peak_mib']:12}"
            f"{row['device_to_live']:13.3f}{row['step_median_ms']:10.2f}{ratio:10.3f}  {row['checksum']}")


def run_all(models, build, paths):
    """Runs each model with each allocator. Returns the results by model and allocator, as run() returns them."""
    rows = {model: {} for model in models}
    end = time.monotonic() + ALL_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        for allocator in ALLOCATORS:
            for model in models:
                left = end - time.monotonic()
                row = rows[model][allocator] = run(model, allocator, build, os.path.join(folder, "figures"), left)
                if isinstance(row, str):
                    print(f"{model} {allocator}: FAILED: {row}", flush=True)
                good = {model: {name: found for name, found in by.items() if isinstance(found, dict)}
                        for model, by in rows.items()}
                for path in paths:
                    with open(path, "w", encoding="utf-8") as file:
                        json.dump(good, file, indent=2)
    return rows


def judge(model, rows):
    """Returns "passed", "failed" or "skipped" for a model."""
    good = [row for row in rows.values() if isinstance(row, dict)]
    if not any(rows.values()):
        return "skipped"
    if len({row["checksum"] for row in good}) > 1:
        print(f"{model}: FAILED: the checksums differ")
        return "failed"
    return "passed" if len(good) == len(ALLOCATORS) else "failed"


def main():
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--output")
    args = parser.parse_args()
    if not set(args.models) <= set(MODELS):
        parser.error(f"the models are: {', '.join(MODELS)}")
    folder = os.environ.get("OUT")
    paths = [path for path in (args.output, os.path.join(folder, "models.json") if folder else None) if path]
    rows = run_all(args.models, os.path.abspath(args.build), paths)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for model, by in rows.items():
        counts[judge(model, by)] += 1
    print(f"{'model':6}{'allocator':12}{'live MiB':>10}{'held MiB':>10}{'device MiB':>12}{'device/live':>13}"
          f"{'step ms':>10}{'/ native':>10}  checksum")
    for model, by in rows.items():
        native = by["native"] if isinstance(by["native"], dict) else None
        for allocator, row in by.items():
            if isinstance(row, dict):
                print(line(model, allocator, row, native))
    print(" ".join(f"{name} {count}" for name, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
