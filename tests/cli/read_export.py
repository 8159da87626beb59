#!/usr/bin/env python3
"""Reads what `acre export` wrote, as the tools for its formats do, and prints what it found as JSON.

    read_export.py viz FILE        a memory snapshot: Python's pickle, and the fields that memory_viz reads
    read_export.py chrome FILE     Chrome's trace format, checked strictly
    read_export.py folded FILE     folded stacks, by the expression of flamegraph.pl

Exits with 1 and a message if the file is not what its readers expect.
"""

import bisect
import gzip
import json
import pickle
import pickletools
import re
import sys

BLOCK_STATES = {"active_allocated", "active_pending_free", "inactive"}
ACTIONS = {"alloc", "free", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
           "segment_unmap", "oom", "snapshot", "user_defined"}
# The opcodes that PyTorch's own snapshots have.
OPCODES = {"APPEND", "APPENDS", "BINGET", "BININT", "BININT1", "BININT2", "EMPTY_DICT", "EMPTY_LIST", "FRAME", "LONG1",
           "LONG_BINGET", "MARK", "MEMOIZE", "PROTO", "SETITEMS", "SHORT_BINUNICODE", "STOP", "TUPLE2", "NEWFALSE",
           "BINUNICODE", "NEWTRUE", "BINFLOAT"}
HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]|</|<!")


def need(condition, what):
    if not condition:
        sys.exit(f"{sys.argv[2]}: {what}")


def need_number(value, what):
    need(isinstance(value, int) and not isinstance(value, bool) and value >= 0, f"{what} is {value!r}")


def need_text(value, what):
    need(isinstance(value, str), f"{what} is {value!r}")
    need(not HARMFUL.search(value), f"{what} has harmful characters: {value!r}")
    need(len(value) <= 1100, f"{what} is long: {len(value)}")


def load_bytes(path):
    with open(path, "rb") as file:
        data = file.read()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


# ---- memory_viz ----


def check_frames(frames, is_ours):
    need(isinstance(frames, list), "frames is no list")
    for frame in frames:
        need_number(frame["line"], "line")
        if is_ours:
            need_text(frame["name"], "name")
            need_text(frame["filename"], "filename")


def check_segment(segment, is_ours):
    for key in ("device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream"):
        need_number(segment[key], key)
    check_frames(segment["frames"], is_ours)
    address = segment["address"]
    for block in segment["blocks"]:
        need(block["address"] == address, f"a block is at {block['address']}, not {address}")
        need(block["state"] in BLOCK_STATES, f"state {block['state']}")
        need(not is_ours or block["requested_size"] <= block["size"], "a block is smaller than requested")
        check_frames(block["frames"], is_ours)
        address += block["size"]
    need(address == segment["address"] + segment["total_size"], "blocks do not fill their segment")


def check_entry(entry, is_ours):
    need(entry["action"] in ACTIONS, f"action {entry['action']}")
    for key in ("device_free" if entry["action"] == "oom" else "addr", "size", "stream", "time_us"):
        need_number(entry[key], key)
    check_frames(entry["frames"], is_ours)
    if is_ours:
        need_text(entry["user_metadata"], "user_metadata")


def find_peak(snapshot):
    """The peak of live bytes, with blocks from before the recording as memory_viz finds them."""
    seen, live, peak = set(), {}, 0
    for device, trace in enumerate(snapshot["device_traces"]):
        for entry in trace:
            key = device, entry.get("addr")
            if entry["action"].startswith("free") and key not in seen:
                live[key] = entry["size"]
            if entry["action"].startswith("free") or entry["action"] == "alloc":
                seen.add(key)
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            key = segment["device"], block["address"]
            if block["state"] == "active_allocated" and key not in seen:
                live[key] = block["requested_size"]
    before, total = len(live), sum(live.values())
    peak = total
    entries = [(e["time_us"], d, i, e) for d, t in enumerate(snapshot["device_traces"]) for i, e in enumerate(t)]
    for _, device, _, entry in sorted(entries, key=lambda e: e[:3]):
        key = device, entry.get("addr")
        if entry["action"] == "alloc":
            live[key] = entry["size"]
            total += entry["size"]
            peak = max(peak, total)
        elif entry["action"].startswith("free") and key in live:
            total -= live.pop(key)
    return {"peak_bytes": peak, "before": before, "live_bytes": total}


def replay_backwards(snapshot):
    """Undoes the entries from the end, as memory_viz's page does to draw a state: each must be possible."""
    ranges = {device: [] for device in range(256)}
    for segment in snapshot["segments"]:
        bisect.insort(ranges[segment["device"]], (segment["address"], segment["address"] + segment["total_size"]))
    for device, trace in enumerate(snapshot["device_traces"]):
        mapped = ranges[device]
        for entry in reversed(trace):
            action, begin = entry["action"], entry.get("addr", 0)
            end = begin + entry["size"]
            at = bisect.bisect_right(mapped, (begin, 1 << 65)) - 1
            if action in ("segment_free", "segment_unmap"):
                if at + 1 < len(mapped) and mapped[at + 1][0] == end:
                    end = mapped.pop(at + 1)[1]
                if at >= 0 and mapped[at][1] == begin:
                    begin = mapped.pop(at)[0]
                bisect.insort(mapped, (begin, end))
            elif action in ("segment_alloc", "segment_map", "alloc", "free_requested", "free"):
                need(at >= 0 and mapped[at][0] <= begin and end <= mapped[at][1],
                     f"{action} at {begin:#x} is outside of the segments")
            if action in ("segment_alloc", "segment_map"):
                first, last = mapped.pop(at)
                for part in ((first, begin), (end, last)):
                    if part[0] < part[1]:
                        bisect.insort(mapped, part)


