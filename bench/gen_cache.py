#!/usr/bin/env python3
"""Generates the trace of a program whose key-value caches grow in every step, for acre replay.

    gen_cache.py [--seed N] [--sequences N] [--layers N] [--tokens N] [--width N] [--steps N] >trace.csv

Writes a log of RMM. A language model continues several sequences side by side. Each layer has a tensor of keys and one
of values for each sequence. Every step replaces them by tensors that are a token longer, as torch.cat does. A sequence
that is done is replaced by one with a new prompt, of `tokens` tokens in the mean. tests/gpu/models/kv.py is such a
program. The same arguments give the same trace.
"""

import argparse
import random

VOCABULARY = 32_000
BYTES = 2  # of an element
GRAIN = 512


class Trace:
    """Writes allocations and frees."""

    def __init__(self):
        self.count = 0
        print("Thread,Time,Action,Pointer,Size,Stream")

    def take(self, elements, element_bytes=BYTES):
        """Allocates a tensor."""
        size = max(GRAIN, -(-elements * element_bytes // GRAIN) * GRAIN)
        self.count += 1
        self.write("allocate", (self.count, size))
        return self.count, size

    def give(self, *tensors):
        """Frees tensors."""
        for tensor in tensors:
            self.write("free", tensor)

    @staticmethod
    def write(action, tensor):
        """Writes a line."""
        print(f"1,00:00:00.000000,{action},{tensor[0] << 12:#x},{tensor[1]},0")


def advance(trace, cache, args, fresh, total):
    """Runs the model on `fresh` tokens of a sequence that has `total` tokens with them."""
    width = args.width
    x = trace.take(fresh * width)
    for layer in range(args.layers):
        norm = trace.take(fresh * width)
        qkv = trace.take(fresh * 3 * width)
        trace.give(norm)
        pair = trace.take(total * width), trace.take(total * width)
        trace.give(*cache[layer])
        cache[layer] = pair
        attended = trace.take(fresh * width)
        trace.give(qkv)
        projected = trace.take(fresh * width)
        trace.give(attended)
        y = trace.take(fresh * width)
        trace.give(projected, x)
        norm = trace.take(fresh * width)
        up = trace.take(fresh * 4 * width)
        trace.give(norm)
        gelu = trace.take(fresh * 4 * width)
        trace.give(up)
        down = trace.take(fresh * width)
        trace.give(gelu)
        x = trace.take(fresh * width)
        trace.give(down, y)
    logits = trace.take(VOCABULARY)
    score = trace.take(VOCABULARY, 4)
    trace.give(score, logits, x)


def main():
    """Writes the trace."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sequences", type=int, default=12)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=12_000)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    pick = random.Random(args.seed)
    trace = Trace()
    trace.take(VOCABULARY * args.width)
    for _ in range(args.layers):
        for factor in (3, 1, 4, 4):
            trace.take(factor * args.width * args.width)

    def begin():
        """Returns a new sequence: its cache, its tokens, and the steps that are left."""
        tokens = pick.randint(args.tokens // 2, args.tokens * 3 // 2)
        cache = [()] * args.layers
        advance(trace, cache, args, tokens, tokens)
        return [cache, tokens, pick.randint(40, 200)]

    running = [begin() for _ in range(args.sequences)]
    for _ in range(args.steps):
        for i, (cache, tokens, left) in enumerate(running):
            if left:
                advance(trace, cache, args, 1, tokens + 1)
                running[i][1:] = tokens + 1, left - 1
                continue
            for pair in cache:
                trace.give(*pair)
            running[i] = begin()


if __name__ == "__main__":
    main()
