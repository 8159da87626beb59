"""Finds and loads libacre.so, and turns its statuses into exceptions.

Every call goes through ctypes.CDLL, which releases the interpreter's lock: other Python threads run
while a call waits, and a callback of acre can take the lock.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

from . import _declarations as c

SONAME = f"libacre.so.{c.ACRE_VERSION_MAJOR}.{c.ACRE_VERSION_MINOR}"
MEMORY = (c.ACRE_E_DEVICE_MEMORY, c.ACRE_E_HOST_MEMORY, c.ACRE_E_ADDRESS_SPACE, c.ACRE_E_LIMIT)

_lock = threading.Lock()
_library = None


class Error(RuntimeError):
    """A call into acre failed.

    Attributes: `status`, the number (-3); `name`, its name ("ACRE_E_HANDLE"); `detail`, one line about
    what was requested and what went wrong.
    """

    def __init__(self, status: int, name: str = "", detail: str = "") -> None:
        super().__init__(status, name, detail)
        self.status = status
        self.name = name
        self.detail = detail

    def __str__(self):
        return f"{self.detail} ({self.name})" if self.detail else self.name


class OutOfMemory(Error, MemoryError):
    """Device memory, host memory, addresses or a limit ran out.

    `report` says what uses the memory, and what would have helped, if a pool refused the request;
    otherwise it is empty. `json_report` is the same for programs, a dict or None.
    """

    def __init__(self, status: int, name: str = "", detail: str = "", report: str = "",
                 json_report: Any = None) -> None:
        super().__init__(status, name, detail)
        self.report = report
        self.json_report = json_report

    def __str__(self):
        return f"{super().__str__()}\n{self.report}" if self.report else super().__str__()


Error.__module__ = OutOfMemory.__module__ = "acre"  # the public names, for messages


def beside(name, name_in_build=None, folder="lib"):
    """The paths of a file of the package that exist: in its folder lib (a wheel), and in the build tree."""
    package = os.path.dirname(os.path.abspath(__file__))
    paths = [os.path.join(package, folder, name), os.path.join(package, "..", "..", name_in_build or name)]
    return [os.path.normpath(path) for path in paths if os.path.exists(path)]


def candidates():
    """The files to try, in order."""
    named = os.environ.get("ACRE_LIBRARY")
    return [named] if named else [*beside(SONAME, "libacre.so"), SONAME]


def _load():
    tried = []
    for path in candidates():
        try:
            library = c.apply(ctypes.CDLL(path))
            version = library.acre_version().decode()
        except (OSError, AttributeError) as error:
            tried.append(f"{path}: {error}")
            continue
        if version.split(".")[:2] != [str(c.ACRE_VERSION_MAJOR), str(c.ACRE_VERSION_MINOR)]:
            tried.append(f"{path}: version {version}, but this package needs {SONAME}")
            continue
        return library
    raise ImportError(
        "cannot load libacre:\n  "
        + "\n  ".join(tried)
        + "\nBuild it (make), install it, or set ACRE_LIBRARY to the path of libacre.so."
    )


def lib():
    """Returns the loaded library, a CDLL whose functions have their types."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _load()
    return _library


def path():
    """Returns the file of the loaded library, as it was given to the dynamic linker."""
    return lib()._name


def check(status, report=False, memory=True):
    """Raises Error or OutOfMemory unless `status` is ACRE_OK. Call it in the thread that made the call.

    With `report`, an OutOfMemory has the report of the thread's last failed pool allocation. Without `memory`
    it is an Error, too: the limit is not one of memory.
    """
    if status == c.ACRE_OK:
        return
    library = lib()
    detail = library.acre_last_detail().decode(errors="replace")
    name = library.acre_status_name(status).decode()
    if status not in MEMORY or not memory:
        detail = detail or library.acre_status_text(status).decode()
        raise Error(status, name, detail)
    if not report:
        raise OutOfMemory(status, name, detail)
    import json

    text = oom_report(c.ACRE_OOM_JSON)
    raise OutOfMemory(status, name, detail, oom_report(c.ACRE_OOM_TEXT), json.loads(text) if text else None)


def oom_report(form):
    """Returns the report of the thread's last failed pool allocation as text, "" if there is none."""
    library = lib()
    needed = ctypes.c_size_t()
    if library.acre_oom_report(form, None, 0, ctypes.byref(needed)) != c.ACRE_OK:
        return ""
    buffer = ctypes.create_string_buffer(needed.value + 1)
    check(library.acre_oom_report(form, buffer, len(buffer), ctypes.byref(needed)))
    return buffer.value.decode(errors="replace")


def make(struct, **fields):
    """Returns a struct with its struct_size and fields set."""
    return struct(struct_size=ctypes.sizeof(struct), **fields)
