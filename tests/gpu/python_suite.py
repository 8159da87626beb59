#!/usr/bin/env python3
"""CuPy, Numba and JAX on acre, on this machine's GPU.

    tests/gpu/python_suite.py BUILD [GROUP...] [--output FILE]

BUILD is the folder of the build; its python/acre is used. The groups are those of `GROUPS`, by default all. Each
group runs in a process of its own, because a process has one allocator. A library that is not installed counts as
skipped. Prints a line for each check, the figures as JSON, and "passed P failed F skipped S" last. Figures are
also written to FILE and, if OUT names a folder, to OUT/python.json. Exit status: 1 if a check failed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time

ALL_SECONDS = 240  # groups that have not begun by then count as failed
SKIPPED = 77
MARK = "CHECK "  # begins a line with the result of a check
HERE = os.path.dirname(os.path.abspath(__file__))
NUMBA_COMPAT = {"PYTHONPATH": os.path.join(HERE, "numba_compat")}
NUMBA_SUITE = os.path.join(HERE, "..", "..", "python", "tests", "numba_suite.py")
# Fails with the memory of any pool: see python/tests/test_python_numba_suite.py.
NUMBA_KNOWN = {"numba.cuda.tests.cudadrv.test_host_alloc.TestHostAlloc.test_host_alloc_pinned"}

# ---- CuPy ----

KERNEL = r"""
extern "C" __global__ void put(unsigned *p, unsigned n, unsigned value, long long spin) {
    long long end = clock64() + spin;
    while (clock64() < end) { }
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] = value;
}
"""
WORDS = 1 << 16


def put(cupy, array, value, spin=0):
    """Queues work on the current stream that waits for `spin` cycles and then writes the array."""
    if not hasattr(put, "kernel"):
        put.kernel = cupy.RawKernel(KERNEL, "put")
        put.kernel.compile()
    import numpy

    put.kernel((8,), (256,), (array, numpy.uint32(array.size), numpy.uint32(value), numpy.int64(spin)))


def cupy_how():
    """CuPy calls the functions in C, with its current stream."""
    import acre.cupy

    how = acre.cupy.use().how
    assert how.startswith("c"), f"acre.cupy.use() fell back: {how}"
    return {"how": how}


def pair_ns(call, size, count=20_000):
    """The time of one call, whose result is freed at once."""
    begin = time.perf_counter_ns()
    for _ in range(count):
        call(size)
    return (time.perf_counter_ns() - begin) / count


def cupy_pair():
    """The cost of an allocation and its free, beside CuPy's own pools."""
    import acre.cupy
    import cupy

    own, asynchronous = cupy.cuda.MemoryPool(), cupy.cuda.MemoryAsyncPool()
    ways = {
        "own pool": lambda: cupy.cuda.set_allocator(own.malloc),
        "own async pool": lambda: cupy.cuda.set_allocator(asynchronous.malloc),
        "acre": acre.cupy.use,
        "acre, default stream only": lambda: acre.cupy.use(stream_ordered=False),
        "acre, Python functions": lambda: acre.cupy.use(stream_ordered="python"),
    }
    calls = {"alloc": cupy.cuda.alloc, "empty": lambda size: cupy.empty(size, "u1")}
    times = {}
    stream = cupy.cuda.Stream(non_blocking=True)
    for _ in range(5):
        for way, choose in ways.items():
            choose()
            for size in (512, 65536, 1 << 20):
                for name, call in calls.items():
                    pair_ns(call, size, 500)
                    times.setdefault((way, name, size), []).append(pair_ns(call, size, 10_000))
            with stream:
                pair_ns(cupy.cuda.alloc, 65536, 500)
                found = pair_ns(cupy.cuda.alloc, 65536, 10_000)
                times.setdefault((way, "alloc on a stream", 65536), []).append(found)
    acre.cupy.use()
    return {f"{way}, {name} {size}": round(statistics.median(found)) for (way, name, size), found in times.items()}


