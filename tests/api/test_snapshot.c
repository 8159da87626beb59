/* acre_snapshot: the file has every live block once, and pieces that tile the pool's memory; other
 * memory of acre; what it does without a place for the file; ACRE_SNAPSHOT_ON_OOM. */
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#include "api_file.h"
#include "api_pool.h"
#include "support/random.h"

enum { BLOCKS = 300 };

/* Returns an expression of jq about the snapshot as a number. */
static uint64_t ask(const char *file, const char *filter) {
    char command[1024], answer[64] = "";
    snprintf(command, sizeof command, "jq -r '%s' '%s'", filter, file);
    FILE *in = popen(command, "r");
    assert_non_null(in);
    assert_non_null(fgets(answer, sizeof answer, in));
    assert_int_equal(pclose(in), 0);
    return strtoull(answer, NULL, 10);
}

/* Counts lines of the file with this text: each block is on a line of its own. */
static int lines_with(const char *text) {
    static char line[1 << 16];
    int count = 0;
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in))
        count += strstr(line, text) != NULL;
    fclose(in);
    return count;
}

static int has_block(const void *p, size_t bytes) {
    char text[96];
    snprintf(text, sizeof text,
             "{\"address\":\"0x%" PRIxPTR "\",\"bytes\":%zu,\"slot_bytes\":", (uintptr_t)p, bytes);
    return lines_with(text);
}

TEST(snapshot_has_every_live_block_once) {
    for (API_EACH(name)) {
        uint64_t random = 7;
        struct things t = begin(name, NULL);
        void *blocks[BLOCKS], *pinned;
        size_t sizes[BLOCKS], live = 0;
        for (int i = 0; i < BLOCKS; i++) {
            sizes[i] = 1 + random_draw(&random, random_draw(&random, 4) ? 9000 : 5 << 20);
            blocks[i] = alloc(&t, sizes[i]);
        }
        for (int i = 0; i < BLOCKS; i++) {
            if (random_draw(&random, 2)) {
                api_ok(acre_pool_free(t.pool, blocks[i], t.stream));
                blocks[i] = NULL;
            }
            live += blocks[i] != NULL;
        }
        api_ok(acre_mem_alloc(t.device, ACRE_KIND_PINNED, 12345, 0, &pinned));
        api_ok(acre_snapshot(t.device, path));
        assert_int_equal(ask(path, ".pools | length"), 1);
        assert_int_equal(ask(path, ".pools[0].blocks | length"), live);
        for (int i = 0; i < BLOCKS; i++)
            if (blocks[i])
                assert_int_equal(has_block(blocks[i], sizes[i]), 1);
        assert_int_equal(ask(path, ".pools[0] | .held_bytes - ([.chunks[].bytes] | add)"), 0);
        assert_int_equal(
            ask(path, ".pools[0] | (.blocks | length) - ([.pieces[].live // 0] | add)"), 0);
        assert_int_equal(ask(path, "[.objects[] | select(.of == \"mem\") | .bytes] | add"), 12345);
        api_ok(acre_mem_free(t.device, pinned));
        for (int i = 0; i < BLOCKS; i++)
            if (blocks[i])
                api_ok(acre_pool_free(t.pool, blocks[i], t.stream));
        end(&t);
    }
}

TEST(snapshot_names_tags) {
    struct things t = begin("soft", NULL);
    api_ok(acre_tag_push("model"));
    api_ok(acre_tag_push("weights"));
    void *p = alloc(&t, 1000);
    api_ok(acre_tag_pop());
    api_ok(acre_tag_pop());
    api_ok(acre_snapshot(NULL, path));
    assert_int_equal(lines_with("\"tag\":\"model/weights\""), 1);
    api_ok(acre_pool_free(t.pool, p, t.stream));
    end(&t);
}

TEST(snapshot_refuses_what_it_cannot_do) {
    struct things t = begin("soft", NULL);
    char deep[200];
    snprintf(deep, sizeof deep, "%s/none/file", folder);
    assert_int_equal(acre_snapshot(t.device, NULL), ACRE_E_NULL);
    assert_int_equal(acre_snapshot(t.device, ""), ACRE_E_INVALID);
    assert_int_equal(acre_snapshot(t.device, deep), ACRE_E_SYSTEM);
    assert_int_equal(acre_snapshot((acre_device *)&t, path), ACRE_E_HANDLE);
    assert_int_equal(acre_snapshot(t.device, folder), ACRE_E_SYSTEM); /* a folder is no file */
    struct dirent *entry;
    DIR *list = opendir(folder);
    assert_non_null(list);
    while ((entry = readdir(list)))
        assert_null(strstr(entry->d_name, ".part"));
    closedir(list);
    end(&t);
}

/* ---- other threads ---- */

static _Atomic int is_over;

static void *churn(void *user) {
    struct things *t = user;
    void *p;
    while (!atomic_load(&is_over)) {
        if (acre_pool_alloc(t->pool, 3000, 0, t->other, &p) || acre_pool_free(t->pool, p, t->other))
            return t;
    }
    return NULL;
}

TEST(snapshot_beside_threads_that_allocate) {
    struct things t = begin("soft", NULL);
    pthread_t threads[3];
    void *failed;
    atomic_store(&is_over, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &t), 0);
    for (int i = 0; i < 20; i++) {
        api_ok(acre_snapshot(NULL, path));
        assert_true(ask(path, ".pools[0].blocks | length") <= 3);
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    end(&t);
}

/* ---- out of memory ---- */

static int run_out(void) {
    acre_device *device;
    acre_pool *pool;
    acre_pool_options options = {.struct_size = sizeof options, .limit_bytes = 1 << 20};
    void *p;
    api_must(acre_open("soft", NULL, &device) == ACRE_OK);
    api_must(acre_pool_create(device, &options, &pool) == ACRE_OK);
    api_must(acre_pool_alloc(pool, 1000, 0, NULL, &p) == ACRE_OK);
    for (int i = 0; i < 20; i++) {
        api_must(acre_pool_alloc(pool, 4 << 20, 0, NULL, &p) == ACRE_E_LIMIT);
        api_must(strstr(acre_last_detail(), "limit") != NULL);
    }
    return 0;
}

TEST(snapshot_when_out_of_memory) {
    char setting[256], name[300];
    int count = 0;
    struct dirent *entry;
    snprintf(setting, sizeof setting, "ACRE_SNAPSHOT_ON_OOM=%s", folder);
    api_started_ok("run-out", setting);
    DIR *list = opendir(folder);
    assert_non_null(list);
    while ((entry = readdir(list))) {
        if (!strstr(entry->d_name, ".snapshot.json"))
            continue;
        snprintf(name, sizeof name, "%s/%.120s", folder, entry->d_name);
        assert_int_equal(ask(name, ".pools[0].blocks | length"), 1);
        assert_int_equal(unlink(name), 0);
        count++;
    }
    closedir(list);
    assert_int_equal(count, 8);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "run-out") == 0)
        return run_out();
    return tests_run_with("snapshot", file_set_up, file_tear_down);
}
