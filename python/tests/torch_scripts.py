"""Runs scripts with the fake torch (fake_torch/), each in a process of its own: use() cannot be undone."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("ACRE_BUILD", ROOT / "build"))
DRIVER = BUILD / "soft" / "libcuda.so.1"
COMPILER = shutil.which("c++") or shutil.which("g++")
SECONDS = 250

_folder = None

needs = [
    pytest.mark.skipif(not DRIVER.exists(), reason="the stand-ins of NVIDIA's libraries are not built"),
    pytest.mark.skipif(not COMPILER, reason="no C++ compiler"),
]


def folder():
    """Returns a folder with the fake torch, whose C++ part CMake has compiled."""
    global _folder
    if _folder is None:
        made = tempfile.TemporaryDirectory(prefix="acre-fake-torch-")
        torch = pathlib.Path(made.name) / "torch"
        shutil.copytree(HERE / "fake_torch", torch)
        (torch / "lib").mkdir()
        (pathlib.Path(made.name) / "cache").mkdir(mode=0o700)
        os.symlink(BUILD / "tests" / "fake_torch" / "libc10.so", torch / "lib" / "libc10.so")
        _folder = made
    return pathlib.Path(_folder.name)


def run(script, *, fails=False, **variables):
    """Runs a script; returns what it prints, or with `fails` what it writes to stderr as it fails."""
    environment = dict(os.environ)
    environment.update(
        PYTHONPATH=os.pathsep.join([str(BUILD / "python"), str(folder())]), PYTHONDONTWRITEBYTECODE="1",
        ACRE_CUDA_LIBRARY=str(DRIVER), ACRE_SOFT_BYTES="256MiB", XDG_CACHE_HOME=str(folder() / "cache"))
    environment.update(variables)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=environment, timeout=SECONDS,
                          capture_output=True, text=True, check=False)
    if fails:
        assert done.returncode == 1, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stderr
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
