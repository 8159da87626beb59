#!/usr/bin/env python3
"""Runs a command that prints "ready" and waits, as a job of a shell on a terminal.

    run_terminal.py COMMAND...

Ctrl-Z must stop every process of the job, fg must continue it, and Ctrl-C must end it: the shell must see
exit code 130. Prints what the terminal showed, and exits with 1 if something does not happen.
"""

import os
import pty
import select
import sys
import time

LIMIT_S = 20


def main():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])

    def wait_for(word):
        shown = b""
        end = time.monotonic() + LIMIT_S
        while word not in shown and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                shown += os.read(terminal, 4096)
        print(shown.decode(errors="replace"))
        if word not in shown:
            sys.exit(f"run_terminal.py: the terminal did not show {word}")

    def send(text):
        os.write(terminal, text)

    send(" ".join(sys.argv[1:]).encode() + b"\n")
    wait_for(b"ready\r\n")
    send(b"\x1a")
    wait_for(b"Stopped")
    # Two processes are stopped: the tool and the program. The word is not in the command as typed.
    send(b"ps -o stat=,args= | grep '^T' | grep -c ' wait$' | sed 's/^/count=/'\n")
    wait_for(b"count=2")
    send(b"fg\n")
    wait_for(b" wait\r\n")
    send(b"\x03")
    wait_for(b"killed by SIGINT")
    send(b"echo code=$?.\n")
    wait_for(b"code=130.")
    send(b"exit\n")


if __name__ == "__main__":
    main()
