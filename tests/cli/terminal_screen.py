"""A program on a terminal of fixed size, and what the terminal shows.

Emulates the part of xterm that ncurses uses. A sequence that it does not know is an error, so that no screen is shown
wrongly. test_cli_top.py uses it.
"""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

SEQUENCE = re.compile(r"\x1b(?:\[([?>]?)([0-9;]*)([@A-Za-z`])|([()])(.)|([78=>MDEc]))")
LIMIT_S = 100  # for one wait; a slow machine takes longer and does not fail


class Screen:
    """The cells of a terminal, with the attributes that each was written with."""

    def __init__(self, lines, columns):
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest = ""
        self.colours = set()  # of all SGR codes that chose one
        self.resize(lines, columns)

    def resize(self, lines, columns):
        self.lines, self.columns = lines, columns
        self.cells = [[" "] * columns for _ in range(lines)]
        self.reversed = [[False] * columns for _ in range(lines)]
        self.y = self.x = 0
        self.is_reversed = False
        self.last = " "
        self.top, self.bottom = 0, lines - 1

    def feed(self, data):
        text = self.rest + self.decoder.decode(data)
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self.character(text[at])
                at += 1
                continue
            found = SEQUENCE.match(text, at)
            if not found:
                if len(text) - at < 32:
                    self.rest = text[at:]
                    return
                raise ValueError(f"unknown sequence {text[at:at + 16]!r}")
            self.sequence(found)
            at = found.end()

    def character(self, char):
        if char == "\r":
            self.x = 0
        elif char == "\n":
            self.line_feed()
        elif char == "\b":
            self.x = max(self.x - 1, 0)
        elif char in "\x07\x0f\x0e":
            pass
        elif ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0x200B <= ord(char) <= 0x202E or 0x2066 <= ord(char) <= 0x2069:
            raise ValueError(f"control character {char!r} on the screen")
        else:
            if self.x >= self.columns:
                self.x = 0
                self.line_feed()
            self.put(char)
            self.x += 1
            self.last = char

    def put(self, char):
        self.cells[self.y][self.x] = char
        self.reversed[self.y][self.x] = self.is_reversed

    def line_feed(self):
        if self.y == self.bottom:
            self.scroll(self.top, 1)
        else:
            self.y = min(self.y + 1, self.lines - 1)

    def scroll(self, from_line, count):
        """Moves the lines of the region below from_line up; down if count is negative."""
        for rows, blank in ((self.cells, " "), (self.reversed, False)):
            for _ in range(abs(count)):
                if count > 0:
                    del rows[from_line]
                    rows.insert(self.bottom, [blank] * self.columns)
                else:
                    del rows[self.bottom]
                    rows.insert(from_line, [blank] * self.columns)

    def erase(self, from_x, to_x, y=None):
        y = self.y if y is None else y
        for x in range(max(from_x, 0), min(to_x, self.columns)):
            self.cells[y][x] = " "
            self.reversed[y][x] = False

    def sequence(self, found):
        private, numbers, letter, _, _, single = found.groups()
        if single == "M":
            if self.y == self.top:
                self.scroll(self.top, -1)
            else:
                self.y = max(self.y - 1, 0)
        if letter is None or private or letter in "hltn":
            return
        values = [int(n) if n else 0 for n in numbers.split(";")]
        self.control(letter, values, max(values[0], 1))

    def control(self, letter, values, count):
        if letter in "Hf":
            self.y = min(count, self.lines) - 1
            self.x = min(max(values[1] if len(values) > 1 else 1, 1), self.columns) - 1
        elif letter == "A":
            self.y = max(self.y - count, 0)
        elif letter in "Be":
            self.y = min(self.y + count, self.lines - 1)
        elif letter in "Ca":
            self.x = min(self.x + count, self.columns - 1)
        elif letter == "D":
            self.x = max(self.x - count, 0)
        elif letter in "G`":
            self.x = min(count, self.columns) - 1
        elif letter == "d":
            self.y = min(count, self.lines) - 1
        elif letter == "J":
            self.erase(0 if values[0] == 2 else self.x, self.columns)
            for y in range(0 if values[0] == 2 else self.y + 1, self.lines):
                self.erase(0, self.columns, y)
        elif letter == "K":
            self.erase(0 if values[0] else self.x, self.x + 1 if values[0] == 1 else self.columns)
        elif letter == "X":
            self.erase(self.x, self.x + count)
        elif letter == "b":
            for _ in range(count):
                self.character(self.last)
        elif letter == "m":
            self.style(values)
        else:
            self.edit(letter, values, count)

    def edit(self, letter, values, count):
        """Sequences that move text."""
        row, marks = self.cells[self.y], self.reversed[self.y]
        if letter == "P":
            self.cells[self.y] = (row[: self.x] + row[self.x + count :] + [" "] * count)[: self.columns]
            self.reversed[self.y] = (marks[: self.x] + marks[self.x + count :] + [False] * count)[: self.columns]
        elif letter == "@":
            self.cells[self.y] = (row[: self.x] + [" "] * count + row[self.x :])[: self.columns]
            self.reversed[self.y] = (marks[: self.x] + [False] * count + marks[self.x :])[: self.columns]
        elif letter == "r":
            self.top = count - 1
            self.bottom = (values[1] if len(values) > 1 and values[1] else self.lines) - 1
            self.y = self.x = 0
        elif letter in "LM":
            self.scroll(self.y, count if letter == "M" else -count)
        elif letter in "ST":
            self.scroll(self.top, count if letter == "S" else -count)
        else:
            raise ValueError(f"unknown sequence {values} {letter}")

    def style(self, values):
        for value in values:
            if value in (0, 27):
                self.is_reversed = False
            elif value == 7:
                self.is_reversed = True
            elif 30 <= value <= 37 or 40 <= value <= 47 or 90 <= value <= 97:
                self.colours.add(value)

    def text(self):
        return ["".join(row).rstrip() for row in self.cells]

    def selected(self):
        """Returns the lines that are shown in reverse."""
        return ["".join(row).rstrip() for row, marks in zip(self.cells, self.reversed) if all(marks)]


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command, lines, columns, **variables):
        self.screen = Screen(lines, columns)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            os.environ.update({"TERM": "xterm", **variables})
            for name in ("COLUMNS", "LINES"):
                os.environ.pop(name, None)
            try:
                os.execvp(command[0], command)
            finally:
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.status = None

    def resize(self, lines, columns):
        self.screen.resize(lines, columns)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # the program has ended
                data = b""
            self.screen.feed(data)
            return bool(data)
        return None

    def wait(self, what, condition):
        """Reads until the condition holds for the screen."""
        end = time.monotonic() + LIMIT_S
        while not condition(self.screen):
            if time.monotonic() > end or self.read(0.1) is False:
                shown = "\n".join(self.screen.text())
                raise TimeoutError(f"{what}: the screen shows\n{shown}")

    def wait_text(self, *texts):
        self.wait(f"{texts}", lambda screen: all(any(t in line for line in screen.text()) for t in texts))

    def end(self):
        """Waits for the program. Returns its exit code."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise TimeoutError("the program does not end")
