#!/usr/bin/env python3
"""Checks that docs/map.md and the README.md of each source folder name files and functions that exist.

    check_map.py [ROOT]      ROOT is $ACRE_SOURCE, else the tree this file is in

Every folder of src/ has a README.md. A README.md of a source folder names every .c, .h, .hpp and .S
file of that folder. docs/design.md is checked like them. Paths in backticks exist, relative to the root or to the document, and so do targets
of links. Functions in backticks (lower case, with an underscore) occur in the sources. In docs/map.md
a function belongs to the last path before it on its line, and that file declares it.

Prints one line per finding, `file:line: rule`, and exits with 1 if there is one.
"""

import os
import re
import sys

SOURCES = ["src", "include", "cli", "bench", "standin", "shim", "ledger", "report", "python"]
# Folders with a README.md besides those of src/, and those whose files it names too.
OTHERS = {"include": ["include/acre", "include/acre/heap", "include/acre/cpp"], "bench": [], "cli": [], "standin": [],
          "shim": [], "ledger": [], "report": [], "python/native": []}
MAP = "docs/map.md"
ALSO = ["docs/design.md"]  # their paths and functions are checked as well
NAMED_KINDS = (".c", ".h", ".hpp", ".S")
SOURCE_KINDS = (".c", ".h", ".hpp", ".S", ".cu")

QUOTED = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)")
FUNCTION = re.compile(r"([a-z0-9_]*_[a-z0-9_]*)(\(\))?$")
PATH = re.compile(r"[\w.+-]*/[\w./+-]*$|[\w.+-]+\.(c|h|hpp|S)$")
WORD = re.compile(r"\b\w+\b")


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def folder_files(root, folder):
    whole = os.path.join(root, folder)
    return sorted(os.listdir(whole)) if os.path.isdir(whole) else []


def source_folders(root):
    """Returns the folders whose README.md is checked, and whether each must have one."""
    layers = [f"src/{n}" for n in folder_files(root, "src")]
    layers = [f for f in layers if os.path.isdir(os.path.join(root, f))]
    return [(f, True) for f in layers] + [(f, False) for f in OTHERS]


def source_words(root):
    """Returns all identifiers of the sources."""
    words = set()
    for top in SOURCES:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith(SOURCE_KINDS):
                    words.update(WORD.findall(read(folder, name)))
    return words


def declared_words(root, path):
    """Returns identifiers on lines that begin in the first column: declarations, definitions, macros."""
    lines = read(root, path).split("\n")
    lines = [line for line in lines if line and not line[0].isspace() and line[0] != "/"]
    return set(WORD.findall("\n".join(lines)))


def check_named(root, folder):
    document = f"{folder}/README.md"
    named = {os.path.basename(q) for q in QUOTED.findall(read(root, document))}
    for place in [folder] + OTHERS.get(folder, []):
        for name in folder_files(root, place):
            if name.endswith(NAMED_KINDS) and name not in named:
                yield f"{document}:1: does not name {name}"


def resolve(root, document, target):
    """Returns the path that a document means, relative to the root, or None if it does not exist."""
    for base in ["", os.path.dirname(document)]:
        path = os.path.normpath(os.path.join(base, target))
        if os.path.exists(os.path.join(root, path)):
            return path
    return None


def check_document(root, document, words):
    for number, line in enumerate(read(root, document).split("\n"), 1):
        where = f"{document}:{number}:"
        for target in LINK.findall(line):
            beside = os.path.join(root, os.path.dirname(document), target)
            if "://" not in target and not os.path.exists(beside):
                yield f"{where} there is no {target}"
        file = None  # the last path before a function, on this line
        for quoted in QUOTED.findall(line):
            if PATH.match(quoted):
                file = resolve(root, document, quoted)
                if file is None:
                    yield f"{where} there is no {quoted}"
                continue
            match = FUNCTION.match(quoted)
            if not match:
                continue
            name = match.group(1)
            if name not in words:
                yield f"{where} {name} is not in the sources"
            elif document == MAP and file and os.path.isfile(os.path.join(root, file)):
                if name not in declared_words(root, file):
                    yield f"{where} {file} does not declare {name}"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ACRE_SOURCE", here + "/../..")
    root = os.path.abspath(root)
    documents, faults = [], []
    for folder, is_required in source_folders(root):
        document = f"{folder}/README.md"
        if os.path.isfile(os.path.join(root, document)):
            documents.append(document)
            faults += check_named(root, folder)
        elif is_required:
            faults.append(f"{document}:1: there is none")
    if os.path.isfile(os.path.join(root, MAP)):
        documents.append(MAP)
    else:
        faults.append(f"{MAP}:1: there is none")
    documents += [d for d in ALSO if os.path.isfile(os.path.join(root, d))]
    words = source_words(root)
    for document in documents:
        faults += check_document(root, document, words)
    for fault in faults:
        print(fault)
    print(f"check_map: {len(documents)} documents, {len(faults)} findings")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
