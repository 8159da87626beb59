#!/usr/bin/env python3
"""What `acre run` costs a program: figures beside the driver's, in rounds that take turns.

    run_figures.py BUILD STATIC SHARED [--work FOLDER] [--output FILE]

BUILD is a build folder of acre. STATIC and SHARED are run_cost.cu, compiled with either CUDA runtime. FOLDER has
work.py, whose models torch_turns.py trains with PyTorch; without it, these figures are left out. Prints a table, and
writes it to FILE in the format of bench/results. Exit status: 1 if a program failed, or losses differ.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# The column, and the options of `acre run`; None: without it.
WAYS = (("driver", None), ("acre run", []), ("--free=defer", ["--free=defer"]), ("--watch", ["--watch"]))
ROUNDS = 3
FIRST_ROUNDS = 7
TRUE_ROUNDS = 30
TORCH_WAYS = ("native", "again", "serve", "watch", "nocache", "nocache-serve", "nocache-defer")
TORCH_SECONDS = 170


class Failure(Exception):
    """A program that did not do what it should."""


def prefix(args, options):
    """Returns the words before a program's own."""
    return [] if options is None else [str(args.build / "acre"), "run", *options, "--"]


def output_of(command, seconds):
    """Runs a program and returns its standard output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{command}: not done after {seconds} s") from error
    if done.returncode:
        raise Failure(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"[-3000:])
    return done.stdout


def microseconds(text):
    """Returns the figures of run_cost by their names."""
    return {name.strip(): float(value) for name, value in re.findall(r"^(.+?) +([0-9.]+) us$", text, re.M)}


def in_turns(rounds, ways, measure):
    """Returns the list of what measure(way) returned for each way, one round after the other."""
    found = {way: [] for way in ways}
    for i in range(rounds):
        for j in range(len(ways)):
            way = ways[(i + j) % len(ways)]
            found[way].append(measure(way))
    return found


def cell(values, digits):
    """Median, and the least and most."""
    median, least, most = (f"{v:,.{digits}f}" for v in (statistics.median(values), min(values), max(values)))
    return f"{median} ({least} - {most})"


def cost_rows(args):
    """Pairs and the first cudaMalloc, with both runtimes."""
    rows, programs = [], {"static": args.static, "shared": args.shared}
    ways = [(kind, column) for kind in programs for column, _ in WAYS]
    options = dict(WAYS)

    def run(way, *mode):
        kind, column = way
        return microseconds(output_of([*prefix(args, options[column]), str(programs[kind]), *mode], 60))

    pairs = in_turns(ROUNDS, ways, run)
    firsts = in_turns(FIRST_ROUNDS, ways, lambda way: run(way, "first"))
    for kind in programs:
        for name in pairs[kind, "driver"][0]:
            if name.startswith("pair"):
                rows.append([f"{name}, {kind} runtime, us"] +
                            [cell([found[name] for found in pairs[kind, column]], 2) for column, _ in WAYS])
        for name in firsts[kind, "driver"][0]:
            rows.append([f"{name}, {kind} runtime, us"] +
                        [cell([found[name] for found in firsts[kind, column]], 0) for column, _ in WAYS])
    return rows


def true_row(args):
    """Start and end of a program that does nothing."""
    options = dict(WAYS)

    def run(column):
        begin = time.perf_counter()
        output_of([*prefix(args, options[column]), "/bin/true"], 20)
        return (time.perf_counter() - begin) * 1e6

    found = in_turns(TRUE_ROUNDS, [column for column, _ in WAYS], run)
    return ["start and end of /bin/true, us"] + [cell(found[column], 0) for column, _ in WAYS]


def torch_rows(args):
    """PyTorch, with and without its cache."""
    said = output_of([sys.executable, str(HERE / "torch_turns.py"), str(args.build), str(args.work), *TORCH_WAYS],
                     TORCH_SECONDS)
    found = json.loads(said.splitlines()[-1])
    print("torch: " + json.dumps(found), flush=True)
    for name in ("gpt_losses", "frag_losses"):
        if len({figures[name] for figures in found.values() if name in figures}) != 1:
            raise Failure(f"{name} differ")

    def step(way):
        return cell(found[way]["gpt_turns_ms"], 2)

    frag = found["nocache-serve"]
    return [
        ["PyTorch step, its cache on, ms", step("native"), step("serve"), "", step("watch")],
        ["the same, driver again, ms", step("again"), "", "", ""],
        ["PyTorch step, its cache off, ms", step("nocache"), step("nocache-serve"), step("nocache-defer"), ""],
        ["random lengths, its cache off: time, s", "", frag["frag_seconds"], "", ""],
        ["random lengths, its cache on: time, s", found["native"]["frag_seconds"], "", "", ""],
        ["random lengths, its cache on: taken by the process, MiB", found["native"]["frag_own_mib"], "", "", ""],
        ["random lengths, its cache off: taken by the process, MiB", "", frag["frag_own_mib"], "", ""],
        ["random lengths: live, MiB", found["native"]["frag_live_mib"], "", "", ""],
    ]


def main():
    """Measures all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("static", type=pathlib.Path)
    parser.add_argument("shared", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path)
    args = parser.parse_args()
    rows, status = [], 0
    parts = [cost_rows, lambda args: [true_row(args)]] + ([torch_rows] if args.work else [])
    for part in parts:
        begin = time.monotonic()
        try:
            rows += part(args)
        except (Failure, ValueError, KeyError) as error:
            print(f"FAILED: {error!r}", flush=True)
            status = 1
        print(f"{time.monotonic() - begin:.0f} s", flush=True)
        table = {"schema": "acre-table/1", "columns": ["case"] + [column for column, _ in WAYS], "rows": rows}
        if args.output:
            args.output.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    for row in rows:
        print(" | ".join(str(value) for value in row))
    return status


if __name__ == "__main__":
    sys.exit(main())
