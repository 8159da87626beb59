"""Snapshots for PyTorch's page memory_viz, and the Python lines that allocated.

The tool `acre export` writes the file. acre's own snapshot has every block; Python stacks, which C code
cannot see, are added to it here, if record_stacks() has recorded them.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from typing import Any, Dict, List

from .. import __main__, _library
from . import _plug, _use

DEPTH = 16

_lock = threading.Lock()
_stacks: Dict[int, Any] = {}  # by address: a tuple of (function, file, line), and the bytes
_depth = 0
_hook = None


def _here(depth):
    """Returns the Python stack of the caller's caller, without frames of this package."""
    frames = []
    try:
        frame = sys._getframe(2)
    except ValueError:  # a thread of backward
        return ()
    while frame is not None and len(frames) < depth:
        code = frame.f_code
        frames.append((code.co_name, code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(frames)


def _watched(address, count, is_free):
    if is_free:
        _stacks.pop(address, None)
    else:
        _stacks[address] = (_here(_depth), count)


def record_stacks(enabled: bool = True, *, depth: int = DEPTH) -> None:
    """Records the Python stack of every allocation from now on, for snapshot() and memory_summary().

    Each allocation then calls Python, which takes microseconds. Threads of backward run no Python, so what
    they allocate has no stack. Needs use().
    """
    global _hook, _depth
    if enabled and not _use.is_used():
        raise RuntimeError("acre.torch.record_stacks() needs acre.torch.use(): PyTorch's own allocator calls "
                           "acre with a lock held, and calling Python there can deadlock")
    with _lock:
        _depth = depth
        if enabled and _hook is None:
            _hook = _plug.WATCH(_watched)
            _plug.plug().acre_torch_set_watch(_plug.address(_hook))
            atexit.register(record_stacks, False)  # blocks are freed after the interpreter is gone
        elif not enabled and _hook is not None:
            _plug.plug().acre_torch_set_watch(None)
            atexit.unregister(record_stacks)
            _kept.append(_hook)  # a call in another thread may still be in it
            _hook = None
            _stacks.clear()


_kept: List[Any] = []


def by_line():
    """Returns (place, bytes, blocks) of recorded allocations, the largest first."""
    sums = {}
    for stack, count in list(_stacks.values()):
        where = f"{stack[0][1]}:{stack[0][2]} {stack[0][0]}" if stack else "threads without Python"
        total, blocks = sums.get(where, (0, 0))
        sums[where] = (total + count, blocks + 1)
    return sorted(((where, *sums[where]) for where in sums), key=lambda row: -row[1])


def tool():
    """Returns the path of the tool acre."""
    found = __main__.tool()
    if not found:
        raise FileNotFoundError("the tool acre, which writes the snapshot, is not installed")
    return found


def add_stacks(document, stacks):
    """Adds Python stacks, by address, to a snapshot of acre."""
    numbers, listed = {}, document.setdefault("stacks", [])
    following = max([stack["id"] for stack in listed], default=0) + 1
    for pool in document.get("pools", []):
        for block in pool.get("blocks", []):
            known = stacks.get(int(block["address"], 16))
            if not known or not known[0]:
                continue
            if known[0] not in numbers:
                numbers[known[0]] = following + len(numbers)
                listed.append({"id": numbers[known[0]],
                               "frames": [f"{name} {file}:{line}" for name, file, line in known[0]]})
            block["stack"] = numbers[known[0]]


def snapshot(path: Any, *, format: str = "memory_viz") -> None:
    """Writes what acre has now to a file that PyTorch's page memory_viz opens.

    With record_stacks(), blocks have their Python stacks. Other formats are those of `acre export`;
    "acre" writes acre's own snapshot, for `acre report`.
    """
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "acre.json")
        _library.check(_library.lib().acre_snapshot(None, plain.encode()))
        stacks = dict(_stacks)
        if stacks:
            with open(plain, encoding="utf-8") as file:
                document = json.load(file)
            add_stacks(document, stacks)
            with open(plain, "w", encoding="utf-8") as file:
                json.dump(document, file)
        if format == "acre":
            shutil.copyfile(plain, path)
            return
        # What is preloaded into this program, such as acre's own hooks, is not for the tool.
        environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LD_AUDIT")}
        done = subprocess.run([tool(), "export", "--format", format, "--force", "-o", os.fspath(path), plain],
                              env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"acre export failed: {done.stderr.strip()}")
