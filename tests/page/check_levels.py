#!/usr/bin/env python3
"""Checks the levels of detail in a page of acre report: each has the peak and the state at the end.

    check_levels.py PAGE LEVELS        LEVELS: how many the page must have
"""
import base64
import json
import re
import sys


def unpack(column):
    """Returns the numbers of a column, as cli/report_pack.c packs them."""
    values, value, folded, shift = [], 0, 0, 0
    for byte in base64.b64decode(column):
        folded |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            value += -(folded + 1) // 2 if folded % 2 else folded // 2
            values.append(value)
            folded = shift = 0
    return values


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        data = re.search(r'id="data">([^<]*)<', file.read())
    report = json.loads(data.group(1))["report"]
    levels = report["levels"]
    assert len(levels) == int(sys.argv[2]), f"{len(levels)} levels"
    for level in levels:
        events, times, requested = (unpack(level[name]) for name in ("event", "time", "requested"))
        assert len(events) == len(times) == len(requested) == level["count"]
        assert max(requested) == report["peak_bytes"], "a level lacks the peak"
        assert times[requested.index(max(requested))] == report["peak_ns"], "the peak is elsewhere"
        assert requested[-1] == report["live_bytes"] and events[-1] == report["steps"] - 1
        assert all(a < b for a, b in zip(events, events[1:])) and times == sorted(times)
        for key in ("tag", "stack", "stream", "size"):
            sums = [sum(parts) for parts in zip(*(unpack(column) for column in level[key]))]
            assert all(a <= b for a, b in zip(sums, requested)), f"areas by {key} exceed what is live"
            if report[f"{key}_count"] <= len(level[key]):
                assert sums == requested, f"areas by {key} do not sum up"
    counts = [level["count"] for level in levels]
    assert counts == sorted(counts, reverse=True) and len(set(counts)) == len(counts)


main()
