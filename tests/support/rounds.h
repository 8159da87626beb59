/* How often a test repeats itself. A sanitizer makes a round ten times as long, and sees what a
 * round touches, not how often: there, and where lines are counted, a few must do. The default
 * preset does them all. */
#ifndef ACRE_TESTS_ROUNDS_H
#define ACRE_TESTS_ROUNDS_H

#ifdef ACRE_FEW_ROUNDS
#define ROUNDS_ARE_FEW 1
#else
#define ROUNDS_ARE_FEW 0
#endif

#define ROUNDS(all, few) (ROUNDS_ARE_FEW ? (few) : (all))

#endif
