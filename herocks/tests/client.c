/*
 * A program in C, over RocksDB's C interface: families, batches, merges, iterators, snapshots.
 *
 *   client DIR
 *
 * Knows nothing of Heliox; ends with 0 if every answer is RocksDB's.
 */
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *error = NULL;

static void check(const char *what) {
    if (error != NULL) {
        fprintf(stderr, "client: %s: %s\n", what, error);
        exit(1);
    }
}

static void expect(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "client: not as expected: %s\n", what);
        exit(1);
    }
}

static void expect_value(rocksdb_t *db, rocksdb_readoptions_t *read, const char *key,
                         const char *wanted) {
    size_t length = 0;
    char *value = rocksdb_get(db, read, key, strlen(key), &length, &error);
    check("get");
    expect(wanted == NULL ? value == NULL
                          : value != NULL && length == strlen(wanted) &&
                                memcmp(value, wanted, length) == 0,
           key);
    rocksdb_free(value);
}

static void iterate(rocksdb_t *db, rocksdb_readoptions_t *read) {
    rocksdb_iterator_t *iterator = rocksdb_create_iterator(db, read);
    int seen = 0;
    for (rocksdb_iter_seek_to_first(iterator); rocksdb_iter_valid(iterator);
         rocksdb_iter_next(iterator))
        seen++;
    rocksdb_iter_get_error(iterator, &error);
    check("iterator");
    expect(seen == 3, "three keys");
    rocksdb_iter_destroy(iterator);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_uint64add_merge_operator(options);
    rocksdb_t *db = rocksdb_open(options, argv[1], &error);
    check("open");
    rocksdb_writeoptions_t *write = rocksdb_writeoptions_create();
    rocksdb_readoptions_t *read = rocksdb_readoptions_create();

    rocksdb_put(db, write, "a", 1, "1", 1, &error);
    check("put");
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    rocksdb_writebatch_put(batch, "b", 1, "2", 1);
    rocksdb_writebatch_put(batch, "c", 1, "3", 1);
    rocksdb_writebatch_delete(batch, "a", 1);
    rocksdb_write(db, write, batch, &error);
    check("write");
    rocksdb_writebatch_destroy(batch);
    const rocksdb_snapshot_t *snapshot = rocksdb_create_snapshot(db);
    const char one[8] = {1, 0, 0, 0, 0, 0, 0, 0};
    for (int i = 0; i < 3; i++) rocksdb_merge(db, write, "sum", 3, one, 8, &error);
    check("merge");
    size_t length = 0;
    char *sum = rocksdb_get(db, read, "sum", 3, &length, &error);
    check("get");
    expect(sum != NULL && length == 8 && sum[0] == 3, "a sum of three");
    rocksdb_free(sum);
    iterate(db, read);
    expect_value(db, read, "a", NULL);
    expect_value(db, read, "b", "2");
    rocksdb_readoptions_set_snapshot(read, snapshot);
    expect_value(db, read, "sum", NULL);
    rocksdb_readoptions_set_snapshot(read, NULL);
    rocksdb_release_snapshot(db, snapshot);

    rocksdb_column_family_handle_t *family =
        rocksdb_create_column_family(db, options, "family", &error);
    check("create family");
    rocksdb_put_cf(db, write, family, "k", 1, "v", 1, &error);
    check("put into the family");
    rocksdb_column_family_handle_destroy(family);
    char *figures = rocksdb_property_value(db, "rocksdb.stats");
    expect(figures != NULL, "rocksdb.stats");
    rocksdb_free(figures);
    rocksdb_close(db);

    size_t families = 0;
    char **names = rocksdb_list_column_families(options, argv[1], &families, &error);
    check("list");
    expect(families == 2, "two families");
    rocksdb_list_column_families_destroy(names, families);
    rocksdb_destroy_db(options, argv[1], &error);
    check("destroy");
    rocksdb_readoptions_destroy(read);
    rocksdb_writeoptions_destroy(write);
    rocksdb_options_destroy(options);
    printf("client: done\n");
    return 0;
}
