#!/usr/bin/env python3
"""Checks calls between files, by the symbols of the object files: the layers of check_layers.py hold for
calls too.

    check_calls.py [BUILD]      BUILD is $ACRE_BUILD, else build/ of the tree this file is in

A folder of src/ may use internal functions (acre__*) of the folders that it may include, and public
functions of others, unless folders would use each other in a cycle. Cycles of files inside a folder are
listed in tests/check/cycles.txt; the list may only shrink.

Prints one line per finding and exits with 1 if there is one. --list prints the cycles in the format of the
list.
"""

import os
import subprocess
import sys
from collections import defaultdict

from check_layers import LAYERS

DEFINED = set("TDBRVWC")


def object_of(build, source):
    """Returns the object file of a source. Some sources are compiled for the tool too."""
    places = [f"CMakeFiles/{part}.dir/{source}.o" for part in ("acre_objects", "acre_pure_objects", "acre_shared")]
    found = [p for p in (os.path.join(build, place) for place in places) if os.path.isfile(p)]
    return found[0] if found else os.path.join(build, places[0])


def symbols(paths):
    """Yields the symbols that each object file defines, and those that it needs."""
    files = {path: (set(), set()) for path in paths}
    answer = subprocess.run(["nm", "-A", *files], capture_output=True, text=True, check=True)
    for line in answer.stdout.splitlines():
        path, words = line.rsplit(":", 1)
        kind, name = words.split()[-2:]
        defined, needed = files[path]
        if kind == "U":
            needed.add(name)
        elif kind in DEFINED:
            defined.add(name)
    yield from files.values()


def file_graph(root, build):
    """Returns {file: {file that it uses: names}}, files relative to src/ and without .c."""
    sources = []
    for folder, _, names in os.walk(os.path.join(root, "src")):
        sources += [os.path.relpath(os.path.join(folder, n), root) for n in names if n.endswith(".c")]
    sources.sort()
    home, needs = {}, {}
    for source, (defined, needed) in zip(sources, symbols(object_of(build, source) for source in sources)):
        name = source[len("src/") : -len(".c")]
        needs[name] = needed
        for symbol in defined:
            home.setdefault(symbol, name)
    graph = {name: defaultdict(set) for name in needs}
    for name, needed in needs.items():
        for symbol in needed & home.keys():
            if home[symbol] != name:
                graph[name][home[symbol]].add(symbol)
    return graph


def circles(graph):
    """Returns strongly connected components of two or more, each sorted (Tarjan)."""
    number, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        on_stack.add(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            members = []
            while not members or members[-1] != node:
                members.append(stack.pop())
                on_stack.discard(members[-1])
            if len(members) > 1:
                found.append(sorted(members))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted(found)


def layer_of(name):
    return name.split("/")[0]


def check_layers(graph):
    """Reports internal functions of folders that may not be included, and folders that use each other."""
    folders = {layer_of(name): set() for name in graph}
    for name, used in graph.items():
        for other, names in used.items():
            layer, below = layer_of(name), layer_of(other)
            if layer == below:
                continue
            folders[layer].add(below)
            internal = sorted(n for n in names if not n.startswith("acre_") or n.startswith("acre__"))
            if internal and below not in LAYERS[layer]:
                yield f"src/{name}.c: layer {layer} may not use {', '.join(internal)} of src/{other}.c"
    for circle in circles(folders):
        yield f"folders use each other: {', '.join(circle)}"


def circles_inside(graph):
    found = []
    for layer in sorted({layer_of(name) for name in graph}):
        inside = {n: {o for o in graph[n] if layer_of(o) == layer} for n in graph if layer_of(n) == layer}
        found += circles(inside)
    return found


def check_circles(found, listed, list_name):
    """Reports a cycle that is not part of a listed one, and a listed one that has become smaller."""
    for circle in found:
        if not any(set(circle) <= set(known) for known in listed):
            yield f"these files use each other: {' '.join(circle)}: move what both need into a lower file"
    for known in listed:
        if known not in found:
            yield f"{list_name}: no longer a cycle of exactly these files: {' '.join(known)}"


def main():
    root = os.environ.get("ACRE_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    words = [w for w in sys.argv[1:] if w != "--list"]
    build = words[0] if words else os.environ.get("ACRE_BUILD", os.path.join(root, "build"))
    graph = file_graph(root, build)
    found = circles_inside(graph)
    if "--list" in sys.argv:
        print("\n".join(" ".join(circle) for circle in found))
        return 0
    list_name = "tests/check/cycles.txt"
    with open(os.path.join(root, list_name), encoding="utf-8") as lines:
        listed = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    faults = list(check_layers(graph)) + list(check_circles(found, listed, list_name))
    for fault in faults:
        print(fault)
    largest = max((len(circle) for circle in found), default=0)
    print(f"check_calls: {len(graph)} files, {len(found)} cycles, the largest of {largest}, {len(faults)} findings")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
