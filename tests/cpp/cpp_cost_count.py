#!/usr/bin/env python3
"""Compares the success paths of functions in C and in C++, in the disassembly of an object file.

    cpp_cost_count.py NAME... <disassembly     of `objdump -dr --no-show-raw-insn`, aarch64 or x86-64

For each NAME, the function NAME_cpp must make the calls of NAME_c in the same order. On its success path it
may have one conditional branch for each call that returns a status, with a comparison before it; without
these, it must have no more instructions than NAME_c.

The success path is the shortest path from the first instruction to the return that calls neither
acre::throw_error nor a part of the function that the compiler moved away as cold. Every call but `use`
returns a status.

Prints one line per NAME and exits with 1 if one costs more.
"""

import re
import sys
from collections import deque

FUNCTION = re.compile(r"^[0-9a-f]+ <(\w[\w.]*)>:$")
INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(\S+)(?:\s+(.*))?$")
RELOCATION = re.compile(r"^\s+[0-9a-f]+: R_\S+\s+(\S+)$")
TARGET = re.compile(r"\b([0-9a-f]+) <(\w[\w.]*)(?:\+0x[0-9a-f]+)?>")
CALLS = {"bl", "call", "callq"}
JUMPS = {"b", "jmp", "jmpq"}
RETURNS = {"ret", "retq"}
COMPARISONS = {"cmp", "test", "tst"}


def is_branch(name):
    """Returns whether an instruction may jump, conditionally or not."""
    return name in JUMPS or name.startswith(("b.", "cb", "tb", "j"))


def read_functions(lines):
    """Returns {function: [[address, instruction, operands, symbol of the relocation]]}."""
    functions, now = {}, None
    for line in lines:
        line = line.rstrip("\n")
        found = FUNCTION.match(line)
        if found:
            now = functions.setdefault(found[1], [])
            continue
        found = INSTRUCTION.match(line)
        if found and now is not None:
            now.append([int(found[1], 16), found[2], found[3] or "", None])
            continue
        found = RELOCATION.match(line)
        if found and now:
            now[-1][3] = re.sub(r"[-+]0x[0-9a-f]+$", "", found[1])
    return functions


def steps(code, at):
    """Returns the indices of the instructions that may follow instruction `at`."""
    _, name, operands, symbol = code[at]
    if name in RETURNS:
        return []
    if name in CALLS:
        return [] if symbol and "throw_error" in symbol else [at + 1]
    after = [] if name in JUMPS else [at + 1]
    target = TARGET.search(operands)
    if is_branch(name) and target and not symbol:
        after += [i for i, row in enumerate(code) if row[0] == int(target[1], 16)]
    return [i for i in after if i < len(code)]


def success_path(code):
    """Returns the instructions of the shortest path to a return, or None."""
    before, queue = {0: None}, deque([0])
    while queue:
        at = queue.popleft()
        if code[at][1] in RETURNS:
            path = []
            while at is not None:
                path.append(code[at])
                at = before[at]
            return path[::-1]
        for following in steps(code, at):
            if following not in before:
                before[following] = at
                queue.append(following)
    return None


def compare(functions, name):
    """Prints the costs of a pair. Returns whether C++ costs no more."""
    paths = [success_path(functions.get(name + end, [[0, "missing", "", None]])) for end in ("_c", "_cpp")]
    if None in paths:
        print(f"{name}: no path to a return")
        return False
    calls = [[row[3] for row in path if row[1] in CALLS] for path in paths]
    branches = [sum(is_branch(row[1]) for row in path) for path in paths]
    work = [sum(not is_branch(row[1]) and row[1] not in COMPARISONS for row in path) for path in paths]
    statuses = sum(call != "use" for call in calls[0])
    print(f"{name}: {work[0]} instructions in C, {work[1]} and {branches[1]} checks in C++; calls {calls[1]}")
    return len(calls[0]) == 3 and calls[0] == calls[1] and branches[1] <= statuses and work[1] <= work[0]


def main():
    functions = read_functions(sys.stdin)
    return 0 if all([compare(functions, name) for name in sys.argv[1:]]) else 1


if __name__ == "__main__":
    sys.exit(main())
