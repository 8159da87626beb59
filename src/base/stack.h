/* Call stacks of the program, for messages that say where memory comes from.
 *
 * Each distinct stack is stored once and has a number. Off (ACRE_STACKS is 0), callers pay for one
 * load and one branch. */
#ifndef ACRE_BASE_STACK_H
#define ACRE_BASE_STACK_H

#include <stdatomic.h>
#include <stdint.h>

#include "acre.h"
#include "base/log.h"
#include "base/parse.h"

enum { ACRE__FRAME_TEXT = 300 }; /* bytes of the text of a frame */

/* Frames to keep of each stack; 0 while stacks are off. */
extern _Atomic uint32_t acre__stack_depth;

static inline int acre__stacks_are_on(void) {
    return (int)__builtin_expect(
        atomic_load_explicit(&acre__stack_depth, memory_order_relaxed) != 0, 0);
}

/* Reads ACRE_STACKS and ACRE_DEBUG, once. Returns ACRE_E_CONFIG if ACRE_STACKS is malformed, or
 * ACRE_E_HOST_MEMORY. */
acre_status acre__stacks_begin(void);

/* Returns the number of the caller's stack, without the frames of this library; 0 if stacks are off
 * or there is no memory left for a new one. Takes a leaf lock for a stack that is new. */
uint32_t acre__stack_take(void);

/* Copies the frames of a stack (return addresses, innermost first) and returns how many there are;
 * 0 for stack 0. */
unsigned acre__stack_frames(uint32_t stack, uintptr_t frames[ACRE__STACK_MOST]);

/* As acre__stack_frames, without acre's own frames. In libacre.a these are found with debug
 * information only. */
unsigned acre__stack_callers(uint32_t stack, uintptr_t frames[ACRE__STACK_MOST]);

/* The innermost frame of the program as text, such as "main at leak.c:14"; "" for stack 0. */
void acre__stack_where(uint32_t stack, char text[ACRE__FRAME_TEXT]);

/* As acre__stack_where, without the folders of the file. */
void acre__stack_brief(uint32_t stack, char text[ACRE__FRAME_TEXT]);

/* Adds the frames of a stack but the innermost, up to main, to a message of `most` lines that has
 * `used`, each as "called by main at leak.c:22". Returns the number of lines. */
unsigned acre__stack_lines(uint32_t stack, char (*lines)[ACRE__LOG_LINE], unsigned used,
                           unsigned most);

#endif
