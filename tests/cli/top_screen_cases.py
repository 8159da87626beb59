#!/usr/bin/env python3
"""Presses keys in the live view of `acre top` and checks what the terminal shows.

    top_screen_cases.py ACRE ONE TWO EVIL OTHER

ONE, TWO and EVIL are processes that publish (top_cases.c): ONE holds 12 MiB with tags, TWO 64 MiB, EVIL has control
characters in its name; TWO is killed here. OTHER is one that only NVML knows.
"""

import os
import re
import signal
import sys

from terminal_screen import Terminal

ESCAPE = "\x1b"


def expect(condition, what, screen):
    if not condition:
        shown = "\n".join(screen.text())
        sys.exit(f"FAILED: {what}; the screen shows\n{shown}")


def line_of(screen, word):
    """Returns the line with the word, or an empty one."""
    return next((line for line in screen.text() if re.search(rf"(^|\s){word}(\s|$)", line)), "")


def column_of(screen, pattern):
    """Returns the lines of the list whose PID matches, in order."""
    return [int(found[1]) for line in screen.text() if (found := re.match(rf"\s*({pattern})\s", line))]


def start(acre, lines, columns, *options, **variables):
    variables = {"LC_ALL": "C.UTF-8", "NO_COLOR": "", **variables}
    return Terminal([acre, "top", "--interval", "0.1", *options], lines, columns, **variables)


def quit_view(terminal, key="q"):
    terminal.press(key)
    code = terminal.end()
    expect(code == 0, f"exit code 0, not {code}", terminal.screen)


def check_list(acre, one, two, evil, other):
    """The list at 80x24: columns, cards, order, selection."""
    terminal = start(acre, 24, 80)
    screen = terminal.screen
    terminal.wait_text(one, two, evil, other, "ALLOC/S", "q quit")
    terminal.wait("rates", lambda s: re.search(r"MiB +0 ", line_of(s, one)))
    header = line_of(screen, "PID")
    expect(header.split() == ["PID", "CARD", "LIVE", "HELD", "PEAK", "ALLOC/S", "TREND", "PROGRAM"], "the columns", screen)
    row = line_of(screen, one)
    for title in ("PID", "LIVE", "HELD", "PEAK", "ALLOC/S"):  # numbers end below their title
        end = header.index(title) + len(title)
        expect(row[end - 1] != " " and row[end : end + 1] in (" ", ""), f"{title} is aligned", screen)
    expect(re.search(r"12 MiB +1[0-9.]* MiB +1[0-9.]* MiB", row), "live, held and peak", screen)
    expect("GPU 0  [|||||" in "\n".join(screen.text()), "the bar of a card", screen)
    expect("20 GiB of 80 GiB (25 %)" in line_of(screen, "busy"), "the memory of a card", screen)
    expect("3 soft devices" in "\n".join(screen.text()), "the soft devices", screen)
    expect("\u2588" in row, "a sparkline", screen)
    expect("evil?[31m???" in line_of(screen, evil), "a harmless name", screen)
    expect(re.search(r"GPU 1 +- +1 GiB +- +-", line_of(screen, other)), "a process that only NVML knows", screen)
    pids = column_of(screen, f"{one}|{two}|{other}")
    expect(pids == [int(other), int(two), int(one)], f"the largest first, not {pids}", screen)
    expect(len(screen.selected()) == 1 and other in screen.selected()[0], "the first process is selected", screen)
    terminal.press("j")
    terminal.wait("the cursor moves", lambda s: s.selected() and two in s.selected()[0])
    terminal.press("sssss")  # by name
    terminal.wait_text("by name")
    terminal.wait("the cursor stays on its process", lambda s: s.selected() and two in s.selected()[0])
    terminal.press("S")  # by pid
    terminal.wait("by pid", lambda s: column_of(s, f"{one}|{two}") == sorted([int(one), int(two)]))
    terminal.press("r")
    terminal.wait("reversed", lambda s: column_of(s, f"{one}|{two}") == sorted([int(one), int(two)], reverse=True))
    expect(screen.colours, "colour", screen)
    quit_view(terminal)