def read_viz(path):
    data = load_bytes(path)
    is_ours = b"written by acre" in data[:64]
    for opcode, _, _ in pickletools.genops(data):
        need(opcode.name in OPCODES, f"opcode {opcode.name}")
    need(data[1] <= 4, "memory_viz reads protocols up to 4")
    snapshot = pickle.loads(data)
    for segment in snapshot["segments"]:
        check_segment(segment, is_ours)
    actions = {}
    for trace in snapshot["device_traces"]:
        for entry in trace:
            check_entry(entry, is_ours)
            actions[entry["action"]] = actions.get(entry["action"], 0) + 1
    entries = [e for trace in snapshot["device_traces"] for e in trace]
    if is_ours:
        replay_backwards(snapshot)
    need(not is_ours or all(a["action"] != "free_requested" or b["action"] == "free_completed"
                            for a, b in zip(entries, entries[1:])), "a free is not completed")
    return {"entries": len(entries), "actions": actions, "devices": len(snapshot["device_traces"]),
            "segments": len(snapshot["segments"]), "reserved_bytes": sum(s["total_size"] for s in snapshot["segments"]),
            "names": sorted({f["name"] for e in entries for f in e["frames"]}),
            "tags": sorted({e["user_metadata"] for e in entries if e.get("user_metadata")}),
            "stacks": sum(1 for e in entries if e["action"] == "alloc" and e["frames"]),
            **find_peak(snapshot)}


# ---- Chrome's trace format ----

PHASES = {"M": set(), "C": {"args"}, "i": {"s", "cat"}, "b": {"cat", "id", "args"}, "e": {"cat", "id"}}


def check_event(event):
    need(set(event) >= {"ph", "pid", "tid", "ts", "name"}, f"a key is missing: {event}")
    need(event["ph"] in PHASES, f"phase {event['ph']}")
    need(set(event) >= PHASES[event["ph"]], f"a key is missing: {event}")
    need(set(event) <= {"ph", "pid", "tid", "ts", "name", "args", "cat", "id", "s"}, f"a key is unknown: {event}")
    need_number(event["pid"], "pid")
    need_text(event["name"], "name")
    need(isinstance(event["ts"], (int, float)) and event["ts"] >= 0, f"ts {event['ts']!r}")
    if event["ph"] == "C":
        need(list(event["args"]) == ["bytes"], "a counter has one value")
        need_number(event["args"]["bytes"], "bytes")
    if event["ph"] == "i":
        need(event["s"] in ("g", "p", "t"), f"scope {event['s']!r}")


def refuse_constant(word):
    sys.exit(f"{sys.argv[2]}: {word} is not JSON")


def read_chrome(path):
    data = load_bytes(path)
    need(b"<" not in data, "'<' is not escaped")
    document = json.loads(data.decode("utf-8"), parse_constant=refuse_constant)
    need(set(document) == {"otherData", "displayTimeUnit", "traceEvents"}, f"keys {set(document)}")
    need(document["displayTimeUnit"] in ("ms", "ns"), "displayTimeUnit")
    counters, begun, slices, instants, last = {}, {}, 0, {}, {}
    for event in document["traceEvents"]:
        check_event(event)
        if event["ph"] == "C":
            track = f"{event['pid']}/{event['name']}"
            need(event["ts"] >= last.get(track, 0), f"counter {track} goes back in time")
            last[track] = event["ts"]
            counters[track] = max(counters.get(track, 0), event["args"]["bytes"])
        elif event["ph"] == "b":
            need(event["id"] not in begun, f"slice {event['id']} begins twice")
            begun[event["id"]] = event
        elif event["ph"] == "e":
            begin = begun.pop(event["id"], None)
            need(begin and begin["name"] == event["name"], f"slice {event['id']} ends without a beginning")
            need(event["ts"] >= begin["ts"], f"slice {event['id']} ends before it begins")
            slices += 1
        elif event["ph"] == "i":
            instants[event["name"]] = instants.get(event["name"], 0) + 1
    need(not begun, f"{len(begun)} slices do not end")
    return {"counters": counters, "slices": slices, "instants": instants, "events": len(document["traceEvents"])}


# ---- folded stacks ----


def read_folded(path):
    total, lines, deepest = 0, 0, 0
    names = set()
    for line in load_bytes(path).decode("utf-8").split("\n")[:-1]:
        match = re.match(r"^(.*)\s+?(\d+(?:\.\d*)?)$", line)
        need(match, f"line {line!r}")
        stack = match.group(1).split(";")
        for frame in stack:
            need(frame, f"an empty frame: {line!r}")
            need_text(frame, "frame")
        names.update(stack)
        deepest = max(deepest, len(stack))
        total += int(match.group(2))
        lines += 1
    return {"bytes": total, "lines": lines, "deepest": deepest, "names": sorted(names)}


if __name__ == "__main__":
    readers = {"viz": read_viz, "chrome": read_chrome, "folded": read_folded}
    print(json.dumps(readers[sys.argv[1]](sys.argv[2])))
