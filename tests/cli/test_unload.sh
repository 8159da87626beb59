#!/usr/bin/env bash
# A program loads libacre.so at run time, uses it, unloads it and exits while threads of the library
# still run: no crash. The program is Python, which does not link the library.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

# A sanitizer's runtime would have to be loaded first.
if nm -D "$ACRE_BUILD/libacre.so" | grep -E ' U __(asan|tsan|ubsan)_' >/dev/null; then
    skip "the library is built with a sanitizer"
fi

cat >unload.py <<'PROGRAM'
import _ctypes
import ctypes
import os
import sys
import threading

path, how = sys.argv[1:]
before = open("/proc/self/maps").read()
assert "libacre.so" not in before
library = ctypes.CDLL(path)
device, stream = ctypes.c_void_p(), ctypes.c_void_p()
assert library.acre_open(b"soft", None, ctypes.byref(device)) == 0
assert library.acre_stream_create(device, 1, ctypes.byref(stream)) == 0
# A thread with a record in the library that exits after the unload.
gate = threading.Event()
def other():
    library.acre_stream_sync(device, stream)
    gate.wait()
thread = threading.Thread(target=other)
thread.start()
if how == "closed":
    assert library.acre_close(device) == 0
_ctypes.dlclose(library._handle)
gate.set()
thread.join()
assert "libacre.so" in open("/proc/self/maps").read()
print("unloaded", flush=True)
if how == "killed":
    os._exit(0)
PROGRAM

for how in open closed killed; do
    run python3 unload.py "$ACRE_BUILD/libacre.so" "$how"
    expect_rc 0
    expect_out unloaded
    expect_no_err
done
finish
