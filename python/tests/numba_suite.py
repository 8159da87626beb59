"""Runs the memory tests of the installed Numba, on a GPU or on acre's stand-in for the driver.

    numba_suite.py      prints {"test": "ok" | "error" | "skip"} as JSON in its last line

The stand-in runs no kernels of Numba, so only modules that mostly move memory are run. NUMBA_CUDA_DRIVER
names the stand-in. With NUMBA_CUDA_MEMORY_MANAGER=acre.numba, acre serves the memory.
"""

import json
import os
import unittest

from numba.cuda.cudadrv import driver

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
    suite = unittest.TestSuite()
    for module in MODULES:
        name = f"numba.cuda.tests.cudadrv.test_{module}"
        suite.addTests(unittest.defaultTestLoader.loadTestsFromName(name))
    outcomes = Outcomes()
    outcomes.buffer = True
    suite.run(outcomes)
    print(json.dumps(outcomes.all))


if __name__ == "__main__":
    main()
