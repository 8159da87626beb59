"""Tags, traces, out-of-memory reports, the log, and settings."""

from __future__ import annotations

import atexit
import ctypes
import json
import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, NamedTuple, Optional

from . import _declarations as c
from . import _native
from . import _library
from ._library import Error, check, lib, make
from ._values import Record, choice, record, size, text

LEVELS = {"error": c.ACRE_LOG_ERROR, "warn": c.ACRE_LOG_WARN, "info": c.ACRE_LOG_INFO, "debug": c.ACRE_LOG_DEBUG}
_LEVEL_NAMES = {number: name for name, number in LEVELS.items()}


@contextmanager
def tag(name: str) -> Iterator[None]:
    """`with acre.tag("kv"):` tags all that this thread allocates from pools. Tags nest: `with acre.tag("step"),
    acre.tag("forward"):` sets the tag "step/forward"."""
    path = text(name, "tag")
    parts = [part.decode(errors="replace") for part in path.split(b"/") if part]
    if b"/" in path and parts:
        nested = ", ".join(f'acre.tag("{part}")' for part in parts)
        detail = f'tag "{path.decode(errors="replace")}" has a "/", which separates nested tags: use `with {nested}:`'
        raise Error(c.ACRE_E_INVALID, "ACRE_E_INVALID", detail)
    check(lib().acre_tag_push(path), memory=False)
    try:
        yield
    finally:
        check(lib().acre_tag_pop())


def set_tag_limit(path: str, nbytes: int) -> None:
    """Limits the bytes of live blocks with a tag or one below it; 0: no limit."""
    check(lib().acre_tag_set_limit(text(path, "tag"), size(nbytes)))


def tags() -> List[Record]:
    """Lists every tag that was ever set, with its live bytes and blocks, parents before their children."""
    found = _native.walk(lib().acre_tag_walk, c.acre_tag_walk_fn, "acre_python_tag", c.acre_tag_info)
    return [record(item) for item in found]


def oom_report(form: str = "text") -> Any:
    """Returns the report of this thread's last failed pool allocation: "text", or "json" as a dict. None if no
    allocation of the thread has failed."""
    number = choice(form, {"text": c.ACRE_OOM_TEXT, "json": c.ACRE_OOM_JSON}, "form")
    found = _library.oom_report(number)
    if not found:
        return None
    return json.loads(found) if form == "json" else found


class Trace:
    """`with acre.trace("run.trace"):` records everything that pools do, for `acre trace` and `acre replay`."""

    def __init__(self, path: Any, limit_bytes: int, ring: bool) -> None:
        bits = c.ACRE_TRACE_RING if ring else 0
        options = make(c.acre_trace_options, limit_bytes=size(limit_bytes, "limit_bytes"), flags=bits)
        check(lib().acre_trace_start(text(path, "path"), ctypes.byref(options)))
        self._is_open = True

    def mark(self, said: str) -> None:
        """Writes a text into the trace."""
        self._must_be_open()
        check(lib().acre_trace_mark(text(said, "text")))

    def flush(self) -> None:
        """Writes the trace to disk."""
        self._must_be_open()
        check(lib().acre_trace_flush())

    def stop(self) -> None:
        """Ends the trace. A second call is a no-op."""
        is_open, self._is_open = self._is_open, False
        if is_open:
            check(lib().acre_trace_stop())

    def _must_be_open(self) -> None:
        if not self._is_open:
            raise ValueError("this trace has ended")

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


def trace(path: Any, *, limit_bytes: int = 0, ring: bool = False) -> Trace:
    """Starts a trace; %p in the path is the process id. At the limit it ends, or with ring=True overwrites its oldest
    part. It ends with stop() or `with`; the garbage collector does not end it."""
    return Trace(path, limit_bytes, ring)


def export_stats() -> None:
    """Writes the statistics to the file of ACRE_STATS, for `acre stats` and `acre top`."""
    check(lib().acre_stats_export())


_log: Any = None  # the callback, while acre may call it


def set_log(function: Optional[Callable[[str, str, str], Any]], level: str = "info") -> None:
    """Sends log messages to function(level, area, line); None ends that. The function must not call acre. No other
    thread may use acre during the call, and no C code that holds the interpreter's lock while it calls acre may run
    meanwhile: it would deadlock with the function. ACRE_LOG=stderr needs no function."""
    global _log
    number = choice(level, LEVELS, "level")

    def call(_user: Any, severity: int, area: bytes, line: bytes) -> None:
        try:
            function(_LEVEL_NAMES.get(severity, "debug"), area.decode(), line.decode(errors="replace"))  # type: ignore
        except BaseException as error:  # pylint: disable=broad-except
            print(f"acre: the log function raised {error!r}", file=sys.stderr)

    callback = c.acre_log_fn(0) if function is None else c.acre_log_fn(call)
    check(lib().acre_log_set(callback, None, number))
    if _log is None and function is not None:
        # acre may log at exit, when the interpreter is gone.
        atexit.register(lib().acre_log_set, c.acre_log_fn(0), None, c.ACRE_LOG_ERROR)
    _log = callback


class Setting(NamedTuple):
    """An environment variable that acre reads."""

    name: str
    kind: str
    meaning: str


def settings() -> List[Setting]:
    """Lists the environment variables that acre reads."""
    found: List[Setting] = []
    while True:
        texts = [ctypes.c_char_p() for _ in range(3)]
        status = lib().acre_config_describe(len(found), *[ctypes.byref(item) for item in texts])
        if status == c.ACRE_E_INVALID:
            return found
        check(status)
        found.append(Setting(*[(item.value or b"").decode() for item in texts]))


def snapshot(path: Any) -> None:
    """Writes what acre has on all devices at this moment to a JSON file, for `acre report`."""
    check(lib().acre_snapshot(None, text(path, "path")))


def version() -> str:
    """Returns the version of the library that is loaded."""
    return lib().acre_version().decode()
