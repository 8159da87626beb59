#!/usr/bin/env python3
"""Runs the models of this folder with PyTorch's allocators and with acre, and compares them.

    tests/gpu/models/models_compare.py BUILD [--output FILE] [MODEL...]

BUILD is the folder of the build; its python/acre is used. A model passes if every allocator gives the same
checksum of losses. Prints a table, and "passed P failed F skipped S" last. FILE gets the figures as JSON; if OUT
names a folder, OUT/models.json does, too. Exit status: 1 if a model failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

MODELS = ("unet", "kv")
ALLOCATORS = ("native", "expandable", "acre")
RUN_SECONDS = 90
SKIPPED = 77


def run(model, allocator, build, path):
    """Returns the figures of a run; None if it was skipped; a text if it failed."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([os.path.join(build, "python"), os.environ.get("PYTHONPATH", "")])
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{model}.py")
    command = [sys.executable, program, "--allocator", allocator, "--json", path]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace",
                              timeout=RUN_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {RUN_SECONDS} s"
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


def main():
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--output")
    args = parser.parse_args()
    if not set(args.models) <= set(MODELS):
        parser.error(f"the models are: {', '.join(MODELS)}")
    figures, table, counts = {}, [], {"passed": 0, "failed": 0, "skipped": 0}
    for model in args.models:
        rows = {}
        with tempfile.TemporaryDirectory() as folder:
            for allocator in ALLOCATORS:
                rows[allocator] = run(model, allocator, os.path.abspath(args.build), os.path.join(folder, "figures"))
        good = {allocator: row for allocator, row in rows.items() if isinstance(row, dict)}
        for allocator, row in rows.items():
            if isinstance(row, str):
                print(f"{model} {allocator}: FAILED: {row}", flush=True)
            elif row:
                table.append(line(model, allocator, row, good.get("native")))
        same = len({row["checksum"] for row in good.values()}) == 1
        result = "skipped" if not any(rows.values()) else "passed" if len(good) == 3 and same else "failed"
        if good and not same:
            print(f"{model}: FAILED: the checksums differ")
        counts[result] += 1
        figures[model] = good
    print(f"{'model':6}{'allocator':12}{'live MiB':>10}{'held MiB':>10}{'device MiB':>12}{'device/live':>13}"
          f"{'step ms':>10}{'/ native':>10}  checksum")
    print("\n".join(table))
    folder = os.environ.get("OUT")
    for path in [args.output, os.path.join(folder, "models.json") if folder else None]:
        if path:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(figures, file, indent=2)
    print(" ".join(f"{name} {count}" for name, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
