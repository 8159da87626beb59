/* Files that a command writes. A command never destroys a file by accident: it replaces an existing
 * file only if acre wrote it for the same purpose, or with --force. It replaces no input without
 * --force, whatever the path: the same name, a symbolic link or a hard link.
 *
 * A command checks all its files with write_check before its work. Then it composes each document
 * in memory and writes it with write_end, which replaces the file in one step: after a failure an
 * earlier file is as before. A large document is written as it is composed, with write_open and
 * write_close, which replace the file in one step, too. "-" is standard output. */
#ifndef ACRE_CLI_WRITE_FILE_H
#define ACRE_CLI_WRITE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Kinds of files, by which acre recognises a file that it wrote before. */
enum write_kind {
    WRITE_OFFSETS,    /* acre plan --out */
    WRITE_SVG,        /* acre plan --svg, acre bench --chart, plan.svg of acre demo */
    WRITE_BENCH,      /* acre bench --output */
    WRITE_PAGE,       /* index.html of acre demo */
    WRITE_TRACE,      /* acre trace --pack */
    WRITE_RECORDING,  /* acre run --trace */
    WRITE_RUN,        /* acre run --json */
    WRITE_REPORT,     /* acre report */
    WRITE_EXPORT,     /* acre export, where the format has room for a name */
    WRITE_PROMETHEUS, /* acre stats and acre ps, --prometheus --output */
    WRITE_SNAPSHOT    /* acre snapshot */
};

struct write_file {
    const char *path; /* "-": standard output */
    enum write_kind kind;
    bool force;                /* --force */
    bool makes_folder;         /* the command creates the folder later */
    const char *const *inputs; /* files that the command reads; "-" and NULL are skipped */
    size_t input_count;
    FILE *stream; /* between write_begin and write_end */
    char *text;
    size_t bytes;
    char *fresh, *target; /* between write_open and write_close: a new file, and what it replaces */
};

/* Returns true if the path is "-", standard input or output. */
bool write_is_stdout(const char *path);

/* Checks whether the file may be written. Returns CLI_OK, or CLI_CANNOT after a message. */
int write_check(const struct write_file *file);

/* Begins a document in memory and returns its stream. */
FILE *write_begin(struct write_file *file);
/* Writes the document to its file, after a second check. Returns CLI_OK, or CLI_CANNOT after a
 * message. */
int write_end(struct write_file *file);

/* Checks the file and begins a document that is written while it is composed. Returns CLI_OK, or
 * CLI_CANNOT after a message. */
int write_open(struct write_file *file);
/* Ends the document and replaces the file. Returns as write_end. */
int write_close(struct write_file *file);

#endif
