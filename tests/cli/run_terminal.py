#!/usr/bin/env python3
"""Runs a command that prints "ready" and waits, as the foreground job of a terminal.

    run_terminal.py COMMAND...

Does what a shell with job control does, on a terminal of its own. Ctrl-Z must stop every process of the job, SIGCONT must
continue them, and Ctrl-C must end them: the parent must see a death by SIGINT, which a shell shows as exit code 130. Prints
what the terminal showed, and exits with 1 if something does not happen.

There is no shell, whose prompt and echo would mix with the output, and which prints the line of `fg` before the job owns
the terminal again. Each key is sent after the processes have reached the state that it needs, so a slow machine takes
longer and does not fail.
"""

import fcntl
import os
import select
import signal
import sys
import termios
import time

LIMIT_S = 200  # for all steps; ctest stops the test at 300 s
JOB_PROCESSES = 2  # the tool and the program


class Job:
    """A command in the foreground of a new terminal. The caller leads a session without a terminal."""

    def __init__(self, command):
        self.end = time.monotonic() + LIMIT_S
        self.shown = b""
        self.status = None  # of the last waitpid that returned one
        self.terminal, inner = os.openpty()
        fcntl.ioctl(inner, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # for tcsetpgrp, by a process in the background
        self.pid = os.fork()
        if self.pid == 0:
            os.setpgid(0, 0)
            os.tcsetpgrp(inner, os.getpid())
            # A script's background commands, and nohup, ignore some of these.
            for number in (signal.SIGTTOU, signal.SIGPIPE, signal.SIGTSTP, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            for fd in range(3):
                os.dup2(inner, fd)
            try:
                os.execvp(command[0], command)
            finally:
                os._exit(127)

    def states(self):
        """Returns the states of the processes in the job's group, as /proc shows them."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    # The name of the program, in brackets, may contain blanks.
                    state, _, group = file.read().rpartition(")")[2].split()[:3]
            except OSError:
                continue  # it has ended
            if int(group) == self.pid:
                found.append(state)
        return found

    def wait_until(self, what, condition):
        """Reads the terminal until the condition holds."""
        while not condition():
            if time.monotonic() > self.end:
                raise TimeoutError(f"{what}: not within {LIMIT_S} s; states: {self.states()}, status: {self.status}")
            if select.select([self.terminal], [], [], 0.02)[0]:
                self.shown += os.read(self.terminal, 4096)

    def has_shown(self, text):
        return text in self.shown

    def has_changed(self):
        """Returns true if the tool has stopped or ended, and keeps its status."""
        pid, status = os.waitpid(self.pid, os.WUNTRACED | os.WNOHANG)
        self.status = status if pid else self.status
        return pid != 0

    def press(self, key):
        os.write(self.terminal, key)


def check(job):
    job.wait_until("the program is ready", lambda: job.has_shown(b"ready\r\n") or job.has_changed())
    if job.status is not None:
        raise RuntimeError(f"the tool ended early: status {job.status}")
    job.wait_until("two processes", lambda: len(job.states()) == JOB_PROCESSES)
    job.press(b"\x1a")
    job.wait_until("Ctrl-Z stops the tool", job.has_changed)
    if not os.WIFSTOPPED(job.status) or os.WSTOPSIG(job.status) != signal.SIGTSTP:
        raise RuntimeError(f"the tool was not stopped by SIGTSTP: status {job.status}")
    job.wait_until("Ctrl-Z stops both", lambda: job.states() == ["T"] * JOB_PROCESSES)
    os.killpg(job.pid, signal.SIGCONT)
    job.wait_until("both continue", lambda: len(job.states()) == JOB_PROCESSES and "T" not in job.states())
    job.press(b"\x03")
    job.wait_until("Ctrl-C ends the tool", job.has_changed)
    if not os.WIFSIGNALED(job.status) or os.WTERMSIG(job.status) != signal.SIGINT:
        raise RuntimeError(f"the tool was not killed by SIGINT: status {job.status}")
    job.wait_until("Ctrl-C ends the program", lambda: not job.states())
    job.wait_until("the report", lambda: job.has_shown(b"killed by SIGINT\r\n"))


def main():
    # A process that leads a group cannot begin a session, so a child does.
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0)
    os.setsid()
    job = Job(sys.argv[1:])
    error = None
    try:
        check(job)
    except (OSError, RuntimeError) as caught:
        error = caught
        try:
            os.killpg(job.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    print(job.shown.decode(errors="replace"))
    sys.exit(f"run_terminal.py: {error}" if error else 0)


if __name__ == "__main__":
    main()
