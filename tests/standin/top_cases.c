/* A program for tests of `acre top`: opens a soft device, allocates from pools with and without
 * tags, prints "ready", and does what the lines of its standard input say until that ends:
 *
 *   alloc MIB [TAG]   allocates a block of the default pool, with a tag
 *   free              frees all blocks
 *   churn COUNT       allocates and frees COUNT blocks of 1000 bytes
 *   fork              starts a child that exits
 *   name TEXT         changes the name of the process
 *
 * It prints "done" after each line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <acre.h>

enum { BLOCKS = 256 };

static struct {
    acre_device *device;
    void *blocks[BLOCKS];
    unsigned count;
} top;

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        printf("%s: %s\n", what, acre_last_detail());
        exit(9);
    }
}

static void top_alloc(unsigned long mib, const char *tag) {
    char path[256];
    unsigned depth = 0;
    snprintf(path, sizeof path, "%s", tag);
    for (char *at = path, *name; (name = strsep(&at, "/"));) {
        if (*name) {
            need(acre_tag_push(name), "acre_tag_push");
            depth++;
        }
    }
    if (top.count < BLOCKS)
        need(acre_alloc(top.device, mib << 20, NULL, &top.blocks[top.count++]), "acre_alloc");
    while (depth--)
        need(acre_tag_pop(), "acre_tag_pop");
}

static void top_free(void) {
    while (top.count)
        need(acre_free(top.blocks[--top.count], NULL), "acre_free");
}

static void top_churn(unsigned long count) {
    void *p;
    while (count--) {
        need(acre_alloc(top.device, 1000, NULL, &p), "acre_alloc");
        need(acre_free(p, NULL), "acre_free");
    }
}

static void top_fork(void) {
    pid_t child = fork();
    if (child == 0)
        exit(0);
    (void)waitpid(child, NULL, 0);
}

static void top_line(const char *line) {
    char word[64] = "", tag[200] = "";
    unsigned long number = 0;
    if (sscanf(line, "alloc %lu %199s", &number, tag) >= 1)
        top_alloc(number, tag);
    else if (sscanf(line, "churn %lu", &number) == 1)
        top_churn(number);
    else if (strncmp(line, "name ", 5) == 0)
        (void)prctl(PR_SET_NAME, line + 5);
    else if (sscanf(line, "%63s", word) == 1 && strcmp(word, "fork") == 0)
        top_fork();
    else if (strcmp(word, "free") == 0)
        top_free();
    puts("done");
    fflush(stdout);
}

int main(void) {
    char line[512];
    need(acre_open("soft", NULL, &top.device), "acre_open");
    need(acre_stats_export(), "acre_stats_export");
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        top_line(line);
    }
    top_free();
    need(acre_close(top.device), "acre_close");
    return 0;
}
