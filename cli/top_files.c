/* Published statistics files: see top_files.h. */
#include "top_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watch/publish_folder.h"

enum { TOP_FILES = 1024 };

/* A reading in progress. */
struct files_reading {
    top_file_fn fn;
    void *user;
    size_t count;
    struct top_files *found;
};

static void file_read(struct files_reading *reading, int folder, const char *name) {
    struct stats_view view;
    switch (stats_open_published(folder, name, &view)) {
    case STATS_RUNNING:
        if (reading->count < TOP_FILES) {
            reading->count++;
            reading->fn(reading->user, &view);
        } else {
            reading->found->left_out++;
        }
        stats_close(&view);
        break;
    case STATS_DAMAGED:
        reading->found->damaged++;
        break;
    case STATS_OTHER:
        /* Files that are being created begin with a dot; there are control sockets, too. */
        reading->found->damaged += name[0] != '.' && acre__publish_control_pid(name) < 0;
        break;
    case STATS_ENDED:
        break;
    }
}

/* Reads a folder and closes it. */
static void folder_read(struct files_reading *reading, int folder) {
    DIR *list = fdopendir(folder);
    const struct dirent *entry;
    if (!list) {
        close(folder);
        return;
    }
    for (size_t i = 0; i < ACRE__PUBLISH_ENTRIES && (entry = readdir(list)); i++) {
        file_read(reading, folder, entry->d_name);
    }
    closedir(list);
}

void top_files_read(top_file_fn fn, void *user, struct top_files *found) {
    struct files_reading reading = {.fn = fn, .user = user, .found = found};
    char path[ACRE__PATH_BYTES], first[ACRE__PATH_BYTES] = "";
    *found = (struct top_files){0};
    for (unsigned i = 0; acre__publish_folder(i, path); i++) {
        if (i == 0) {
            memcpy(first, path, strlen(path) + 1);
            snprintf(found->folder, sizeof found->folder, "%.255s", path);
            stats_text_clean(found->folder, sizeof found->folder);
        } else if (strcmp(path, first) == 0) {
            continue; /* XDG_RUNTIME_DIR is /run/user/UID, as it should be */
        }
        unsigned before = found->damaged + found->refused;
        int folder = acre__publish_folder_open(path, 0);
        if (folder >= 0) {
            folder_read(&reading, folder);
        } else if (errno == EPERM || errno == ELOOP || errno == ENOTDIR) {
            found->refused++;
        }
        if (!before && found->damaged + found->refused) { /* the first one that a note is about */
            snprintf(found->folder, sizeof found->folder, "%.255s", path);
            stats_text_clean(found->folder, sizeof found->folder);
        }
    }
}
