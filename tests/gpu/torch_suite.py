#!/usr/bin/env python3
"""acre.torch and acre.saver with the installed PyTorch, on this machine's GPU.

    torch_suite.py [BUILD] [--work FOLDER] [--only NAME,...] [--output FILE]

BUILD is a build folder of acre (default: build/gpu, else build), with libacre.so, libacre_torch.so and
python/. FOLDER has work.py, whose models torch_turns.py trains; without it, these figures are left out.
Each case of torch_cases.py runs in a process of its own, on each of its ways. Cases that neither measure
a time nor need the whole card run beside each other.

Prints a line for each case, a table of figures, and "passed P failed F skipped S" last. FILE gets all of it
as JSON. Exit status: 1 if a case failed, 77 without PyTorch or a GPU that it can use.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SKIPPED = 77
CASE_SECONDS = 100
WORK_SECONDS = 200
ALL_SECONDS = 330  # later cases fail without a run, so that the results of the others are written
AT_ONCE = 4

# Case, ways, and whether its time or the memory of the whole card counts: then it runs alone.
CASES = [
    ("graph", ["use", "pool"], False),
    ("shared_graphs", ["use"], False),
    ("graphed_callables", ["use"], False),
    ("checkpoint", ["use"], False),
    ("dataloader", ["use"], False),
    ("streams", ["use"], False),
    ("cudnn_benchmark", ["use"], False),
    ("backward_pool", ["use", "pool"], False),
    ("statistics", ["use"], False),
    ("snapshot", ["use"], False),
    ("compiled", ["use", "pool"], False),
    ("out_of_memory", ["use", "pool"], True),
    ("host_pages", ["native"], True),
    ("saver", ["use", "pool"], True),
]


def has_torch():
    """Returns whether PyTorch is installed and finds the GPU."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def run(args, command, way, most=CASE_SECONDS):
    """Runs Python; returns its exit status, output and seconds."""
    environment = dict(os.environ, PYTHONPATH=str(args.build / "python"))
    environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # for results that are the same in each run
    if way == "expandable":
        environment["PYTORCH_CUDA_ALLOC_CONF"] = environment["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    start = time.monotonic()
    left = args.end - start
    if left < 5:
        return "no time", f"the suite has {ALL_SECONDS} s", 0.0
    try:
        done = subprocess.run([sys.executable, *command], env=environment, timeout=min(most, left), check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        status, output = "timeout", str(error.stdout or "")
    return status, output, time.monotonic() - start


def run_case(args, case, way):
    """Returns the result of one case on one way."""
    status, output, seconds = run(args, [str(HERE / "torch_cases.py"), case, way], way)
    result = {"case": case, "way": way, "good": status == 0, "seconds": round(seconds, 1)}
    # Libraries may print warnings behind it.
    line = next((l for l in reversed(output.splitlines()) if l.startswith("{")), "")
    try:
        result["figures"] = json.loads(line) if status == 0 else {}
    except ValueError:
        result["good"] = False
    if not result["good"]:
        result["said"] = f"exit status {status}\n{output[-3000:]}"
    print(f"{result['case']:20}{way:12}{'ok' if result['good'] else 'FAILED':8}{seconds:6.1f} s", flush=True)
    if not result["good"]:
        print(result["said"], flush=True)
    return result


def run_cases(args):
    """Runs all cases; those that need the card for themselves come last."""
    jobs = [(case, way, alone) for case, ways, alone in CASES for way in ways if args.wants(case)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda job: run_case(args, job[0], job[1]), [j for j in jobs if not j[2]]))
    return results + [run_case(args, case, way) for case, way, alone in jobs if alone]


def run_work(args):
    """Trains the models of work.py with each allocator. Their losses must be the same to the last bit."""
    if not args.work or not args.wants("work"):
        return []
    status, output, seconds = run(args, [str(HERE / "torch_turns.py"), str(args.build), str(args.work)], "native",
                                  WORK_SECONDS)
    print(f"{'work':32}{'ok' if status == 0 else 'FAILED':8}{seconds:6.1f} s", flush=True)
    line = next((l for l in reversed(output.splitlines()) if l.startswith("{")), "")
    if status or not line:
        print(output[-3000:], flush=True)
        return [{"case": "work", "way": "turns", "good": False, "seconds": round(seconds, 1)}]
    figures = json.loads(line)
    are_equal = all(len({found[name] for found in figures.values() if name in found}) == 1
                    for name in ("frag_losses", "gpt_losses"))
    if not are_equal:
        print(f"work: FAILED: the losses differ: {figures}", flush=True)
    return [{"case": "work", "way": way, "good": are_equal, "seconds": round(seconds, 1), "figures": found}
            for way, found in figures.items()]


def print_table(results):
    """Prints the figures that are measured on several ways."""
    work = {result["way"]: result["figures"] for result in results if result["case"] == "work" and "figures" in result}
    for way, found in work.items():
        native = work["native"]
        print(f"{way:12}GPT step {found['gpt_step_ms']:.2f} ms, {found['gpt_step_ms'] / native['gpt_step_ms']:.3f} x "
              f"native (least {found['gpt_least_ms']:.2f}, of it the host {found['gpt_host_ms']:.2f})", end="")
        print("" if "frag_seconds" not in found else
              f"; random lengths {found['frag_seconds']:.2f} s, {found['frag_seconds'] / native['frag_seconds']:.3f} x, "
              f"peak / live {found['frag_held_mib'] / max(1, found['frag_live_mib']):.3f}")
    for result in results:
        figures = result.get("figures")
        if result["case"] in ("host_pages", "saver") and figures:
            print(f"{result['way']:12}{result['case']}, {figures['gib']} GiB: " + ", ".join(
                f"{name} {value}" for name, value in figures.items() if name != "gib"))


def main():
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--output")
    args = parser.parse_args()
    if args.build is None:
        args.build = next((b for b in (ROOT / "build" / "gpu", ROOT / "build") if (b / "python").is_dir()), ROOT / "build")
    args.build = args.build.resolve()
    names = set(filter(None, args.only.split(",")))
    args.wants = lambda name: not names or name in names
    start = time.monotonic()
    args.end = start + ALL_SECONDS
    if not has_torch():  # the first import may take half a minute
        print("torch_suite: PyTorch with a usable GPU is not installed\npassed 0 failed 0 skipped 1")
        return SKIPPED
    results = run_work(args) + run_cases(args)
    print()
    print_table(results)
    failed = [f"{r['case']} ({r['way']})" for r in results if not r["good"]]
    print(f"\n{time.monotonic() - start:.0f} s" + ("; failed: " + ", ".join(failed) if failed else ""))
    print(f"passed {len(results) - len(failed)} failed {len(failed)} skipped 0")
    if args.output:
        with open(args.output, "w", encoding="utf-8") as out:
            json.dump(results, out, indent=2)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
