#!/usr/bin/env python3
"""Who calls whom, by the symbols of the object files: the layers of check_layers.py hold for calls too.

    check_calls.py [BUILD]      BUILD is $ACRE_BUILD, else build/ of the tree this file is in

A folder of src/ may use internal functions (acre__*) of the folders that it may include, and public
functions of others, as long as no folders use each other in a circle. Circles of files inside a folder
are listed in tests/check/cycles.txt; the list may only shrink.

Prints one line a finding and exits with 1 if there is one. --list prints the circles as the list has them.
"""

import os
import subprocess
import sys
from collections import defaultdict

from check_layers import LAYERS

DEFINED = set("TDBRVWC")


def object_of(build, source):
    """Where CMake put it: some sources are compiled for the tool too."""
    places = [f"CMakeFiles/{part}.dir/{source}.o" for part in ("acre_objects", "acre_pure_objects")]
    found = [p for p in (os.path.join(build, place) for place in places) if os.path.isfile(p)]
    return found[0] if found else os.path.join(build, places[0])


def symbols(path):
    """What an object file defines for others, and what it needs from others."""
    answer = subprocess.run(["nm", path], capture_output=True, text=True, check=True)
    defined, needed = set(), set()
    for line in answer.stdout.splitlines():
        kind, name = line.split()[-2:]
        if kind == "U":
            needed.add(name)
        elif kind in DEFINED:
            defined.add(name)
    return defined, needed


def file_graph(root, build):
    """{file: {file that it uses: names}}, files relative to src/ and without .c."""
    sources = []
    for folder, _, names in os.walk(os.path.join(root, "src")):
        sources += [os.path.relpath(os.path.join(folder, n), root) for n in names if n.endswith(".c")]
    home, needs = {}, {}
    for source in sorted(sources):
        name = source[len("src/") : -len(".c")]
        defined, needs[name] = symbols(object_of(build, source))
        for symbol in defined:
            home.setdefault(symbol, name)
    graph = {name: defaultdict(set) for name in needs}
    for name, needed in needs.items():
        for symbol in needed & home.keys():
            if home[symbol] != name:
                graph[name][home[symbol]].add(symbol)
    return graph


def circles(graph):
    """Strongly connected components of two and more, each sorted (Tarjan)."""
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
    """Internal functions of folders that may not be included; folders that use each other."""
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
    """A circle that is not part of a listed one; a listed one that has become smaller."""
    for circle in found:
        if not any(set(circle) <= set(known) for known in listed):
            yield f"these files use each other: {' '.join(circle)}: put what both need below them"
    for known in listed:
        if known not in found:
            yield f"{list_name}: no longer a circle of exactly these files: {' '.join(known)}"


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
    print(f"check_calls: {len(graph)} files, {len(found)} circles, the largest of {largest}, {len(faults)} findings")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
