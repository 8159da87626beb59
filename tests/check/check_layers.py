#!/usr/bin/env python3
"""Checks includes between layers (docs/design.md, section 3), the length of files, and unique file names.

    check_layers.py [ROOT]      ROOT is $ACRE_SOURCE, else the tree this file is in

Prints one line per finding, `file:line: rule`, and exits with 1 if there is one.
"""

import os
import re
import subprocess
import sys
from fnmatch import fnmatch

# The dependencies. A folder under src/ may include itself, include/, and the folders listed here.
UNDER = {"space", "device", "driver", "base", "watch"}
LAYERS = {
    "base": set(),
    "watch": {"base"},
    "driver": {"base"},
    "soft": {"driver", "base"},
    "device": {"soft", "driver", "base", "watch"},
    "space": {"device", "driver", "base", "watch"},
    "mem": UNDER,
    "copy": UNDER,
    "vm": UNDER,
    "vec": UNDER,
    "sparse": UNDER,
    "arena": UNDER,
    "pool": UNDER | {"arena", "mem"},
    "heap": UNDER,
    "share": UNDER | {"vec"},
    "plan": UNDER | {"pool", "arena"},
    "suspend": UNDER | {"pool", "arena", "copy"},
}

# Files with a narrower rule than their folder: they may include each other, include/ and these.
NARROW = [("src/plan/place*", {"base"})]

# Programs may include their own folder and include/. Those below may also include layers of src/.
PROGRAMS = ["cli", "shim", "standin", "ledger", "report", "python", "examples", "bench"]
PROGRAM_EXTRAS = [
    ("shim/*", {"driver", "base"}),
    ("ledger/*", {"driver", "base", "watch"}),
    ("standin/*", {"soft", "driver", "base"}),
    ("bench/*", {"device", "driver"}),
    ("bench/bench_plan*", {"plan"}),
    ("bench/plan_*", {"plan"}),
    ("cli/cmd_plan*", {"plan", "base"}),
    ("cli/wishes*", {"plan"}),
    ("cli/cmd_run*", {"base"}),
    ("cli/cmd_limit*", {"base"}),
    ("cli/frames*", {"base"}),
    ("cli/cmd_replay*", {"base"}),
    ("cli/control_ask*", {"base", "watch"}),
    ("cli/demo_heap*", {"device"}),
    ("cli/replay*", {"device", "driver"}),
    ("cli/trace_decode*", {"watch"}),
    ("cli/stats_read*", {"watch"}),
    ("cli/top_*", {"watch"}),
    ("cli/prometheus*", {"watch"}),
]

# Folders whose code is linked together with that of others, and may include their headers.
PART_OF = {"bench": ["cli"], "cli": ["report"], "ledger": ["report"], "standin": ["ledger"], "shim": ["ledger", "report"]}

# The toolkit's headers, which src/driver/cuda_abi.h replaces.
TOOLKIT = ["cuda.h", "cuda_runtime*.h"]

MAX_LINES = 900
LENGTH_KINDS = (".c", ".h", ".cu", ".cuh", ".hpp", ".cpp", ".py", ".js", ".sh")
UNIQUE_KINDS = LENGTH_KINDS
NOT_UNIQUE = ["README*", "__init__.py", "CMakeLists.txt"]
SOURCE_KINDS = (".c", ".h", ".cu", ".cuh", ".hpp", ".cpp", ".S")
SKIPPED_DIRS = {".git", "build", ".sysroot", ".deps", "acre-demo", "__pycache__"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def tree_files(root):
    """Returns the paths of all files of the tree, relative to root: tracked, or not ignored."""
    command = ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"]
    if os.path.isdir(os.path.join(root, ".git")):
        answer = subprocess.run(command, capture_output=True, check=False)
        if answer.returncode == 0:
            names = answer.stdout.decode().split("\0")
            return sorted({n for n in names if n and os.path.isfile(os.path.join(root, n))})
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED_DIRS]
        found += [os.path.relpath(os.path.join(folder, n), root) for n in names]
    return sorted(found)


