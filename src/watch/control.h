/* A socket on which the user's other programs ask this one for something (ACRE_CONTROL=1), such as
 * `acre snapshot PID`.
 *
 * The socket is in the folder of published statistics (publish_folder.h), which belongs to the user
 * alone; a request of another user is refused, too. A thread of acre's answers one request at a
 * time. A request is one line: a word, then arguments. The answer is the line "ok BYTES" and so
 * many bytes, or the line "error MESSAGE". */
#ifndef ACRE_WATCH_CONTROL_H
#define ACRE_WATCH_CONTROL_H

#include "acre.h"

enum {
    ACRE__CONTROL_LINE = 8192, /* most bytes of a line; an argument may be a path */
    ACRE__CONTROL_WORDS = 8
};

/* Answers a request: writes to `out`, or returns an error with its detail. Runs in the thread, with
 * no lock held. Other requests wait meanwhile. Only those that suspend and resume wait for the GPU,
 * until a time that their arguments give. */
typedef acre_status (*acre__control_fn)(int out, const char *arguments);

/* Registers the function for a word. At most ACRE__CONTROL_WORDS; registering again is a no-op. */
void acre__control_add(const char *word, acre__control_fn fn);

/* Reads ACRE_CONTROL and begins to listen, once. Returns ACRE_E_CONFIG if the variable is
 * malformed; a socket that cannot be created is a warning. */
acre_status acre__control_begin(void);

#endif
