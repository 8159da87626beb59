"""Numba's own tests of memory, with acre as its memory manager, on the stand-in for the driver."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

SUITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "numba_suite.py")
SOFT = os.path.join(os.environ.get("ACRE_BUILD", ""), "soft")

# Numba asks the driver for the size of the allocation (cuMemGetAddressRange), which for memory of any
# pool is that of the pool's region, and sets so many bytes. That fails, unless the whole region is mapped.
KNOWN = {"numba.cuda.tests.cudadrv.test_host_alloc.TestHostAlloc.test_host_alloc_pinned"}

pytestmark = [
    pytest.mark.skipif(not importlib.util.find_spec("numba"), reason="Numba is not installed"),
    pytest.mark.skipif(not os.path.exists(f"{SOFT}/libcuda.so.1"), reason="there is no stand-in"),
    # Preloaded into Numba, a sanitizer takes the memory that LLVM needs for code near each other.
    pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="with a sanitizer"),
]


def outcomes(**manager):
    environment = dict(os.environ, NUMBA_CUDA_DRIVER=f"{SOFT}/libcuda.so.1", **manager)
    environment["LD_LIBRARY_PATH"] = SOFT
    run = subprocess.run(
        [sys.executable, SUITE], env=environment, stdout=subprocess.PIPE, text=True, timeout=300, check=True
    )
    return json.loads(run.stdout.splitlines()[-1])


def test_numba_suite_passes_with_acre_what_it_passes_without():
    plain = outcomes()
    acre = outcomes(NUMBA_CUDA_MEMORY_MANAGER="acre.numba")
    passed = {name for name, outcome in plain.items() if outcome == "ok"}
    assert len(passed) > 100
    assert {name for name in passed if acre.get(name) not in ("ok", "skip")} <= KNOWN
    assert sum(outcome == "ok" for outcome in acre.values()) > 100
