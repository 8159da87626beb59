#!/usr/bin/env python3
"""Suspends programs under `acre run` in the middle of their work: they must print what they print without acre.

    tests/gpu/suspend_programs.py BUILD    BUILD is the folder of the tool

Uses PyTorch, CuPy and JAX, and nvcc and CUPTI to count launches that go around acre's hooks. The last line
printed is "passed P failed F skipped S".
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

# A program prints "ready", works for a few seconds, and prints its result.
PROGRAMS = {
    "torch": """
import torch, time
torch.manual_seed(1)
kept = torch.randint(0, 1 << 30, (1 << 29,), device="cuda", dtype=torch.int32)
w = torch.randn(2048, 2048, device="cuda") / 45
x = torch.randn(2048, 2048, device="cuda")
s = torch.zeros(1000, device="cuda"); one = torch.ones(1000, device="cuda")
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g): s += one
begin = time.time(); print("ready", flush=True)
for i in range(ROUNDS):
    x = (x @ w).tanh() + torch.from_numpy(__import__("numpy").full((2048,), i % 7, "f4")).cuda()
    y = torch.empty(1000 * (i % 50 + 1), device="cuda").fill_(i); s[0] += y[-1]
    g.replay()
    if i % 10 == 0: float(x[0, 0].item())
    time.sleep(0.01)
torch.cuda.synchronize()
print(float(x.double().sum()), float(s.double().sum()), int(kept.long().sum()))
""",
    "cupy": """
import cupy, time
kept = cupy.random.RandomState(1).randint(0, 1 << 30, 1 << 28)
x = cupy.random.RandomState(2).rand(1024, 1024); s = cupy.zeros(1000)
float(x.sum())
print("ready", flush=True)
for i in range(ROUNDS):
    x = cupy.tanh(x @ x / 256 + i % 7)
    s += cupy.full(1000, i)
    if i % 10 == 0: cupy.asnumpy(x[:4])
    time.sleep(0.01)
print(float(x.sum()), float(s.sum()), int(kept.sum()))
""",
    "jax": """
import jax, jax.numpy as jnp, time
step = jax.jit(lambda x, i: jnp.tanh(jnp.dot(x, x, precision="highest") / 32 + i))
kept = jax.random.randint(jax.random.PRNGKey(2), (1 << 28,), 0, 1 << 20)
x = jax.random.normal(jax.random.PRNGKey(1), (1024, 1024))
x = step(x, 1.0).block_until_ready()
print("ready", flush=True)
for i in range(ROUNDS):
    x = step(x, float(i % 7))
    if i % 10 == 0: float(x[0, 0])
    time.sleep(0.01)
