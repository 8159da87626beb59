/* The address of a share: the path of a Unix socket, or a name in the abstract namespace ("@name"),
 * which needs no file. */
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
    char name[112]; /* as the caller passed it, for messages */
    int is_file;
    /* Identify the file that this endpoint created: no other file is ever removed. */
    dev_t device;
    ino_t inode;
};

/* Parses a path. ACRE_E_NULL, or ACRE_E_INVALID if it is empty or too long for a socket. */
acre_status acre__endpoint_from(const char *path, struct acre__endpoint *endpoint);

/* Creates a listening socket; its file has exactly this mode before anybody can connect.
 * ACRE_E_BUSY if the address is in use, ACRE_E_SYSTEM. */
acre_status acre__endpoint_listen(struct acre__endpoint *endpoint, mode_t mode, int *socket);

/* Removes the file if it is still the one that this endpoint created. */
void acre__endpoint_remove(const struct acre__endpoint *endpoint);

/* Connects; waits for a listener until the deadline. ACRE_E_GONE after the deadline, ACRE_E_PEER if
 * the file's mode denies this user, ACRE_E_PROTOCOL for a socket of another type, ACRE_E_SYSTEM. */
acre_status acre__endpoint_connect(const struct acre__endpoint *endpoint, int64_t deadline_ns,
                                   int *socket);

#endif
