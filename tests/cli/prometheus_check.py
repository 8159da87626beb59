#!/usr/bin/env python3
"""Checks a file in Prometheus' text exposition format, more strictly than Prometheus does.

    prometheus_check.py FILE

Each metric has one HELP and one TYPE line, in this order, and all its samples follow at once. Names, labels, escapes and
values are valid, no sample is there twice, none has a timestamp (node_exporter refuses those), counters end in _total and
gauges do not. Prints the number of samples, or the first fault, and exits with 1.
"""

import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})\{{((?:{LABEL})(?:,{LABEL})*)\}} ([0-9]+(?:\.[0-9]+)?)")
TYPES = ("counter", "gauge")


def check(text):
    """Returns the number of samples. Raises ValueError."""
    if text and not text.endswith("\n"):
        raise ValueError("the last line has no end")
    helped, typed, seen, current, samples = set(), {}, set(), None, 0
    for number, line in enumerate(text.splitlines(), 1):
        where = f"line {number}: {line[:120]!r}"
        if not line.isascii() or not line.isprintable():
            raise ValueError(f"{where}: characters that are not printable ASCII")
        if found := re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line):
            current = found[1]
            if current in helped:
                raise ValueError(f"{where}: a second HELP; the samples of a metric must stand together")
            helped.add(current)
        elif found := re.fullmatch(rf"# TYPE ({NAME}) (\w+)", line):
            if found[1] != current or found[1] in typed or found[2] not in TYPES:
                raise ValueError(f"{where}: TYPE without its HELP, twice, or of an unknown type")
            typed[found[1]] = found[2]
        elif found := SAMPLE.fullmatch(line):
            if found[1] != current or found[1] not in typed:
                raise ValueError(f"{where}: not below its HELP and TYPE")
            if found[1].endswith("_total") != (typed[found[1]] == "counter"):
                raise ValueError(f"{where}: counters end in _total, gauges do not")
            if re.search("_(count|sum|bucket)$", found[1]):
                raise ValueError(f"{where}: an ending of histograms")
            labels = re.findall(r'([a-zA-Z_][a-zA-Z0-9_]*)="', found[2])
            if len(set(labels)) != len(labels):
                raise ValueError(f"{where}: a label twice")
            if (found[1], found[2]) in seen:
                raise ValueError(f"{where}: a sample twice")
            seen.add((found[1], found[2]))
            samples += 1
        else:
            raise ValueError(f"{where}: not a line of the format")
    if helped != set(typed):
        raise ValueError("a HELP without TYPE")
    return samples


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    try:
        print(check(text))
    except ValueError as fault:
        sys.exit(f"prometheus_check.py: {fault}")


if __name__ == "__main__":
    main()
