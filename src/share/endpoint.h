/* The place where something is offered: the path of a Unix socket, or a name in the abstract
 * namespace ("@name"), which needs no file. */
#ifndef ACRE_SHARE_ENDPOINT_H
#define ACRE_SHARE_ENDPOINT_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "acre.h"

struct acre__endpoint {
    struct sockaddr_un address;
    socklen_t address_bytes;
    char name[112]; /* as it was given, for messages */
    int is_file;
    /* Of the file that we made: no other is ever removed. */
    dev_t device;
    ino_t inode;
};

/* ACRE_E_NULL, or ACRE_E_INVALID for a path that is empty or too long for a socket. */
acre_status acre__endpoint_from(const char *path, struct acre__endpoint *endpoint);

/* A listening socket there, whose file has exactly this mode before anybody can connect.
 * ACRE_E_BUSY where there is something already, ACRE_E_SYSTEM. */
acre_status acre__endpoint_listen(struct acre__endpoint *endpoint, mode_t mode, int *socket);

/* Removes the file, if it is still the one that was made. */
void acre__endpoint_remove(const struct acre__endpoint *endpoint);

/* A connection; waits until somebody listens. ACRE_E_GONE after the deadline, ACRE_E_PEER where
 * the file does not let this user in, ACRE_E_PROTOCOL for a socket of another sort, ACRE_E_SYSTEM.
 */
acre_status acre__endpoint_connect(const struct acre__endpoint *endpoint, int64_t deadline_ns,
                                   int *socket);

#endif
