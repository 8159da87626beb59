/* See control_ask.h. The other end is untrusted: lengths are checked, and it may end at any time.
 */
#include "control_ask.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli.h"
#include "watch/control.h"
#include "watch/publish_folder.h"

enum { ASK_WAIT_S = 60 };
static const uint64_t ASK_MOST = (uint64_t)8 << 30; /* bytes of an answer */

struct ask {
    long pid;
    const char *request;
    struct control_answers *all; /* NULL: only the longest answer is wanted, and soon */
    char *text;
    size_t bytes;
    bool has_answer;
    char error[ACRE__CONTROL_LINE]; /* of the last program that refused */
};

/* Reads exactly `bytes` bytes. */
static bool ask_read(int from, char *text, size_t bytes) {
    for (size_t got = 0; got < bytes;) {
        ssize_t now = recv(from, text + got, bytes - got, 0);
        if (now <= 0) {
            return false;
        }
        got += (size_t)now;
    }
    return true;
}

static bool ask_read_line(int from, char line[ACRE__CONTROL_LINE]) {
    for (size_t i = 0; i < ACRE__CONTROL_LINE; i++) {
        if (!ask_read(from, &line[i], 1)) {
            return false;
        }
        if (line[i] == '\n') {
            line[i] = '\0';
            return true;
        }
        if (line[i] < ' ' || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    return false;
}

static void ask_take(struct ask *ask, int from, const char *line) {
    char *end = NULL;
    errno = 0;
    uint64_t bytes = strtoull(line, &end, 10);
    if (errno || *end || bytes > ASK_MOST) {
        snprintf(ask->error, sizeof ask->error, "its answer is damaged");
        return;
    }
    char *text = malloc((size_t)bytes + 1);
    if (!text || !ask_read(from, text, (size_t)bytes)) {
        snprintf(ask->error, sizeof ask->error, text ? "it ended" : "out of memory");
        free(text);
        return;
    }
    text[bytes] = '\0';
    if (ask->all) {
        char **texts = realloc(ask->all->texts, (ask->all->count + 1) * sizeof *texts);
        if (!texts) {
            snprintf(ask->error, sizeof ask->error, "out of memory");
            free(text);
            return;
        }
        ask->all->texts = texts;
        texts[ask->all->count++] = text;
        ask->has_answer = true;
        return;
    }
    if (ask->has_answer && ask->bytes >= bytes) {
        free(text);
        return;
    }
    free(ask->text);
    ask->text = text;
    ask->bytes = (size_t)bytes;
    ask->has_answer = true;
}

static void ask_talk(struct ask *ask, int to) {
    char line[ACRE__CONTROL_LINE];
    char *request = cli_format("%s\n", ask->request);
    bool is_sent = send(to, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request);
    free(request);
    if (!is_sent || !ask_read_line(to, line)) {
        snprintf(ask->error, sizeof ask->error, "it does not answer");
    } else if (strncmp(line, "ok ", 3) == 0) {
        ask_take(ask, to, line + 3);
    } else {
        snprintf(ask->error, sizeof ask->error, "%s",
                 strncmp(line, "error ", 6) == 0 ? line + 6 : "its answer is damaged");
    }
}

/* If all answers are wanted, each refusal has a message. */
static void ask_refused(struct ask *ask) {
    if (ask->all && ask->error[0]) {
        cli_say("process %ld: %s", ask->pid, ask->error);
        ask->all->refused++;
        ask->error[0] = '\0';
    }
}

/* Connects to a socket of the folder; one that nobody listens on is a leftover, and is removed. */
static void ask_socket(struct ask *ask, int folder, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval wait = {.tv_sec = ask->all ? 0 : ASK_WAIT_S}; /* 0: no limit */
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%.64s", folder, name);
    int to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (to < 0) {
        return;
    }
    (void)setsockopt(to, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    (void)setsockopt(to, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    if (connect(to, (struct sockaddr *)&address, sizeof address) == 0) {
        ask_talk(ask, to);
        ask_refused(ask);
    } else if (errno == ECONNREFUSED) {
        (void)unlinkat(folder, name, 0);
    }
    close(to);
}

static void ask_folder(struct ask *ask, const char *path) {
    int folder = acre__publish_folder_open(path, 0);
    DIR *list = folder >= 0 ? opendir(path) : NULL;
    const struct dirent *entry;
    for (int i = 0; list && i < ACRE__PUBLISH_ENTRIES && (entry = readdir(list)); i++) {
        if (acre__publish_control_pid(entry->d_name) == ask->pid) {
            ask_socket(ask, folder, entry->d_name);
        }
    }
    if (list) {
        (void)closedir(list);
    }
    if (folder >= 0) {
        close(folder);
    }
}

static void ask_explain(const struct ask *ask) {
    if (ask->error[0]) {
        cli_say("process %ld: %s", ask->pid, ask->error);
    } else if (kill((pid_t)ask->pid, 0) != 0 && errno == ESRCH) {
        cli_say("there is no process %ld", ask->pid);
    } else {
        cli_say("process %ld takes no requests: start it under 'acre run' on a GPU, or, if it uses "
                "acre, with ACRE_CONTROL=1",
                ask->pid);
    }
}

/* Returns the program that an `acre run` with a report or a limit has started; 0 if the process is
 * something else. */
static long ask_program_of(long pid) {
    char path[64];
    struct stat its, own;
    long child = 0;
    snprintf(path, sizeof path, "/proc/%ld/exe", pid);
    if (stat(path, &its) != 0 || stat("/proc/self/exe", &own) != 0 || its.st_ino != own.st_ino ||
        its.st_dev != own.st_dev) {
        return 0;
    }
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", pid, pid);
    FILE *in = fopen(path, "re");
    if (in) {
        if (fscanf(in, "%ld", &child) != 1) {
            child = 0;
        }
        (void)fclose(in);
    }
    return child;
}

/* Asks all sockets of the process. */
static bool ask_folders(struct ask *ask) {
    char path[ACRE__PATH_BYTES];
    if (strlen(ask->request) + 2 > ACRE__CONTROL_LINE) {
        snprintf(ask->error, sizeof ask->error, "the request is too long");
        return false;
    }
    for (long pid = ask->pid; pid > 0; pid = ask_program_of(pid)) {
        ask->pid = pid;
        for (unsigned i = 0; acre__publish_folder(i, path); i++) {
            ask_folder(ask, path);
        }
        if (ask->has_answer || ask->error[0] || (ask->all && ask->all->refused)) {
            break;
        }
    }
    return ask->has_answer;
}

bool control_ask_all(long pid, const char *request, struct control_answers *answers) {
    struct ask ask = {.pid = pid, .request = request, .all = answers};
    *answers = (struct control_answers){0};
    if (!ask_folders(&ask) && !answers->refused) {
        ask_explain(&ask);
    }
    return answers->count > 0;
}

void control_answers_end(struct control_answers *answers) {
    for (size_t i = 0; i < answers->count; i++) {
        free(answers->texts[i]);
    }
    free(answers->texts);
    *answers = (struct control_answers){0};
}

bool control_ask(long pid, const char *request, char **text, size_t *bytes) {
    struct ask ask = {.pid = pid, .request = request};
    if (!ask_folders(&ask)) {
        ask_explain(&ask);
        return false;
    }
    *text = ask.text;
    *bytes = ask.bytes;
    return true;
}

long control_parse_pid(struct argp_state *state, const char *text) {
    uint64_t pid = 0;
    if (acre__parse_number(text, &pid) != 0 || !pid || pid > INT32_MAX) {
        argp_error(state, "PID is the number of a process, not '%s'", text);
    }
    return (long)pid;
}