print(float(x.sum()), int(kept.sum()))
""",
}
JAX = {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".05", "XLA_FLAGS": "--xla_gpu_autotune_level=0"}
CASES = [
    # name, program, variables, GiB that must leave (JAX: only what its libraries allocate; the rest is its own)
    ("torch", "torch", {}, 2),
    ("torch without its cache", "torch", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, 2),
    ("cupy", "cupy", {}, 2),
    ("jax", "jax", JAX, 0),
    ("jax, platform", "jax",
     dict(JAX, XLA_PYTHON_CLIENT_ALLOCATOR="platform", XLA_PYTHON_CLIENT_PREALLOCATE="false"), 0),
]
ROUNDS = 250
counts = {"passed": 0, "failed": 0, "skipped": 0}
build = os.path.abspath(sys.argv[1])
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
acre = os.path.join(build, "acre")


def check(what, is_true, more=""):
    counts["passed" if is_true else "failed"] += 1
    if not is_true:
        print(f"FAILED: {what} {more}", flush=True)


def used_mib():
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(query, capture_output=True, text=True).stdout.split()[0])


def tool(*words):
    """Runs acre and returns its exit status, its JSON and its messages."""
    done = subprocess.run([acre, *words], capture_output=True, text=True, timeout=100)
    try:
        return done.returncode, json.loads(done.stdout), done.stderr
    except ValueError:
        return done.returncode, {}, done.stdout + done.stderr


def start(program, variables, prefix):
    return subprocess.Popen([*prefix, "python3", "-W", "ignore", "-c", program.replace("ROUNDS", str(ROUNDS))],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables})


def finish(process):
    try:
        return process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def cycle(name, process, gib, *options):
    """Suspends the process, checks that its memory has left, and resumes it."""
    before = used_mib()
    begin = time.time()
    rc, suspended, said = tool("suspend", "--json", *options, str(process.pid))
    middle = time.time()
    check(f"{name}: suspend", rc == 0, said)
    if rc:
        return
    away = used_mib()
    time.sleep(0.3)
    _, listed, _ = tool("ps", "--json")
    state = [p.get("state") for p in listed.get("processes", []) if p.get("pid") == process.pid]
    check(f"{name}: ps says suspended", state == ["suspended"], state)
    released = suspended["released_bytes"]
    check(f"{name}: bytes released", released >= gib << 30, released)
    # The driver takes a few MiB for the first suspend.
    check(f"{name}: card", before - away >= (released >> 20) * 0.98 - 16, f"{before} {away} {released}")
    stays = suspended["stays"]
    check(f"{name}: what stays is known", 100 << 20 < (stays["other_bytes"] or 0) < 1 << 30, stays)
    begin_resume = time.time()
    rc, _, said = tool("resume", "--json", str(process.pid))
    check(f"{name}: resume", rc == 0, said)
    print(f"{name}: {before} MiB on the card, {away} while suspended; {released >> 20} MiB away in "
          f"{middle - begin:.2f} s ({suspended['seconds']:.2f} in the program), back in {time.time() - begin_resume:.2f} s; "
          f"stays {json.dumps(suspended['stays'])}", flush=True)


def suspend_case(name, program, variables, gib, native):
    process = start(PROGRAMS[program], variables, [acre, "run", "--"])
    line = process.stdout.readline()
    check(f"{name}: ready", line == "ready\n", line)
    if line == "ready\n":
        time.sleep(0.5)
        cycle(name, process, gib)
        time.sleep(0.5)
        cycle(name, process, gib, "--retain")
        time.sleep(0.5)
        cycle(name, process, gib, "--retain")
    out, err = finish(process)
    check(f"{name}: ends well", process.returncode == 0, err[-1500:])
    check(f"{name}: same result", out == native, f"{out!r}, not {native!r}")


def count_case(name, program, variables, folder):
    """Counts launches and copies that did not come through the shim."""
    library = os.path.join(folder, "libcount.so")
    if not os.path.exists(library):
        toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
        extra = os.path.join(toolkit, "extras/CUPTI")
        done = subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, f"{root}/tests/gpu/programs/count_launches.c",
                               f"-I{toolkit}/include", f"-I{extra}/include", f"-L{extra}/lib64", f"-L{toolkit}/lib64",
                               f"-Wl,-rpath,{extra}/lib64:{toolkit}/lib64", "-lcupti"], capture_output=True, text=True)
        if done.returncode:
            counts["skipped"] += 1
            print(f"CUPTI: {done.stderr[-500:]}")
            return
    process = start(PROGRAMS[program], {**variables, "LD_PRELOAD": library}, [acre, "run", "--"])
    _, err = finish(process)
    lines = [line.split() for line in err.splitlines() if line.startswith("count ")]
    through, past = sum(int(w[2]) for w in lines), sum(int(w[3]) for w in lines)
    print(f"{name}: CUPTI saw {through} calls through the hooks, {past} past them: "
          f"{', '.join(w[1] + ' ' + w[3] for w in lines if int(w[3])) or 'none'}", flush=True)
    check(f"{name}: counted", through > ROUNDS, err[-1500:])
    check(f"{name}: none past the hooks", past == 0)


def main():
    natives = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, program, variables, gib in CASES:
            if importlib.util.find_spec(program) is None:
                counts["skipped"] += 1
                print(f"{program}: not installed")
                continue
            if program not in natives:
                process = start(PROGRAMS[program], variables, [])
                process.stdout.readline()
                natives[program] = finish(process)[0]
                print(f"{program}: {natives[program].strip()}", flush=True)
                check(f"{program} without acre", natives[program] != "")
                count_case(program, program, variables, folder)
            suspend_case(name, program, variables, gib, natives[program])
    print(f"passed {counts['passed']} failed {counts['failed']} skipped {counts['skipped']}")


main()
