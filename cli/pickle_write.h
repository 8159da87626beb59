/* Writes a pickle of protocol 4 to a stream, with opcodes that pickle.h lists: Python reads it, the
 * page of PyTorch's memory_viz, and acre. Errors stay in the stream. */
#ifndef ACRE_CLI_PICKLE_WRITE_H
#define ACRE_CLI_PICKLE_WRITE_H

#include <stdint.h>
#include <stdio.h>

#include "pickle.h"

struct pickle_writer {
    FILE *out;
    uint32_t memo_count;
};

void pickle_put(struct pickle_writer *writer, enum pickle_opcode opcode);
void pickle_put_number(struct pickle_writer *writer, uint64_t number);
/* Texts are valid UTF-8. */
void pickle_put_text(struct pickle_writer *writer, const char *text);

/* Remembers the value that was written last, in *memo; then writes it again. A memo of 0 is none.
 */
void pickle_remember(struct pickle_writer *writer, uint32_t *memo);
void pickle_recall(struct pickle_writer *writer, uint32_t memo);
/* Writes a text; the first time it is remembered in *memo. */
void pickle_put_shared(struct pickle_writer *writer, const char *text, uint32_t *memo);

/* Writes the part of a list around item `index` of `count`: marks and appends. A reader handles the
 * items between two marks at once, and that of PyTorch's page has a limit, so there are at most
 * 1000, as in Python. */
void pickle_list_item(struct pickle_writer *writer, size_t index);
void pickle_list_end(struct pickle_writer *writer, size_t count);

#endif
