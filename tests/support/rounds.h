/* How often a test repeats its loop. A sanitizer makes a round take ten times as long, and finds
 * bugs by what a round touches, not by how often it runs. Builds with a sanitizer or with coverage
 * therefore run few rounds (ACRE_FEW_ROUNDS); the default preset runs all of them. */
#ifndef ACRE_TESTS_ROUNDS_H
#define ACRE_TESTS_ROUNDS_H

#ifdef ACRE_FEW_ROUNDS
#define ROUNDS_ARE_FEW 1
#else
#define ROUNDS_ARE_FEW 0
#endif

#define ROUNDS(all, few) (ROUNDS_ARE_FEW ? (few) : (all))

#endif