def check_process(acre, one):
    """One process: its pools and tags, and the way back."""
    terminal = start(acre, 24, 80, "--filter", one)
    screen = terminal.screen
    terminal.wait_text(one, "match")
    terminal.press("\r")
    terminal.wait_text("train/forward", "train/backward", "soft:0 device default", "DEVICE", "POOL", "TAG", "Esc back")
    expect(re.search(r"8 MiB +- +8 MiB", line_of(screen, "train/forward")), "live and peak of a tag", screen)
    tags = [line.split()[-1] for line in screen.text() if "train" in line]
    expect(tags == ["train", "train/forward", "train/backward"], f"the largest first, not {tags}", screen)
    terminal.press("/")
    terminal.press("BACK")
    terminal.wait_text("filter: BACK")
    terminal.wait("filtered", lambda s: not line_of(s, "train/forward") and line_of(s, "train/backward"))
    terminal.press("\x7f\x7f\x7f\x7fforw\r")
    terminal.wait("another filter", lambda s: line_of(s, "train/forward") and not line_of(s, "train/backward"))
    terminal.press(ESCAPE)
    terminal.wait_text("train/backward")
    terminal.press(ESCAPE)
    terminal.wait_text("PROGRAM")
    terminal.press("?")
    terminal.wait_text("keys", "any key: back")
    terminal.press("x")
    terminal.wait_text("PROGRAM")
    terminal.press(" ")
    terminal.wait_text("PAUSED")
    quit_view(terminal)


def check_sizes(acre, one):
    """A narrow terminal leaves columns out; a resize is followed; a tiny one does not crash."""
    terminal = start(acre, 24, 40)
    terminal.wait_text(one)
    expect(line_of(terminal.screen, "PID").split() == ["PID", "LIVE", "HELD", "PROGRAM"], "few columns", terminal.screen)
    terminal.resize(30, 130)
    terminal.wait_text(one, "BYTES/S", "ALLOC/S", "TREND", "CARD")
    terminal.resize(24, 60)
    terminal.wait("fewer columns", lambda s: "PEAK" in line_of(s, "PID") and "BYTES/S" not in line_of(s, "PID"))
    for lines, columns in ((1, 1), (2, 5), (5, 12), (3, 200), (8, 20)):
        terminal.resize(lines, columns)
        terminal.press("j\rk?x" + ESCAPE)
        terminal.wait("it is drawn", lambda s: any(s.text()))
    terminal.resize(24, 80)
    terminal.wait_text(one, "ALLOC/S")
    quit_view(terminal)


def check_styles(acre, one):
    """NO_COLOR and a locale without UTF-8."""
    terminal = start(acre, 24, 80, NO_COLOR="1", LC_ALL="C")
    terminal.wait_text(one)
    terminal.wait("a sparkline of ASCII", lambda s: re.search(r"###+", line_of(s, one)))
    expect(not terminal.screen.colours, "no colour", terminal.screen)
    quit_view(terminal)


def check_death(acre, one, two):
    """A process is killed while it is listed, and while it is open."""
    terminal = start(acre, 24, 80, "--pid", two)
    terminal.wait_text("serve", "64 MiB")
    os.kill(int(two), signal.SIGKILL)
    terminal.wait_text(f"process {two} has ended")
    terminal.press(ESCAPE)
    terminal.wait("it has gone", lambda s: line_of(s, one) and not line_of(s, two))
    os.kill(terminal.pid, signal.SIGTERM)
    code = terminal.end()
    expect(code == -signal.SIGTERM, f"death by SIGTERM, not {code}", terminal.screen)


def main():
    acre, one, two, evil, other = sys.argv[1:]
    check_list(acre, one, two, evil, other)
    check_process(acre, one)
    check_sizes(acre, one)
    check_styles(acre, one)
    check_death(acre, one, two)
    terminal = start(acre, 24, 80)
    terminal.wait_text(one)
    quit_view(terminal, "\x03")
    print("all screens are as expected")


if __name__ == "__main__":
    main()
