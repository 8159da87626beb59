"""Runs the memory tests of the installed Numba, on a GPU or on acre's stand-in for the driver.

    numba_suite.py        the modules that mostly move memory: the stand-in runs no kernels of Numba
    numba_suite.py --all  all tests of Numba's layer over the driver

Prints {"test": "ok" | "error" | "skip"} as JSON in its last line. NUMBA_CUDA_DRIVER names the stand-in. With
NUMBA_CUDA_MEMORY_MANAGER=acre.numba, acre serves the memory.
"""

import importlib
import json
import os
import pkgutil
import sys
import unittest

from numba.cuda.cudadrv import driver

PACKAGE = "numba.cuda.tests.cudadrv"
MODULES = (
    "array_attr context_stack cuda_array_slicing cuda_auto_context cuda_devicerecord cuda_memory "
    "cuda_ndarray deallocations emm_plugins events host_alloc managed_alloc pinned streams"
).split()


def keep_old_forms():
    """Numba before 0.60 prefers names that end in _v2. Since CUDA 13 these two have other arguments."""
    find = driver.Driver._find_api

    def find_api(self, name):
        if name in ("cuCtxGetDevice", "cuCtxSynchronize"):
            return getattr(self.lib, name)
        return find(self, name)

    driver.Driver._find_api = find_api


def bound_managed_memory():
    """Tests allocate a share of the card as managed memory. More than the card has free may hang it."""
    try:
        from numba.cuda.tests.cudadrv.test_managed_alloc import TestManagedAlloc
    except ImportError:
        return
    TestManagedAlloc.get_total_gpu_memory = lambda self: 1 << 30


class Outcomes(unittest.TestResult):
    """Collects the outcome of each test."""

    def __init__(self):
        super().__init__()
        self.all = {}

    def addSuccess(self, test):
        self.all[test.id()] = "ok"

    def addSkip(self, test, reason):
        self.all[test.id()] = "skip"

    def addError(self, test, err):
        self.all[test.id()] = "error"

    addFailure = addError


def main():
    if "NUMBA_CUDA_DRIVER" in os.environ:
        keep_old_forms()
    bound_managed_memory()
    suite = unittest.TestSuite()
    modules = [f"test_{name}" for name in MODULES]
    if sys.argv[1:] == ["--all"]:
        found = (module.name for module in pkgutil.iter_modules(importlib.import_module(PACKAGE).__path__))
        modules = sorted(name for name in found if name.startswith("test_"))
    for module in modules:
        suite.addTests(unittest.defaultTestLoader.loadTestsFromName(f"{PACKAGE}.{module}"))
    outcomes = Outcomes()
    outcomes.buffer = True
    suite.run(outcomes)
    print(json.dumps(outcomes.all))


if __name__ == "__main__":
    main()
