#!/usr/bin/env python3
"""Runs python/tests/test_python_gpu.py on this machine's GPU: arrays that torch, CuPy and JAX share with acre.

    tests/gpu/python_arrays.py BUILD [OPTION...]

BUILD is the folder of the build; its python/acre is used. Options go to pytest. Prints "passed P failed F skipped S"
last. Exit status: that of pytest.
"""

import os
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent / "python" / "tests" / "test_python_gpu.py"


class Counts:
    """Counts the outcomes: the fixtures of a test count only if they fail or skip it."""

    def __init__(self):
        self.by = {"passed": 0, "failed": 0, "skipped": 0}

    def pytest_runtest_logreport(self, report):
        """pytest calls this three times for each test."""
        if report.when == "call" or report.outcome != "passed":
            self.by[report.outcome] += 1


def main():
    """Runs the tests and prints the sums."""
    build, *options = sys.argv[1:]
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # JAX leaves memory to the others
    os.environ["ACRE_REQUIRE_CUDA"] = "1"
    sys.path.insert(0, os.path.join(os.path.abspath(build), "python"))
    import pytest

    counts = Counts()
    status = pytest.main(["-p", "no:cacheprovider", "-q", *options, str(TESTS)], plugins=[counts])
    if status > pytest.ExitCode.TESTS_FAILED:
        counts.by["failed"] += 1
    print(" ".join(f"{name} {count}" for name, count in counts.by.items()))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
