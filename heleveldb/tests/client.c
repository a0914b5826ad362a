/*
 * A program in C over leveldb/c.h, which LevelDB itself implements over its C++ interface: all of it
 * must land on Heliox. One thread.
 *
 *     client DIR
 */
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(holds)                                                            \
    do {                                                                        \
        if (!(holds)) {                                                         \
            fprintf(stderr, "client.c:%d: %s (%s)\n", __LINE__, #holds, error); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

static char *error;

static void put_one(void *state, const char *key, size_t key_len, const char *value, size_t len) {
    (void)key, (void)key_len, (void)value, (void)len;
    ++*(int *)state;
}
static void delete_one(void *state, const char *key, size_t key_len) {
    (void)key, (void)key_len;
    ++*(int *)state;
}

static void reads_and_writes(leveldb_t *db) {
    leveldb_writeoptions_t *write = leveldb_writeoptions_create();
    leveldb_readoptions_t *read = leveldb_readoptions_create();
    size_t len = 0;
    leveldb_writeoptions_set_sync(write, 1);
    leveldb_put(db, write, "a", 1, "1", 1, &error);
    CHECK(error == NULL);
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    leveldb_writebatch_put(batch, "b", 1, "2", 1);
    leveldb_writebatch_put(batch, "c", 1, "3", 1);
    leveldb_writebatch_delete(batch, "a", 1);
    leveldb_writebatch_delete(batch, "b", 1);
    leveldb_writebatch_put(batch, "b", 1, "later", 5);
    int seen = 0;
    leveldb_writebatch_iterate(batch, &seen, put_one, delete_one);
    CHECK(seen == 5);
    const leveldb_snapshot_t *before = leveldb_create_snapshot(db);
    leveldb_write(db, write, batch, &error);
    CHECK(error == NULL);
    leveldb_writebatch_destroy(batch);
    CHECK(leveldb_get(db, read, "a", 1, &len, &error) == NULL && error == NULL);
    char *value = leveldb_get(db, read, "b", 1, &len, &error);
    CHECK(value != NULL && len == 5 && memcmp(value, "later", 5) == 0);
    leveldb_free(value);
    leveldb_iterator_t *it = leveldb_create_iterator(db, read);
    leveldb_iter_seek_to_last(it);
    CHECK(leveldb_iter_valid(it) && *leveldb_iter_key(it, &len) == 'c');
    leveldb_iter_prev(it);
    CHECK(leveldb_iter_valid(it) && *leveldb_iter_key(it, &len) == 'b');
    leveldb_iter_prev(it);
    CHECK(!leveldb_iter_valid(it));
    leveldb_iter_get_error(it, &error);
    CHECK(error == NULL);
    leveldb_iter_destroy(it);
    leveldb_readoptions_set_snapshot(read, before);
    value = leveldb_get(db, read, "a", 1, &len, &error);
    CHECK(value != NULL && len == 1 && *value == '1');
    leveldb_free(value);
    leveldb_release_snapshot(db, before);
    leveldb_delete(db, write, "c", 1, &error);
    CHECK(error == NULL);
    leveldb_readoptions_destroy(read);
    leveldb_writeoptions_destroy(write);
}

static void figures(leveldb_t *db) {
    char *text = leveldb_property_value(db, "leveldb.num-files-at-level0");
    CHECK(text != NULL && strcmp(text, "0") == 0);
    leveldb_free(text);
    CHECK(leveldb_property_value(db, "leveldb.nothing") == NULL);
    text = leveldb_property_value(db, "leveldb.stats");
    CHECK(text != NULL && strstr(text, "memory_budget_bytes: ") != NULL);
    leveldb_free(text);
    const char *from[] = {"a"}, *to[] = {"z"};
    const size_t lens[] = {1};
    uint64_t sizes[] = {0};
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    leveldb_approximate_sizes(db, 1, from, lens, to, lens, sizes);
    CHECK(sizes[0] > 0 && sizes[0] < 1 << 20);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    leveldb_options_t *options = leveldb_options_create();
    leveldb_cache_t *cache = leveldb_cache_create_lru(1 << 20);
    leveldb_env_t *env = leveldb_create_default_env();
    leveldb_options_set_cache(options, cache);
    leveldb_options_set_env(options, env);
    CHECK(leveldb_open(options, argv[1], &error) == NULL && error != NULL);
    CHECK(strstr(error, "create_if_missing") != NULL);
    leveldb_free(error), error = NULL;
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_t *db = leveldb_open(options, argv[1], &error);
    CHECK(db != NULL && error == NULL);
    CHECK(leveldb_open(options, argv[1], &error) == NULL && error != NULL);
    leveldb_free(error), error = NULL;
    reads_and_writes(db);
    figures(db);
    leveldb_close(db);
    leveldb_repair_db(options, argv[1], &error);
    CHECK(error == NULL);
    char path[4096];
    snprintf(path, sizeof path, "%s/HELIOX", argv[1]);
    FILE *ours = fopen(path, "r");
    CHECK(ours != NULL);
    fclose(ours);
    snprintf(path, sizeof path, "%s/CURRENT", argv[1]);
    CHECK(fopen(path, "r") == NULL);
    leveldb_destroy_db(options, argv[1], &error);
    CHECK(error == NULL);
    leveldb_options_destroy(options);
    leveldb_cache_destroy(cache);
    leveldb_env_destroy(env);
    return 0;
}
