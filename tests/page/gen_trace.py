#!/usr/bin/env python3
"""Writes a trace with names that try to break a page: markup, control characters, marks of direction,
very long ones, invalid UTF-8. The events are few and their figures known.

    gen_trace.py FILE
"""
import struct
import sys

BLOCK = 65536
CONTEXT, ALLOC, FREE, REFUSED, CREATE, MAP, WAIT, MARK = 3, 1, 2, 7, 8, 10, 13, 18
TAG_NAME, POOL_NAME, STACK, MODULE_NAME = 14, 15, 19, 20
IN_CONTEXT = 2
MIB = 1 << 20
BASE = 0x10000000000

TAGS = [
    b"</script><script>window.broken=1</script>",
    b"<img src=x onerror=window.broken=2>",
    "over\u202eride \u2066isolate\u200f".encode(),
    b"bell\x07 escape\x1b[31m null\x00 end",
    b"x" * 10000,
    b"\xff\xfe not UTF-8 \xc3",
    b"forward/attention",
    b"${window.broken=3} `${1}` \\u003cb\\u003e",
]


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def text(value):
    return varint(len(value)) + value


def block(thread, sequence, events):
    head = struct.pack("<IIQQQII3Q", 0x4B425441, len(events), thread, sequence, 0, 100 + thread, 0, 0, 0, 0)
    return (head + events).ljust(BLOCK, b"\0")


def names():
    out = b""
    for number, name in enumerate(TAGS, 1):
        out += bytes([TAG_NAME]) + varint(0) + varint(number) + text(name)
    out += bytes([POOL_NAME]) + varint(0) + varint(1) + text(b"pool </title><b>")
    out += bytes([MODULE_NAME]) + varint(0) + varint(1) + text(b"/nowhere/</script><i>module")
    for number in range(1, 5):
        frames = b"1:10 1:%x 1:9999" % (number * 256)
        out += bytes([STACK]) + varint(0) + varint(number) + text(frames)
    return out


def events():
    out, address = b"", 0

    def step(kind, payload):
        nonlocal out
        out += bytes([kind]) + varint(1000000) + payload

    def where(block_address, context):
        nonlocal address
        steps = (block_address >> 8) - (address >> 8)
        address = block_address
        return bytes([IN_CONTEXT]) + varint(steps << 1 if steps >= 0 else (-steps << 1) - 1) + bytes([context])

    for number in range(1, len(TAGS) + 1):
        stream = 0x700 if number % 2 else 0x800
        step(CONTEXT, bytes([number]) + varint(1) + varint(stream) + varint(number) + varint(number % 4 + 1))
    step(CREATE, varint(1) + varint(64 * MIB))
    step(MAP, varint(BASE >> 8) + varint(64 * MIB))
    for number in range(1, len(TAGS) + 1):
        step(ALLOC, where(BASE + number * 4 * MIB, number) + varint(number * 256 * 1024))
    step(MARK, text("mark </script> \u202e reversed".encode()))
    step(WAIT, bytes([1]))
    step(REFUSED, bytes([2]) + varint(1 << 40) + varint(12))
    for number in range(1, len(TAGS) - 1):
        step(FREE, where(BASE + number * 4 * MIB, number))
    return out


def main():
    rate = 1 << 32  # a unit is a nanosecond
    header = struct.pack("<8sIIIIQQQIIII16s16s", b"ACRETRC\n", 2, 4096, BLOCK, 4242, 0, 1700000000 * 10**9, rate,
                         1, 0, 0, 0, b"test", b"0.0.0").ljust(4096, b"\0")
    with open(sys.argv[1], "wb") as file:
        file.write(header + block(0, 1, names()) + block(1, 2, events()))


main()
