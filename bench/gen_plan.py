#!/usr/bin/env python3
"""Generates an instance for the placer that resembles the compiled graph of a large model.

    gen_plan.py [COUNT [SEED]] >instance.csv        default: COUNT 62000, SEED 1

Writes id,lower,upper,size. The same count and seed give the same instance on every machine. The
distributions of lifetimes and sizes are those of S_1, an instance of 28,526 buffers. Most buffers
live for a few steps, one in nine lives from the start to three fifths of the time, and few are in
between. A size is a product of small powers of 2 and 3, plus 1.
"""

import sys

MASK = (1 << 64) - 1

# (SHARE, LEAST, MORE): SHARE of 1000 buffers live for LEAST steps and up to MORE - 1 more.
# LONG has (SHARE, LEAST, MOST): at least 1/LEAST of the time, and up to 1/MOST of it more.
LIVES = [(56, 1, 2), (698, 3, 7), (59, 10, 90), (23, 100, 900)]
LONG = [(44, 45, 9), (7, 9, 3)]


class Random:
    """splitmix64"""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return (x ^ (x >> 31)) % bound


def life(random, span):
    kind = random.below(1000)
    for share, least, more in LIVES:
        if kind < share:
            return random.below(span), least + random.below(more)
        kind -= share
    for share, least, most in LONG:
        if kind < share:
            return random.below(span), span // least + random.below(span // most)
        kind -= share
    return 0, span * 3 // 5


def size(random):
    while True:
        twos, threes = random.below(25), random.below(6)
        bytes_ = (1 << twos) * 3**threes + 1
        if bytes_ <= 1 << 24 or (bytes_ <= 1 << 28 and random.below(16) == 0):
            return bytes_


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 62000
    random = Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    span = count * 3 // 2
    print("id,lower,upper,size")
    for i in range(count):
        lower, steps = life(random, span)
        print(f"{i},{lower},{min(lower + steps, span)},{size(random)}")


if __name__ == "__main__":
    main()