def resolve(root, path, name, quoted):
    """Returns the file of the tree that an include means, or None for an external header."""
    places = ["include", "src"]
    if quoted:
        places = [os.path.dirname(path), *PART_OF.get(path.split("/")[0], []), *places]
    for place in places:
        target = os.path.normpath(os.path.join(place, name))
        if os.path.isfile(os.path.join(root, target)):
            return target
    return None


def layer_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def arrow_fault(path, target):
    """Returns what is wrong if `path` includes `target`, or None."""
    top, target_top = path.split("/")[0], target.split("/")[0]
    if target_top == "include":
        return None
    if top == "include":
        return "include/ may include include/ only"

    target_layer = layer_of(target)
    if top in PROGRAMS:
        if target_top in [top, *PART_OF.get(top, [])]:
            return None
        allowed = set()
        for pattern, extra in PROGRAM_EXTRAS:
            if fnmatch(path, pattern):
                allowed |= extra
        if target_layer in allowed:
            return None
        also = "".join(f" and src/{layer}" for layer in sorted(allowed))
        return f"programs may include include/ only: {top}/ may include itself, include/{also}"

    if target_top != "src" or target_layer is None:
        return f"src/ may include src/<layer>/ and include/ only, not {target}"
    for pattern, allowed in NARROW:
        if fnmatch(path, pattern):
            if fnmatch(target, pattern) or target_layer in allowed:
                return None
            return f"{pattern} may include {', '.join(sorted(allowed))} alone"
    layer = layer_of(path)
    if target_layer == layer or target_layer in LAYERS[layer]:
        return None
    below = ", ".join(sorted(LAYERS[layer])) or "nothing"
    return f"layer {layer} may include {below}, not {target_layer}"


def check_includes(root, path):
    top = path.split("/")[0]
    if top == "src" and layer_of(path) not in LAYERS:
        yield f"{path}:1: this folder of src/ is no layer (table LAYERS in check_layers.py)"
        return
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quoted, name = match.group(1) == '"', match.group(2)
            where = f'{path}:{number}: includes {match.group(0).split("include")[1].strip()}:'
            if top == "src" and any(fnmatch(os.path.basename(name), t) for t in TOOLKIT):
                yield f"{where} src/ never includes the toolkit's headers, see driver/cuda_abi.h"
                continue
            target = resolve(root, path, name, quoted)
            if target is None:
                if quoted:
                    yield f"{where} no such file beside it, in include/ or in src/"
                continue
            fault = arrow_fault(path, target)
            if fault:
                yield f"{where} {fault}"


def check_length(root, path):
    with open(os.path.join(root, path), "rb") as file:
        lines = file.read().count(b"\n")
    if lines > MAX_LINES:
        yield f"{path}:{lines}: {lines} lines; a file has {MAX_LINES} at most"


def check_unique(paths):
    first = {}
    for path in paths:
        name = os.path.basename(path)
        if not name.endswith(UNIQUE_KINDS) or any(fnmatch(name, n) for n in NOT_UNIQUE):
            continue
        # Public headers are included with their folder: acre/pool.h is not pool/pool.h.
        if path.startswith("include/acre/"):
            name = os.path.relpath(path, "include")
        if name in first:
            yield f"{path}:1: the name {name} is taken by {first[name]}"
        first.setdefault(name, path)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ACRE_SOURCE", here + "/../..")
    root = os.path.abspath(root)
    paths = tree_files(root)
    sources = [
        p
        for p in paths
        if p.endswith(SOURCE_KINDS) and p.split("/")[0] in ["src", "include", *PROGRAMS]
    ]
    faults = []
    for path in sources:
        faults += check_includes(root, path)
    for path in paths:
        if path.endswith(LENGTH_KINDS):
            faults += check_length(root, path)
    faults += check_unique(paths)
    for fault in faults:
        print(fault)
    print(f"check_layers: {len(sources)} sources, {len(paths)} files, {len(faults)} findings")
    if not sources:
        print("check_layers: no source was found, so nothing was checked")
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
