"""Lets Numba and its tests run where their surroundings are too new or incomplete: put this folder in PYTHONPATH.

Numba names functions of NumPy that NumPy 2.4 and 2.5 removed, and then compiles no kernel. Its tests import the
package filecheck, which few of them need.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys

RENAMED = {"row_stack": "vstack", "in1d": "isin", "trapz": "trapezoid"}


class Stub(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves the package filecheck: each name of it is an empty class."""

    def find_spec(self, fullname, path=None, target=None):  # pylint: disable=unused-argument
        """Returns where the module comes from: here."""
        if fullname.split(".", maxsplit=1)[0] == "filecheck":
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        """Leaves that to Python."""

    def exec_module(self, module):
        """Gives the module any name that is asked for."""
        module.__getattr__ = lambda name: type(name, (), {})


if not importlib.util.find_spec("filecheck"):
    sys.meta_path.append(Stub())
if importlib.util.find_spec("numpy"):
    import numpy

    for old, new in RENAMED.items():
        if not hasattr(numpy, old):
            setattr(numpy, old, getattr(numpy, new))
