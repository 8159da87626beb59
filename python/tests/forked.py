"""Runs programs as `python3 -c` does, each in a process of its own, by a fork in place of an interpreter's start.

The process that is forked has imported what its programs need, and done nothing else: acre loads its library when it
is first called. A program is the module __main__ until its interpreter ends.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile

SECONDS = 250
SERVER = """
import gc, json, os, sys
gc.freeze()  # what is imported stays unwritten, and so shared
def serve():
    while request := sys.stdin.readline():
        program, sys.argv[1:], environment, files = json.loads(request)
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            continue
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
        for number, file in enumerate([os.devnull, *files]):
            os.dup2(os.open(file, os.O_RDWR), number)
        return compile(program, "<string>", "exec")
    sys.exit()
program = serve()
del gc, json, os, sys, serve
exec(program)
"""

_servers = {}


@atexit.register
def _end():
    for server in _servers.values():
        server.communicate()


def _ask(imports, request):
    if imports not in _servers:
        _servers[imports] = subprocess.Popen([sys.executable, "-c", imports + SERVER], stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, text=True, start_new_session=True)
    server = _servers[imports]
    print(json.dumps(request), file=server.stdin, flush=True)
    if not select.select([server.stdout], [], [], SECONDS)[0]:
        os.killpg(_servers.pop(imports).pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(request[0], SECONDS)
    return int(server.stdout.readline())


def run(program, *arguments, imports="import acre", environment=None):
    """Returns a subprocess.CompletedProcess. What Python and the linker read, except PYTHONPATH, comes too late."""
    with tempfile.NamedTemporaryFile("r+") as out, tempfile.NamedTemporaryFile("r+") as err:
        request = program, arguments, {**os.environ, **(environment or {})}, (out.name, err.name)
        return subprocess.CompletedProcess(program, _ask(imports, request), out.read(), err.read())
