"""Every public function of the package has types."""

import ast
import os
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "acre"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "_declarations.py")
# Classes and functions that only the package itself uses, in files with public ones.
INNER = {"_library.py": {"beside", "candidates", "lib", "path", "check", "oom_report", "make"},
         "_stats.py": {"nested", "replace", "tags", "pool_stats", "size_text"}, "_pools.py": {"kept_open", "set_aside"},
         "_snapshot.py": {"by_line", "tool", "add_stacks"}}
# Files whose functions are not reached from outside.
OWN = {"_plug.py", "_throw.py", "__main__.py"}


def lacking(path):
    """Returns the public functions and methods in which a parameter or the result has no type."""
    found = []

    def look(nodes, owner):
        for node in nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                look(node.body, node.name + ".")
            is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            if not is_function or (node.name.startswith("_") and node.name != "__init__"):
                continue
            if not owner and node.name in INNER.get(path.name, ()):
                continue
            given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            given = given[1:] if owner and given and given[0].arg in ("self", "cls") else given
            if node.returns is None or any(argument.annotation is None for argument in given):
                found.append(f"{path.name}:{node.lineno}: {owner}{node.name}")

    look(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: os.fspath(path.relative_to(PACKAGE)))
def test_public_functions_have_types(path):
    assert path.name in OWN or lacking(path) == []


def test_the_check_notices_missing_types(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("def one(a: int): pass\ndef two(a) -> int: pass\nclass C:\n    def three(self, a) -> None: pass\n"
                   "    def _four(self): pass\ndef five(a: int) -> None: pass\n", encoding="utf-8")
    assert [row.split()[1] for row in lacking(bad)] == ["one", "two", "C.three"]
