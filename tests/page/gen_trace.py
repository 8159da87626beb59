#!/usr/bin/env python3
"""Writes a trace with names that try to break a page: markup, control characters, marks of direction,
very long ones, invalid UTF-8. The events are few, unless PAIRS adds as many allocations with their frees,
which rise to a peak in the middle: then the page needs several levels of detail.

    gen_trace.py FILE [PAIRS]
"""
import struct
import sys

BLOCK = 65536
CONTEXT, ALLOC, FREE, REFUSED, CREATE, RELEASE, MAP, WAIT, MARK = 3, 1, 2, 7, 8, 9, 10, 13, 18
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


def block(thread, sequence, start, made):
    head = struct.pack("<IIQQQII3Q", 0x4B425441, len(made), thread, sequence, start, 100 + thread, 0, 0, 0, 0)
    return (head + made).ljust(BLOCK, b"\0")


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


class Events:
    """The events of one thread. Each block begins with its contexts."""

    def __init__(self):
        self.blocks, self.out, self.address, self.clock = [], b"", 0, 0
        self.begin()

    def begin(self):
        self.start, self.out, self.address = self.clock, b"", 0
        for number in range(1, len(TAGS) + 1):
            stream = 0x700 if number % 2 else 0x800
            self.step(CONTEXT, bytes([number]) + varint(1) + varint(stream) + varint(number) + varint(number % 4 + 1))

    def step(self, kind, payload):
        if len(self.out) > BLOCK - 200 and kind != CONTEXT:
            raise ValueError("the block is full")
        self.clock += 1000000
        self.out += bytes([kind]) + varint(1000000) + payload

    def end(self):
        self.blocks.append((self.start, self.out))

    def make_room(self):
        if len(self.out) > BLOCK - 400:
            self.end()
            self.begin()

    def where(self, block_address, context):
        steps = (block_address >> 8) - (self.address >> 8)
        self.address = block_address
        return bytes([IN_CONTEXT]) + varint(steps << 1 if steps >= 0 else (-steps << 1) - 1) + bytes([context])

    def alloc(self, block_address, context, size):
        self.make_room()
        self.step(ALLOC, self.where(block_address, context) + varint(size))

    def free(self, block_address, context):
        self.make_room()
        self.step(FREE, self.where(block_address, context))


def events(pairs):
    made = Events()
    made.step(CREATE, varint(1) + varint(64 * MIB))
    made.step(MAP, varint(BASE >> 8) + varint(64 * MIB))
    made.step(CREATE, varint(2) + varint(8 * MIB))
    made.step(RELEASE, varint(2) + varint(0))  # of which the library does not know the bytes
    for number in range(1, len(TAGS) + 1):
        made.alloc(BASE + number * 4 * MIB, number, number * 256 * 1024)
    made.step(MARK, text("mark </script> \u202e reversed".encode()))
    made.step(WAIT, bytes([1]))
    made.step(REFUSED, bytes([2]) + varint(1 << 40) + varint(12))
    for number in range(1, len(TAGS) - 1):
        made.free(BASE + number * 4 * MIB, number)
    for pair in range(pairs):
        size = (8 << 20) + 4096 * min(pair, pairs - pair)
        made.alloc(BASE + 4 * MIB, pair % len(TAGS) + 1, size)
        made.free(BASE + 4 * MIB, pair % len(TAGS) + 1)
    made.end()
    return made.blocks


def main():
    rate = 1 << 32  # a unit is a nanosecond
    header = struct.pack("<8sIIIIQQQIIII16s16s", b"ACRETRC\n", 2, 4096, BLOCK, 4242, 0, 1700000000 * 10**9, rate,
                         1, 0, 0, 0, b"test", b"0.0.0").ljust(4096, b"\0")
    with open(sys.argv[1], "wb") as file:
        file.write(header + block(0, 1, 0, names()))
        for sequence, (start, made) in enumerate(events(int(sys.argv[2]) if len(sys.argv) > 2 else 0), 2):
            file.write(block(1, sequence, start, made))


main()
