"""Runs scripts with the fake torch (fake_torch/), each in a process of its own: use() cannot be undone."""

import os
import pathlib
import shutil
import textwrap

import forked
import pytest

BUILD = pathlib.Path(os.environ.get("ACRE_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
DRIVER = BUILD / "soft" / "libcuda.so.1"
COMPILER = shutil.which("c++") or shutil.which("g++")
FOLDER = BUILD / "tests" / "fake_torch"

needs = [
    pytest.mark.skipif(not DRIVER.exists(), reason="the stand-ins of NVIDIA's libraries are not built"),
    pytest.mark.skipif(not COMPILER, reason="no C++ compiler"),
]


def run(script, *, fails=False, **variables):
    """Runs a script; returns what it prints, or with `fails` what it writes to stderr as it fails."""
    environment = {"ACRE_CUDA_LIBRARY": str(DRIVER), "ACRE_SOFT_BYTES": "256MiB",
                   "XDG_CACHE_HOME": str(FOLDER / "cache"), **variables}
    done = forked.run(textwrap.dedent(script), environment=environment,
                      imports=f"import sys; sys.path.append({str(FOLDER)!r}); import acre.torch, torch")
    assert done.returncode == fails, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stderr if fails else done.stdout
