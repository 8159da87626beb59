/* Writes a pickle: see pickle_write.h. */
#include "pickle_write.h"

#include <string.h>

enum { WRITE_BATCH = 1000 };

void pickle_put(struct pickle_writer *writer, enum pickle_opcode opcode) {
    putc_unlocked((int)opcode, writer->out);
}

/* Writes the lowest bytes of a number, the least significant first. */
static void put_little(struct pickle_writer *writer, uint64_t number, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        putc_unlocked((int)(number >> 8 * i & 0xff), writer->out);
    }
}

void pickle_put_number(struct pickle_writer *writer, uint64_t number) {
    if (number < 256) {
        pickle_put(writer, PICKLE_BININT1);
        put_little(writer, number, 1);
        return;
    }
    if (number <= INT32_MAX) {
        pickle_put(writer, PICKLE_BININT);
        put_little(writer, number, 4);
        return;
    }
    size_t bytes = 4; /* of two's complement: the topmost bit is the sign */
    while (bytes < 9 && (bytes < 8 ? number >> (8 * bytes - 1) != 0 : number >> 63 != 0)) {
        bytes++;
    }
    pickle_put(writer, PICKLE_LONG1);
    put_little(writer, bytes, 1);
    put_little(writer, number, bytes < 8 ? bytes : 8);
    if (bytes == 9) {
        put_little(writer, 0, 1);
    }
}

void pickle_put_text(struct pickle_writer *writer, const char *text) {
    size_t bytes = strlen(text);
    pickle_put(writer, bytes < 256 ? PICKLE_SHORT_BINUNICODE : PICKLE_BINUNICODE);
    put_little(writer, bytes, bytes < 256 ? 1 : 4);
    fwrite_unlocked(text, 1, bytes, writer->out);
}

void pickle_remember(struct pickle_writer *writer, uint32_t *memo) {
    pickle_put(writer, PICKLE_MEMOIZE);
    *memo = ++writer->memo_count;
}

void pickle_recall(struct pickle_writer *writer, uint32_t memo) {
    uint32_t index = memo - 1;
    pickle_put(writer, index < 256 ? PICKLE_BINGET : PICKLE_LONG_BINGET);
    put_little(writer, index, index < 256 ? 1 : 4);
}

void pickle_put_shared(struct pickle_writer *writer, const char *text, uint32_t *memo) {
    if (*memo) {
        pickle_recall(writer, *memo);
    } else {
        pickle_put_text(writer, text);
        pickle_remember(writer, memo);
    }
}

void pickle_list_item(struct pickle_writer *writer, size_t index) {
    if (index % WRITE_BATCH == 0) {
        if (index) {
            pickle_put(writer, PICKLE_APPENDS);
        }
        pickle_put(writer, PICKLE_MARK);
    }
}

void pickle_list_end(struct pickle_writer *writer, size_t count) {
    if (count) {
        pickle_put(writer, PICKLE_APPENDS);
    }
}
