#!/usr/bin/env python3
"""Runs python/tests/test_python_gpu.py: PyTorch, CuPy and JAX share memory of a GPU with the Python package.

    tests/gpu/python_arrays.py BUILD [TEST...]

BUILD is the folder of the build; its python/acre is used. TEST is the name of a test (default: all). The machine need
not have pytest: this script has the few parts of it that the tests use. Prints a line for each test, what a failed one
said, and "passed P failed F skipped S" last. Exit status: 1 if a test failed.
"""

import contextlib
import gc
import importlib.util
import inspect
import os
import pathlib
import sys
import traceback
import types

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent / "python" / "tests" / "test_python_gpu.py"


class Skipped(Exception):
    """A test cannot run here."""


class Pytest(types.ModuleType):
    """What the tests use of pytest."""

    def __init__(self):
        super().__init__("pytest")
        self.fixtures = {}
        self.mark = types.SimpleNamespace(parametrize=self.parametrize)

    def fixture(self, *, name):
        """Notes a fixture."""
        def note(function):
            self.fixtures[name] = function
            return function
        return note

    @staticmethod
    def parametrize(name, values):
        """Notes the values of a parameter."""
        def note(function):
            function.cases = [{name: value} for value in values]
            return function
        return note

    @staticmethod
    @contextlib.contextmanager
    def raises(kind):
        """Fails unless the block raises."""
        try:
            yield
        except kind:
            return
        raise AssertionError(f"{kind.__name__} was not raised")

    @staticmethod
    def skip(reason):
        """Ends the test."""
        raise Skipped(reason)

    @staticmethod
    def importorskip(name):
        """Returns a module, or ends the test."""
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise Skipped(str(error)) from None


def load(pytest):
    """Returns the tests, each with the values of its parameter."""
    sys.modules["pytest"] = pytest
    spec = importlib.util.spec_from_file_location(TESTS.stem, TESTS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tests = [(name, found) for name, found in vars(module).items() if name.startswith("test_")]
    return [(name, test, case) for name, test in tests for case in getattr(test, "cases", [{}])]


def run(pytest, test, case):
    """Runs a test with its fixtures."""
    with contextlib.ExitStack() as stack:
        made = dict(case)

        def make(name):
            if name not in made:
                function = pytest.fixtures[name]
                values = {needed: make(needed) for needed in inspect.signature(function).parameters}
                if inspect.isgeneratorfunction(function):
                    made[name] = stack.enter_context(contextlib.contextmanager(function)(**values))
                else:
                    made[name] = function(**values)
            return made[name]

        test(**{name: make(name) for name in inspect.signature(test).parameters})


def main():
    """Runs the tests and prints the sums."""
    build, *names = sys.argv[1:]
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # JAX leaves memory to the others
    os.environ["ACRE_REQUIRE_CUDA"] = "1"
    sys.path.insert(0, os.path.join(os.path.abspath(build), "python"))
    pytest, counts = Pytest(), {"passed": 0, "failed": 0, "skipped": 0}
    for name, test, case in load(pytest):
        if names and name not in names:
            continue
        said = ""
        try:
            run(pytest, test, case)
            result = "passed"
        except Skipped as error:
            result, said = "skipped", f" {error}"
        except Exception:  # pylint: disable=broad-except  # the next test still runs
            result, said = "failed", f"\n{traceback.format_exc()}"
        gc.collect()
        counts[result] += 1
        print(" ".join([name, *case.values()]) + f": {result}{said}", flush=True)
    print(" ".join(f"{result} {count}" for result, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
