/* Asks a running program over its control socket (src/watch/control.h). */
#ifndef ACRE_CLI_CONTROL_ASK_H
#define ACRE_CLI_CONTROL_ASK_H

#include <stdbool.h>
#include <stddef.h>

#include <argp.h>

/* Parses the argument PID; ends the program with a message if it is malformed. */
long control_parse_pid(struct argp_state *state, const char *text);

/* Sends a request, a word with arguments, to a process. *text is the answer, terminated by a zero
 * that *bytes does not count; the caller frees it. Returns false after a message. If a process has
 * several sockets, since several copies of acre are in it, the longest answer wins. */
bool control_ask(long pid, const char *request, char **text, size_t *bytes);

/* Sends a request that may take any time, and collects all answers. Returns false if there is none;
 * messages name the copies of acre that refused. The caller frees with control_answers_end. */
struct control_answers {
    char **texts;
    size_t count, refused;
};
bool control_ask_all(long pid, const char *request, struct control_answers *answers);
void control_answers_end(struct control_answers *answers);

#endif