def compute(cupy):
    """Results of many kinds of work, as NumPy arrays."""
    random = cupy.random.RandomState(1)
    x = random.rand(1 << 18)
    y = random.rand(300, 300)
    found = [cupy.sort(x), cupy.cumsum(cupy.floor(x * 100)), abs(cupy.fft.fft(x[:4096])), y @ y, cupy.unique(x // 0.01)]
    for _ in range(100):
        x = cupy.sqrt(x * x + 1) - x * 0.5
    return [cupy.asnumpy(array) for array in [*found, x, x.sum()]]


def cupy_results():
    """Results are bit-equal to those with CuPy's own pool."""
    import acre.cupy
    import cupy
    import numpy

    acre.cupy.stop()
    wanted = compute(cupy)
    acre.cupy.use()
    before = acre.cupy.stats()
    for _ in range(10):
        for mine, theirs in zip(compute(cupy), wanted):
            assert numpy.array_equal(mine, theirs), "results differ"
    return {"live_blocks_after": acre.cupy.stats()["live_blocks"] - before["live_blocks"]}


def cupy_streams():
    """Chains of work on eight streams, with temporary arrays, all in flight together."""
    import acre.cupy
    import cupy
    import numpy

    acre.cupy.use()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(8)]
    arrays, wanted = [], []
    for i, stream in enumerate(streams):
        with stream:
            arrays.append(cupy.arange(WORDS, dtype="u4") + i)
        wanted.append(numpy.arange(WORDS, dtype="u4") + numpy.uint32(i))
    for _ in range(60):
        for i, stream in enumerate(streams):
            with stream:
                arrays[i] = arrays[i] * 3 + (arrays[i] >> 1)
            wanted[i] = wanted[i] * numpy.uint32(3) + (wanted[i] >> numpy.uint32(1))
    for stream, mine, theirs in zip(streams, arrays, wanted):
        stream.synchronize()
        assert numpy.array_equal(cupy.asnumpy(mine, stream=stream), theirs), "a stream's result is wrong"
    del mine
    arrays.clear()
    found = acre.cupy.stats()
    assert found["blocks_on_streams"] == 0 and found["late_frees"] == 0 and found["lost_frees"] == 0, found


def hazards(cupy, rounds):
    """Frees an array while its stream still writes it, and counts words of another stream that get lost."""
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    lost = 0
    for _ in range(rounds):
        with first:
            x = cupy.empty(WORDS, "u4")
            put(cupy, x, 1, spin=500_000)
        with second:
            del x
            y = cupy.empty(WORDS, "u4")
            put(cupy, y, 2)
        first.synchronize()
        with second:
            lost += int((y != 2).sum())
        del y
    return lost


def cupy_hazard():
    """No memory is reused while a stream still writes it; without streams it would be."""
    import acre.cupy
    import cupy

    acre.cupy.use()
    hazards(cupy, 5)
    lost = hazards(cupy, 300)
    acre.cupy.use(stream_ordered=False)
    control = hazards(cupy, 20)
    acre.cupy.use()
    assert lost == 0, f"{lost} words of another stream were overwritten"
    assert control > 0, "the control lost nothing: the check cannot fail"
    return {"words_lost": lost, "control_words_lost": control}


def cupy_destroyed_streams():
    """Streams that go out of scope with work and arrays; the driver reuses their handles."""
    import acre.cupy
    import cupy

    acre.cupy.use()
    kept = []
    for i in range(400):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            x = cupy.empty(WORDS, "u4")
            put(cupy, x, i, spin=20_000)
        kept.append((x, i))
        del x, stream
        if len(kept) > 3:
            old, value = kept.pop(0)
            cupy.cuda.runtime.deviceSynchronize()
            assert int((old != value).sum()) == 0, "memory of a live array was reused"
            del old
    kept.clear()
    found = acre.cupy.stats()
    assert found["late_frees"] == 0 and found["lost_frees"] == 0, found


def cupy_threads():
    """Eight threads, each with its own stream."""
    import acre.cupy
    import cupy

    acre.cupy.use()
    put(cupy, cupy.empty(8, "u4"), 0)
    faults = []

    def work(seed):
        try:
            with cupy.cuda.Stream(non_blocking=True) as stream:
                for i in range(100):
                    x = cupy.empty(WORDS >> (i % 5), "u4")
                    put(cupy, x, seed * 1000 + i, spin=2000)
                    y = x + 1
                    del x
                    if int((y != seed * 1000 + i + 1).sum()):
                        faults.append((seed, i))
                stream.synchronize()
        except Exception as error:  # pylint: disable=broad-except  # shown below
            faults.append(repr(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[:3]


def cupy_out_of_memory():
    """CuPy's exception, with acre's report; the next allocation works."""
    import acre.cupy
    import cupy

    pool = acre.cupy.use()
    try:
        cupy.empty(1 << 50, "u1")
        raise AssertionError("1 PiB was allocated")
    except cupy.cuda.memory.OutOfMemoryError as error:
        assert "Memory of cuda:0" in str(error), str(error)
    assert float(cupy.ones(100).sum()) == 100
    pool.set_limit(size=acre.cupy.stats()["used_bytes"] + (64 << 20))
    try:
        cupy.empty(256 << 20, "u1")
        raise AssertionError("the limit was not kept")
    except cupy.cuda.memory.OutOfMemoryError as error:
        assert error.name == "ACRE_E_LIMIT", str(error)
    pool.set_limit()
    assert cupy.empty(256 << 20, "u1").size == 256 << 20


def cupy_graph():
    """A graph whose arrays were allocated in the capture; other arrays stay untouched by its launches."""
    import acre.cupy
    import cupy

    acre.cupy.use()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = cupy.zeros(WORDS, "u4")
        y = (x * 3 + 1) * 2
        stream.synchronize()
        stream.begin_capture()
        y = (x * 3 + 1) * 2
        graph = stream.end_capture()
        others = [cupy.full(WORDS, 7, "u4") for _ in range(16)]
        for value in range(5):
            x[...] = value
            graph.launch(stream)
            assert int((y != (value * 3 + 1) * 2).sum()) == 0, "the graph computed something else"
        assert sum(int((other != 7).sum()) for other in others) == 0, "the graph overwrote other arrays"


def cupy_per_thread_streams():
    """Per-thread default streams: arrays made in other threads, freed in this one."""
    import acre.cupy
    import cupy

    how = acre.cupy.use().how
    put(cupy, cupy.empty(8, "u4"), 0)
    lost = []
    for i in range(50):
        made = []

        def work(made=made, i=i):
            for _ in range(4):
                x = cupy.empty(WORDS, "u4")
                put(cupy, x, i, spin=200_000)
                made.append(x)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        made.clear()  # the thread's stream still writes
        mine = [cupy.empty(WORDS, "u4") for _ in range(4)]
        for y in mine:
            put(cupy, y, 9)
        cupy.cuda.runtime.deviceSynchronize()
        lost.append(sum(int((y != 9).sum()) for y in mine))
    assert sum(lost) == 0, f"{sum(lost)} words were overwritten"
    return {"how": how}


# ---- Numba ----


def numba_arrays():
    """A kernel on arrays of the plug-in, on several streams."""
    import acre.numba
    import numpy
    from numba import cuda

    @cuda.jit
    def add(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    a = numpy.arange(WORDS, dtype="f4")
    streams = [cuda.stream() for _ in range(4)]
    for _ in range(50):
        results = []
        for stream in streams:
            x, y = cuda.to_device(a, stream=stream), cuda.to_device(a, stream=stream)
            out = cuda.device_array_like(x)
            add[WORDS // 256, 256, stream](x, y, out)
            results.append(out)
            del x, y
        cuda.synchronize()
        for out in results:
            assert numpy.array_equal(out.copy_to_host(), a + a), "a sum is wrong"
    name = type(cuda.current_context().memory_manager).__module__
    assert name == "acre.numba", f"the memory manager is of {name}"
    assert acre.numba.stats()["live_blocks"] > 0
    try:
        cuda.device_array(1 << 50, "u1")
        raise AssertionError("1 PiB was allocated")
    except acre.numba.OutOfMemory as error:
        assert "Memory of cuda:0" in str(error)


def numba_own_tests():
    """Numba's own tests of memory pass with acre if they pass without it."""
    environments = [{}, {"NUMBA_CUDA_MEMORY_MANAGER": "acre.numba"}]
    runs = [subprocess.Popen([sys.executable, "-W", "ignore", NUMBA_SUITE], env={**os.environ, **added},
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for added in environments]
    outcomes = []
    end = time.monotonic() + 90
    try:
        for run in runs:
            out, err = run.communicate(timeout=max(1, end - time.monotonic()))
            assert run.returncode == 0 and out, err[-1500:]
            outcomes.append(json.loads(out.splitlines()[-1]))
    finally:
        for run in runs:
            run.kill()
            run.wait()
    passed = [{name for name, outcome in found.items() if outcome == "ok"} for found in outcomes]
    lost = {name for name in passed[0] - passed[1] if outcomes[1].get(name) != "skip"}
    figures = {"tests": len(outcomes[0]), "pass_without": len(passed[0]), "pass_with": len(passed[1]),
               "lost": sorted(lost)}
    assert len(passed[1]) > 50 and lost <= NUMBA_KNOWN, figures
    return figures


# ---- JAX ----


def jax_arrays():
    """JAX takes memory of acre by DLPack, without a copy."""
    import acre
    import jax
    import jax.dlpack

    with acre.open("cuda") as device:
        a = device.zeros((1024, 512), "float32")
        x = jax.dlpack.from_dlpack(a)
        assert x.shape == (1024, 512) and str(x.dtype) == "float32", (x.shape, x.dtype)
        assert x.unsafe_buffer_pointer() == a.ptr, "JAX copied the array"
        assert float((x + 1).sum()) == 1024 * 512
        del x
        jax.block_until_ready(jax.numpy.zeros(1))


JAX_PROGRAM = """
import jax, jax.numpy as jnp
x = jax.random.normal(jax.random.PRNGKey(1), (1024, 1024))
for i in range(10): x = jnp.tanh(x @ x)
print(repr(float(x.sum())), float(jnp.abs(jnp.fft.fft(x[0])).max()))
"""


def jax_under_acre_run():
    """A program of JAX prints the same under `acre run`."""
    import jax  # noqa: F401

    tool = os.path.join(os.environ["ACRE_BUILD"], "acre")
    outputs = []
    for before in ([], [tool, "run", "--"]):
        done = subprocess.run([*before, sys.executable, "-c", JAX_PROGRAM], capture_output=True, text=True,
                              timeout=45, check=False)
        assert done.returncode == 0, done.stderr[-1500:]
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1], outputs


# Each group: the library, seconds, environment, checks.
GROUPS = {
    "cupy": ("cupy", 100, {}, [
        cupy_how, cupy_pair, cupy_results, cupy_streams, cupy_hazard, cupy_destroyed_streams, cupy_threads,
        cupy_out_of_memory, cupy_graph]),
    "cupy_ptds": ("cupy", 40, {"CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1"}, [cupy_per_thread_streams]),
    "numba": ("numba", 60, {"NUMBA_CUDA_MEMORY_MANAGER": "acre.numba", **NUMBA_COMPAT}, [numba_arrays]),
    "jax": ("jax", 60, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, [jax_arrays]),
    "jax_run": ("jax", 100, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_FLAGS": "--xla_gpu_autotune_level=0"},
                [jax_under_acre_run]),
    "numba_tests": ("numba", 120, NUMBA_COMPAT, [numba_own_tests]),
}


def run_here(group):
    """Runs the checks of a group in this process."""
    library, _, _, checks = GROUPS[group]
    try:
        __import__(library)
    except ImportError as error:
        print(f"{library} is not installed: {error}")
        return SKIPPED
    failed = 0
    for check in checks:
        result = {"name": check.__name__, "ok": True, "figures": {}}
        begin = time.monotonic()
        try:
            result["figures"] = check() or {}
        except Exception as error:  # pylint: disable=broad-except  # the next check still runs
            result.update(ok=False, error=f"{type(error).__name__}: {error}"[:2000])
            failed += 1
        result["seconds"] = round(time.monotonic() - begin, 2)
        print(MARK + json.dumps(result), flush=True)
    return 1 if failed else 0


def run_group(group, build, seconds):
    """Runs a group in a process of its own. Returns the results of its checks, None if it was skipped."""
    _, limit, variables, checks = GROUPS[group]
    environment = dict(os.environ, ACRE_BUILD=build, **variables)
    environment["PYTHONPATH"] = os.pathsep.join([os.path.join(build, "python"), environment.get("PYTHONPATH", "")])
    command = [sys.executable, os.path.abspath(__file__), build, "--inside", group]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=max(1, min(limit, seconds)), check=False)
        output, ended = done.stdout, f"exit status {done.returncode}"
        if done.returncode == SKIPPED:
            print(f"{group}: skipped: {output.strip()[-200:]}")
            return None
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        ended = f"not done after {min(limit, seconds):.0f} s"
    results = [json.loads(line[len(MARK):]) for line in output.splitlines() if line.startswith(MARK)]
    seen = {result["name"] for result in results}
    for check in checks:
        if check.__name__ not in seen:
            tail = "\n".join(line for line in output.splitlines() if not line.startswith(MARK))[-1500:]
            results.append({"name": check.__name__, "ok": False, "error": f"{ended}: {tail}", "figures": {}})
            break  # the later ones did not run for the same reason
    return results


def main():
    """Runs the groups and prints the sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--output")
    parser.add_argument("--inside", metavar="GROUP", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        return run_here(args.inside)
    wrong = [group for group in args.groups if group not in GROUPS]
    if wrong:
        parser.error(f"no group {wrong[0]}; the groups are: {', '.join(GROUPS)}")
    passed, failed, skipped, figures = 0, 0, 0, {}
    begin = time.monotonic()
    for group in args.groups or GROUPS:
        left = ALL_SECONDS - (time.monotonic() - begin)
        if left < 5:
            print(f"{group}: FAILED: no time left", flush=True)
            failed += 1
            continue
        results = run_group(group, os.path.abspath(args.build), left)
        if results is None:
            skipped += 1
            continue
        for result in results:
            passed, failed = passed + result["ok"], failed + (not result["ok"])
            print(f"{result['name']}: {'ok' if result['ok'] else 'FAILED: ' + result['error']}", flush=True)
            figures[result["name"]] = {**result["figures"], "seconds": result.get("seconds")}
    text = json.dumps(figures, indent=2)
    print(text)
    folder = os.environ.get("OUT")
    for path in [args.output, os.path.join(folder, "python.json") if folder else None]:
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text + "\n")
    print(f"passed {passed} failed {failed} skipped {skipped}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
