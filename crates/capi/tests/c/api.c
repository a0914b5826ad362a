/*
 * Uses every function of heliox.h, and takes every kind of failure that needs no broken device: nulls,
 * closed stores, options out of bounds, what is not there, a store that is locked, a foreign directory.
 * The argument is an empty directory. Says where it fails.
 */
#include <heliox.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#define CHECK(what)                                                                 \
    do {                                                                            \
        if (!(what)) {                                                              \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

/* Before each call the place for its error holds this, so that one who leaves it alone is found. */
static char no_error_yet;
#define UNWRITTEN ((heliox_error *)&no_error_yet)
static heliox_error *error = UNWRITTEN;

/* The call gives the code; an error goes with a failure and with nothing else, and says `part`. */
static void gives(int line, heliox_code found, heliox_code expected, const char *part) {
    if (error == UNWRITTEN) {
        fprintf(stderr, "line %d: %s, and no error was written\n", line, heliox_code_name(found));
        exit(1);
    }
    const char *text = heliox_error_text(error);
    if (found != expected || heliox_error_code(error) != (HELIOX_FAILED_WITH(expected) ? expected : HELIOX_OK) ||
        (error != NULL) != HELIOX_FAILED_WITH(expected) || (part != NULL && strstr(text, part) == NULL)) {
        fprintf(stderr, "line %d: %s found, %s expected: %s\n", line, heliox_code_name(found),
                heliox_code_name(expected), text);
        exit(1);
    }
    heliox_error_free(error);
    error = UNWRITTEN;
}

#define OK(call) gives(__LINE__, (call), HELIOX_OK, NULL)
#define GIVES(code, call) gives(__LINE__, (call), (code), NULL)
#define SAYS(code, part, call) gives(__LINE__, (call), (code), (part))
#define NULLED(part, call) gives(__LINE__, (call), HELIOX_INVALID, part ": NULL")
/* Setters: a code, and no error. */
#define SET(call) CHECK((call) == HELIOX_OK)
#define UNSET(call) CHECK((call) == HELIOX_INVALID)

static bool is(heliox_value value, const char *text) {
    return value.data != NULL && value.len == strlen(text) && memcmp(value.data, text, value.len) == 0;
}

static const char *dir;

static const char *in_dir(const char *name) {
    static char paths[8][4096];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static heliox_options *small(void) {
    heliox_options *options = heliox_options_create();
    CHECK(options != NULL);
    SET(heliox_options_set_capacity_bytes(options, 128u << 20));
    SET(heliox_options_set_memory_budget_bytes(options, 16u << 20));
    return options;
}

/* A store in memory with the keyspace "one". */
static heliox_store *in_memory(heliox_options *options, heliox_keyspace **one) {
    heliox_volume *volume = NULL;
    heliox_store *store = NULL;
    OK(heliox_volume_create_memory(128u << 20, &volume, &error));
    SET(heliox_options_add_volume(options, volume));
    heliox_volume_free(volume);
    OK(heliox_store_create(NULL, options, &store, &error));
    OK(heliox_keyspace_create(store, "one", one, &error));
    return store;
}

static void versions_and_names(void) {
    CHECK(heliox_abi_version() == HELIOX_ABI_VERSION);
    CHECK(heliox_version()[0] != 0 && strchr(heliox_version(), '.') != NULL);
    CHECK(strcmp(heliox_code_name(HELIOX_OK), "OK") == 0);
    CHECK(strcmp(heliox_code_name(HELIOX_NOT_FOUND), "NOT_FOUND") == 0);
    CHECK(strcmp(heliox_code_name(HELIOX_UNCHANGED), "UNCHANGED") == 0);
    CHECK(strcmp(heliox_code_name(HELIOX_INVALID), "INVALID") == 0);
    CHECK(strcmp(heliox_code_name(HELIOX_INTERNAL), "INTERNAL") == 0);
    CHECK(strcmp(heliox_code_name((heliox_code)3), "UNKNOWN") == 0);
    for (int code = HELIOX_INVALID; code <= HELIOX_INTERNAL; code++)
        CHECK(strcmp(heliox_code_name((heliox_code)code), "UNKNOWN") != 0);
    CHECK(heliox_error_code(NULL) == HELIOX_OK);
    CHECK(strcmp(heliox_error_text(NULL), "") == 0);
}

/* ---------------------------------------------------------------------------------------------- */

static void puts_and_gets(heliox_keyspace *ks) {
    heliox_value value = HELIOX_VALUE_INIT;
    char buffer[8];
    size_t len = 99;
    OK(heliox_keyspace_put(ks, "a", 1, "apple", 5, NULL, &error));
    OK(heliox_keyspace_get(ks, "a", 1, &value, &error));
    CHECK(is(value, "apple"));
    /* A second read uses the memory of the first. */
    const char *memory = value.data;
    CHECK(heliox_keyspace_put(ks, "b", 1, "pear", 4, NULL, NULL) == HELIOX_OK);
    OK(heliox_keyspace_get(ks, "b", 1, &value, &error));
    CHECK(is(value, "pear") && value.data == memory);
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_get(ks, "x", 1, &value, &error));
    CHECK(value.len == 0);
    /* Bytes of any kind, the empty key, the empty value. */
    OK(heliox_keyspace_put(ks, "\0z\xff", 3, "\0\1", 2, NULL, &error));
    OK(heliox_keyspace_get(ks, "\0z\xff", 3, &value, &error));
    CHECK(value.len == 2 && memcmp(value.data, "\0\1", 2) == 0);
    OK(heliox_keyspace_put(ks, NULL, 0, NULL, 0, NULL, &error));
    OK(heliox_keyspace_get(ks, "", 0, &value, &error));
    CHECK(value.len == 0 && value.data != NULL);
    OK(heliox_keyspace_delete(ks, "", 0, NULL, &error));
    OK(heliox_keyspace_delete(ks, "\0z\xff", 3, NULL, &error));
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_contains(ks, "", 0, &error));
    OK(heliox_keyspace_contains(ks, "a", 1, &error));

    OK(heliox_keyspace_get_into(ks, "a", 1, buffer, sizeof buffer, &len, &error));
    CHECK(len == 5 && memcmp(buffer, "apple", 5) == 0);
    memset(buffer, '-', sizeof buffer);
    OK(heliox_keyspace_get_into(ks, "a", 1, buffer, 3, &len, &error));
    CHECK(len == 5 && memcmp(buffer, "app-", 4) == 0);
    OK(heliox_keyspace_get_into(ks, "a", 1, NULL, 0, &len, &error));
    CHECK(len == 5);
    OK(heliox_keyspace_get_into(ks, "a", 1, buffer, sizeof buffer, NULL, &error));
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_get_into(ks, "x", 1, buffer, 8, &len, &error));
    CHECK(len == 0);
    NULLED("buffer", heliox_keyspace_get_into(ks, "a", 1, NULL, 8, &len, &error));

    OK(heliox_keyspace_get_range(ks, "a", 1, 1, 3, &value, &error));
    CHECK(is(value, "ppl"));
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_get_range(ks, "x", 1, 1, 3, &value, &error));

    heliox_slice keys[3] = {{"b", 1}, {"x", 1}, {"a", 1}};
    heliox_value values[3] = {HELIOX_VALUE_INIT, HELIOX_VALUE_INIT, HELIOX_VALUE_INIT};
    for (int again = 0; again < 2; again++) {
        OK(heliox_keyspace_multi_get(ks, 3, keys, values, &error));
        CHECK(is(values[0], "pear") && values[1].data == NULL && is(values[2], "apple"));
    }
    OK(heliox_keyspace_multi_get(ks, 0, NULL, NULL, &error));
    NULLED("keys", heliox_keyspace_multi_get(ks, 3, NULL, values, &error));
    CHECK(values[0].data == NULL);
    NULLED("values", heliox_keyspace_multi_get(ks, 3, keys, NULL, &error));
    SAYS(HELIOX_INVALID, "negative", heliox_keyspace_multi_get(ks, (size_t)-1, keys, values, &error));
    heliox_values_free(values, 3);
    heliox_values_free(NULL, 3);

    /* What the caller gives that no memory holds. */
    NULLED("key", heliox_keyspace_get(ks, NULL, 1, &value, &error));
    NULLED("value", heliox_keyspace_put(ks, "a", 1, NULL, 1, NULL, &error));
    NULLED("value", heliox_keyspace_get(ks, "a", 1, NULL, &error));
    SAYS(HELIOX_INVALID, "negative", heliox_keyspace_get(ks, "a", (size_t)-1, &value, &error));
    char *long_key = calloc(1, 65536);
    GIVES(HELIOX_TOO_LARGE, heliox_keyspace_put(ks, long_key, 65536, "", 0, NULL, &error));
    free(long_key);

    heliox_value_free(&value);
    CHECK(value.data == NULL && value.len == 0 && value.capacity == 0);
    heliox_value_free(&value);
    heliox_value_free(NULL);
}

static void large_values(heliox_keyspace *ks) {
    size_t len = 3u << 20;
    char *bytes = malloc(len), *back = malloc(len);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 31 >> 3);
    size_t found = 0;
    OK(heliox_keyspace_put(ks, "large", 5, bytes, len, NULL, &error));
    OK(heliox_keyspace_get_into(ks, "large", 5, back, len, &found, &error));
    CHECK(found == len && memcmp(bytes, back, len) == 0);
    OK(heliox_keyspace_delete(ks, "large", 5, NULL, &error));
    free(bytes);
    free(back);
}

static heliox_update shouted(void *user, const char *value, size_t len, heliox_output *output) {
    ++*(int *)user;
    if (value == NULL)
        return HELIOX_UPDATE_KEEP;
    if (len == 0)
        return HELIOX_UPDATE_DELETE;
    CHECK(heliox_output_append(output, "nothing of this", 15));
    heliox_output_clear(output);
    CHECK(heliox_output_append(output, value, len) && heliox_output_append(output, "!", 1));
    CHECK(!heliox_output_append(output, NULL, 1));
    return HELIOX_UPDATE_PUT;
}

static void conditions(heliox_keyspace *ks) {
    heliox_value value = HELIOX_VALUE_INIT;
    OK(heliox_keyspace_insert_if_absent(ks, "c", 1, "1", 1, &error));
    GIVES(HELIOX_UNCHANGED, heliox_keyspace_insert_if_absent(ks, "c", 1, "2", 1, &error));
    OK(heliox_keyspace_replace_if_present(ks, "c", 1, "3", 1, &error));
    GIVES(HELIOX_UNCHANGED, heliox_keyspace_replace_if_present(ks, "d", 1, "4", 1, &error));
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_get(ks, "d", 1, &value, &error));

    heliox_slice three = {"3", 1}, five = {"5", 1}, empty = {"", 0};
    GIVES(HELIOX_UNCHANGED, heliox_keyspace_compare_and_set(ks, "c", 1, &five, &three, &error));
    GIVES(HELIOX_UNCHANGED, heliox_keyspace_compare_and_set(ks, "c", 1, NULL, &five, &error));
    OK(heliox_keyspace_compare_and_set(ks, "c", 1, &three, &five, &error));
    OK(heliox_keyspace_get(ks, "c", 1, &value, &error));
    CHECK(is(value, "5"));
    OK(heliox_keyspace_compare_and_set(ks, "c", 1, &five, &empty, &error));
    GIVES(HELIOX_UNCHANGED, heliox_keyspace_compare_and_set(ks, "c", 1, NULL, &five, &error));
    OK(heliox_keyspace_compare_and_set(ks, "c", 1, &empty, NULL, &error));
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_contains(ks, "c", 1, &error));
    OK(heliox_keyspace_compare_and_set(ks, "c", 1, NULL, &three, &error));

    OK(heliox_keyspace_take(ks, "c", 1, &value, &error));
    CHECK(is(value, "3"));
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_take(ks, "c", 1, &value, &error));
    CHECK(value.len == 0);

    int calls = 0;
    GIVES(HELIOX_UNCHANGED, heliox_keyspace_update(ks, "u", 1, shouted, &calls, &error));
    CHECK(calls == 1);
    OK(heliox_keyspace_put(ks, "u", 1, "hey", 3, NULL, &error));
    OK(heliox_keyspace_update(ks, "u", 1, shouted, &calls, &error));
    OK(heliox_keyspace_get(ks, "u", 1, &value, &error));
    CHECK(is(value, "hey!"));
    OK(heliox_keyspace_put(ks, "u", 1, "", 0, NULL, &error));
    OK(heliox_keyspace_update(ks, "u", 1, shouted, &calls, &error));
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_contains(ks, "u", 1, &error));
    NULLED("update", heliox_keyspace_update(ks, "u", 1, NULL, &calls, &error));
    CHECK(!heliox_output_append(NULL, "", 0));
    heliox_output_clear(NULL);
    heliox_value_free(&value);
}

static void write_options(heliox_keyspace *ks) {
    heliox_write_options *options = heliox_write_options_create();
    SET(heliox_write_options_set_durability_sync(options));
    OK(heliox_keyspace_put(ks, "w", 1, "1", 1, options, &error));
    OK(heliox_keyspace_delete(ks, "w", 1, options, &error));
    SET(heliox_write_options_set_durability_none(options));
    OK(heliox_keyspace_put(ks, "w", 1, "2", 1, options, &error));
    SET(heliox_write_options_set_durability_bounded(options, 0, 4096));
    SAYS(HELIOX_INVALID, "0 ms", heliox_keyspace_put(ks, "w", 1, "3", 1, options, &error));
    SET(heliox_write_options_clear(options));
    SET(heliox_write_options_set_ttl_ms(options, 3600000));
    OK(heliox_keyspace_put(ks, "w", 1, "4", 1, options, &error));
    OK(heliox_keyspace_contains(ks, "w", 1, &error));
    SET(heliox_write_options_set_ttl_ms(options, 0));
    SAYS(HELIOX_INVALID, "time to live", heliox_keyspace_put(ks, "w", 1, "5", 1, options, &error));
    SAYS(HELIOX_INVALID, "time to live", heliox_keyspace_put_ttl(ks, "w", 1, "5", 1, 0, &error));
    OK(heliox_keyspace_put_ttl(ks, "w", 1, "6", 1, 1, &error));
    while (heliox_keyspace_contains(ks, "w", 1, &error) != HELIOX_NOT_FOUND)
        CHECK(error == NULL);
    heliox_write_options_free(options);
    heliox_write_options_free(NULL);
    UNSET(heliox_write_options_set_durability_sync(NULL));
    UNSET(heliox_write_options_set_durability_bounded(NULL, 1, 4096));
    UNSET(heliox_write_options_set_durability_none(NULL));
    UNSET(heliox_write_options_set_ttl_ms(NULL, 1));
    UNSET(heliox_write_options_clear(NULL));
}

static void batches(heliox_store *store, heliox_keyspace *one) {
    heliox_keyspace *two = NULL;
    OK(heliox_keyspace_open_or_create(store, "two", &two, &error));
    heliox_batch *batch = heliox_batch_create();
    OK(heliox_batch_put(batch, one, "ba", 2, "1", 1, &error));
    OK(heliox_batch_put(batch, two, "bb", 2, "2", 1, &error));
    OK(heliox_batch_put_ttl(batch, two, "bc", 2, "3", 1, 3600000, &error));
    OK(heliox_batch_delete(batch, one, "a", 1, &error));
    CHECK(heliox_batch_count(batch) == 4 && heliox_batch_count(NULL) == 0);
    heliox_batch *copy = heliox_batch_clone(batch);
    CHECK(heliox_batch_count(copy) == 4 && heliox_batch_clone(NULL) == NULL);
    heliox_batch_clear(copy);
    heliox_batch_clear(NULL);
    CHECK(heliox_batch_count(copy) == 0 && heliox_batch_count(batch) == 4);
    OK(heliox_store_write(store, copy, NULL, &error));
    OK(heliox_keyspace_contains(one, "a", 1, &error));
    heliox_write_options *options = heliox_write_options_create();
    SET(heliox_write_options_set_durability_sync(options));
    OK(heliox_store_write(store, batch, options, &error));
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_contains(one, "a", 1, &error));
    OK(heliox_keyspace_contains(one, "ba", 2, &error));
    OK(heliox_keyspace_contains(two, "bc", 2, &error));
    OK(heliox_batch_put_ttl(copy, two, "bc", 2, "3", 1, 0, &error));
    SAYS(HELIOX_INVALID, "time to live", heliox_store_write(store, copy, NULL, &error));
    NULLED("batch", heliox_store_write(store, NULL, NULL, &error));
    NULLED("batch", heliox_batch_put(NULL, one, "", 0, "", 0, &error));
    NULLED("keyspace", heliox_batch_put(batch, NULL, "", 0, "", 0, &error));
    NULLED("key", heliox_batch_delete(batch, one, NULL, 1, &error));
    NULLED("batch", heliox_batch_delete(NULL, one, "", 0, &error));
    NULLED("value", heliox_batch_put_ttl(batch, one, "", 0, NULL, 1, 1, &error));
    heliox_write_options_free(options);
    heliox_batch_free(batch);
    heliox_batch_free(copy);
    heliox_batch_free(NULL);
    heliox_keyspace_free(two);
    OK(heliox_keyspace_drop(store, "two", &error));
}

/* ---------------------------------------------------------------------------------------------- */

/* The entry is key `number` of the hundred. */
static bool at(heliox_iterator *it, int number) {
    char key[8], value[8];
    size_t key_len = 0, value_len = 0;
    heliox_slice key_slice, value_slice;
    snprintf(key, sizeof key, "k%02d", number);
    snprintf(value, sizeof value, "v%d", number);
    const char *k = heliox_iterator_key(it, &key_len), *v = heliox_iterator_value(it, &value_len);
    return heliox_iterator_valid(it) && heliox_iterator_error(it, NULL) == HELIOX_OK && key_len == 3 &&
           memcmp(k, key, 3) == 0 && value_len == strlen(value) && memcmp(v, value, value_len) == 0 &&
           heliox_iterator_entry(it, &key_slice, &value_slice) && key_slice.data == k &&
           value_slice.data == v && key_slice.len == 3 && value_slice.len == value_len;
}

static bool nowhere(heliox_iterator *it) {
    size_t len = 9;
    heliox_slice key;
    return !heliox_iterator_valid(it) && heliox_iterator_key(it, &len) == NULL && len == 0 &&
           heliox_iterator_value(it, NULL) == NULL && !heliox_iterator_entry(it, &key, NULL) &&
           heliox_iterator_error(it, NULL) == HELIOX_OK && !heliox_iterator_next(it) &&
           !heliox_iterator_prev(it);
}

static void fill(heliox_keyspace *ks) {
    char key[8], value[8];
    OK(heliox_keyspace_delete_prefix(ks, NULL, 0, NULL, &error));
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "k%02d", i);
        snprintf(value, sizeof value, "v%d", i);
        OK(heliox_keyspace_put(ks, key, 3, value, strlen(value), NULL, &error));
    }
}

static void iterators(heliox_store *store, heliox_keyspace *ks) {
    fill(ks);
    heliox_iterator *it = NULL;
    OK(heliox_iterator_create(ks, NULL, &it, &error));
    CHECK(nowhere(it));
    int seen = 0;
    for (bool is_at = heliox_iterator_seek_to_first(it); is_at; is_at = heliox_iterator_next(it))
        CHECK(at(it, seen++));
    CHECK(seen == 100 && nowhere(it));
    for (bool is_at = heliox_iterator_seek_to_last(it); is_at; is_at = heliox_iterator_prev(it))
        CHECK(at(it, --seen));
    CHECK(seen == 0 && nowhere(it));

    CHECK(heliox_iterator_seek(it, "k5", 2) && at(it, 50));
    CHECK(heliox_iterator_seek(it, "k50", 3) && at(it, 50));
    CHECK(heliox_iterator_seek_for_prev(it, "k50", 3) && at(it, 50));
    CHECK(heliox_iterator_seek_for_prev(it, "k5", 2) && at(it, 49));
    /* Both ways, as often as one likes. */
    CHECK(heliox_iterator_next(it) && at(it, 50) && heliox_iterator_next(it) && at(it, 51));
    CHECK(heliox_iterator_prev(it) && at(it, 50) && heliox_iterator_prev(it) && at(it, 49));
    CHECK(heliox_iterator_prev(it) && at(it, 48) && heliox_iterator_next(it) && at(it, 49));
    CHECK(heliox_iterator_next(it) && at(it, 50) && heliox_iterator_prev(it) && at(it, 49));
    CHECK(!heliox_iterator_seek(it, "l", 1) && nowhere(it));
    CHECK(!heliox_iterator_seek_for_prev(it, "j", 1) && nowhere(it));
    CHECK(!heliox_iterator_seek(it, NULL, 1));
    NULLED("key", heliox_iterator_error(it, &error));
    /* Over the edge and no way back but by a seek. */
    CHECK(heliox_iterator_seek_to_first(it) && !heliox_iterator_prev(it) && nowhere(it));
    CHECK(heliox_iterator_seek_to_last(it) && at(it, 99) && !heliox_iterator_next(it) && nowhere(it));

    /* It sees what was there when it began, until it is refreshed. */
    heliox_snapshot *before = NULL;
    OK(heliox_store_snapshot(store, &before, &error));
    OK(heliox_keyspace_delete(ks, "k00", 3, NULL, &error));
    CHECK(heliox_iterator_seek_to_first(it) && at(it, 0));
    OK(heliox_iterator_refresh(it, NULL, &error));
    CHECK(nowhere(it));
    CHECK(heliox_iterator_seek_to_first(it) && at(it, 1));
    OK(heliox_iterator_refresh(it, before, &error));
    CHECK(heliox_iterator_seek_to_first(it) && at(it, 0));
    heliox_iterator_free(it);
    heliox_iterator_free(NULL);

    heliox_iterator_options options = {0};
    options.struct_size = sizeof options;
    options.snapshot = before;
    options.prefix = (heliox_slice){"k", 1};
    OK(heliox_iterator_create(ks, &options, &it, &error));
    heliox_snapshot_free(before);
    heliox_snapshot_free(NULL);
    CHECK(heliox_iterator_seek_to_first(it) && at(it, 0));
    heliox_iterator_free(it);
    options.snapshot = NULL;
    options.prefix = (heliox_slice){"k2", 2};
    OK(heliox_iterator_create(ks, &options, &it, &error));
    CHECK(heliox_iterator_seek(it, "a", 1) && at(it, 20) && heliox_iterator_seek_to_last(it) && at(it, 29));
    CHECK(!heliox_iterator_next(it));
    heliox_iterator_free(it);
    options.from = (heliox_slice){"k22", 3};
    options.to = (heliox_slice){"k25", 3};
    options.keys_only = true;
    OK(heliox_iterator_create(ks, &options, &it, &error));
    size_t len = 9;
    CHECK(heliox_iterator_seek_for_prev(it, "z", 1) && memcmp(heliox_iterator_key(it, NULL), "k24", 3) == 0);
    CHECK(heliox_iterator_value(it, &len) != NULL && len == 0);
    CHECK(heliox_iterator_seek_to_first(it) && memcmp(heliox_iterator_key(it, NULL), "k22", 3) == 0);
    heliox_iterator_free(it);
    options.keys_only = false;
    options.limit = 2;
    OK(heliox_iterator_create(ks, &options, &it, &error));
    CHECK(heliox_iterator_seek_to_first(it) && heliox_iterator_next(it) && !heliox_iterator_next(it));
    heliox_iterator_free(it);
    /* No bytes before this key. */
    options.to = (heliox_slice){"", 0};
    OK(heliox_iterator_create(ks, &options, &it, &error));
    CHECK(!heliox_iterator_seek_to_first(it) && nowhere(it));
    heliox_iterator_free(it);
    /* A header that is older knows less; a size of nothing is a mistake. */
    options.struct_size = offsetof(heliox_iterator_options, to);
    options.from = (heliox_slice){"k30", 3};
    OK(heliox_iterator_create(ks, &options, &it, &error));
    CHECK(heliox_iterator_seek_to_first(it) && at(it, 30) && heliox_iterator_seek_to_last(it) && at(it, 99));
    heliox_iterator_free(it);
    options.struct_size = 0;
    SAYS(HELIOX_INVALID, "struct_size", heliox_iterator_create(ks, &options, &it, &error));
    CHECK(it == NULL);
    NULLED("keyspace", heliox_iterator_create(NULL, NULL, &it, &error));
    NULLED("iterator", heliox_iterator_create(ks, NULL, NULL, &error));
    NULLED("iterator", heliox_iterator_error(NULL, &error));
    NULLED("iterator", heliox_iterator_refresh(NULL, NULL, &error));
    CHECK(!heliox_iterator_valid(NULL) && !heliox_iterator_next(NULL) && !heliox_iterator_prev(NULL));
    CHECK(!heliox_iterator_seek_to_first(NULL) && !heliox_iterator_seek_to_last(NULL));
    CHECK(!heliox_iterator_seek(NULL, "", 0) && !heliox_iterator_seek_for_prev(NULL, "", 0));
    CHECK(heliox_iterator_key(NULL, &len) == NULL && heliox_iterator_value(NULL, NULL) == NULL);
    CHECK(!heliox_iterator_entry(NULL, NULL, NULL));
}

static void ranges(heliox_store *store, heliox_keyspace *ks) {
    fill(ks);
    heliox_value value = HELIOX_VALUE_INIT;
    heliox_snapshot *before = NULL;
    OK(heliox_store_snapshot(store, &before, &error));
    uint64_t count = 0, bytes = 0, half = 0;
    OK(heliox_keyspace_approximate(ks, NULL, 0, NULL, 0, &count, &bytes, &error));
    CHECK(count >= 90 && bytes > count);
    OK(heliox_keyspace_approximate(ks, NULL, 0, "a", 1, &half, NULL, &error));
    CHECK(half < count);
    OK(heliox_keyspace_approximate(ks, "k", 1, "l", 1, NULL, NULL, &error));
    NULLED("from", heliox_keyspace_approximate(ks, NULL, 1, NULL, 0, NULL, NULL, &error));
    OK(heliox_keyspace_delete_range(ks, "k10", 3, "k20", 3, NULL, &error));
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_get(ks, "k10", 3, &value, &error));
    OK(heliox_keyspace_get(ks, "k20", 3, &value, &error));
    heliox_write_options *weak = heliox_write_options_create();
    SET(heliox_write_options_set_durability_bounded(weak, 0, 0));
    GIVES(HELIOX_INVALID, heliox_keyspace_delete_prefix(ks, "k2", 2, weak, &error));
    GIVES(HELIOX_INVALID, heliox_keyspace_delete_range(ks, "k2", 2, "k3", 2, weak, &error));
    SET(heliox_write_options_set_durability_none(weak));
    OK(heliox_keyspace_delete_range(ks, "k98", 3, "k99", 3, weak, &error));
    OK(heliox_keyspace_delete_prefix(ks, "k2", 2, weak, &error));
    heliox_write_options_free(weak);
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_get(ks, "k20", 3, &value, &error));
    OK(heliox_keyspace_get_at(ks, before, "k20", 3, &value, &error));
    CHECK(is(value, "v20"));
    GIVES(HELIOX_NOT_FOUND, heliox_keyspace_get_at(ks, before, "zz", 2, &value, &error));
    NULLED("snapshot", heliox_keyspace_get_at(ks, NULL, "k", 1, &value, &error));
    heliox_slice keys[2] = {{"zz", 2}, {"k20", 3}};
    heliox_value values[2] = {HELIOX_VALUE_INIT, HELIOX_VALUE_INIT};
    OK(heliox_keyspace_multi_get_at(ks, before, 2, keys, values, &error));
    CHECK(values[0].data == NULL && is(values[1], "v20"));
    heliox_values_free(values, 2);
    NULLED("to", heliox_keyspace_delete_range(ks, "k", 1, NULL, 1, NULL, &error));
    NULLED("prefix", heliox_keyspace_delete_prefix(ks, NULL, 1, NULL, &error));
    heliox_snapshot_free(before);
    heliox_value_free(&value);
}

static void keyspaces(heliox_store *store, heliox_keyspace *one) {
    heliox_keyspace *again = NULL, *gone = NULL;
    heliox_list *names = NULL;
    heliox_value value = HELIOX_VALUE_INIT;
    heliox_iterator *it = NULL;
    OK(heliox_keyspace_open(store, "one", &again, &error));
    CHECK(strcmp(heliox_keyspace_name(again), "one") == 0 && heliox_keyspace_name(NULL) == NULL);
    OK(heliox_keyspace_put(again, "same", 4, "1", 1, NULL, &error));
    heliox_keyspace *clone = heliox_keyspace_clone(one);
    CHECK(clone != NULL && heliox_keyspace_clone(NULL) == NULL);
    OK(heliox_keyspace_contains(clone, "same", 4, &error));
    heliox_keyspace_free(clone);
    heliox_keyspace_free(again);
    heliox_keyspace_free(NULL);
    GIVES(HELIOX_KEYSPACE_EXISTS, heliox_keyspace_create(store, "one", &again, &error));
    CHECK(again == NULL);
    SAYS(HELIOX_UNKNOWN_KEYSPACE, "none", heliox_keyspace_open(store, "none", &again, &error));
    GIVES(HELIOX_UNKNOWN_KEYSPACE, heliox_keyspace_drop(store, "none", &error));
    GIVES(HELIOX_INVALID, heliox_keyspace_create(store, "", &again, &error));
    SAYS(HELIOX_INVALID, "UTF-8", heliox_keyspace_create(store, "\xff", &again, &error));
    NULLED("name", heliox_keyspace_create(store, NULL, &again, &error));
    OK(heliox_keyspace_create(store, "gone", &gone, &error));
    OK(heliox_store_keyspaces(store, &names, &error));
    CHECK(heliox_list_count(names) == 2 && heliox_list_count(NULL) == 0);
    CHECK(strcmp(heliox_list_get(names, 0), "gone") == 0 && strcmp(heliox_list_get(names, 1), "one") == 0);
    CHECK(heliox_list_get(names, 2) == NULL && heliox_list_get(NULL, 0) == NULL);
    heliox_list_free(names);
    heliox_list_free(NULL);
    OK(heliox_keyspace_drop(store, "gone", &error));
    GIVES(HELIOX_UNKNOWN_KEYSPACE, heliox_keyspace_get(gone, "x", 1, &value, &error));
    GIVES(HELIOX_UNKNOWN_KEYSPACE, heliox_iterator_create(gone, NULL, &it, &error));
    CHECK(it == NULL);
    heliox_keyspace_free(gone);
}

/* ---------------------------------------------------------------------------------------------- */

struct told {
    int stats, words, events, checkpoints, conditions, findings, backups, progress, damaged;
    uint64_t objects, done, total;
};

static void on_stat(void *user, const char *name, uint64_t value, const char *text) {
    struct told *told = user;
    told->stats++;
    told->words += text != NULL;
    if (strcmp(name, "objects") == 0)
        told->objects = value;
}

static void on_event(void *user, const heliox_event *event) {
    struct told *told = user;
    CHECK(event->struct_size == sizeof *event && event->number > 0 && event->at_ms > 0);
    CHECK(event->name[0] != 0 && event->text != NULL);
    if (event->kind == HELIOX_EVENT_CHECKPOINT_WRITTEN) {
        CHECK(strcmp(event->name, "checkpoint_written") == 0 && event->amount > 0);
        told->checkpoints++;
    }
    if (event->kind == HELIOX_EVENT_DAMAGE_FOUND) {
        CHECK(event->finding != NULL && event->finding->what[0] != 0);
        CHECK(event->finding->structure == HELIOX_STRUCTURE_RECORDS);
        told->findings++;
    }
    if (event->kind == HELIOX_EVENT_SCRUB_FINISHED)
        CHECK(event->scrub != NULL && event->scrub->bytes > 0 && event->finding == NULL);
    told->events++;
}

static void on_condition(void *user, const heliox_condition *condition) {
    struct told *told = user;
    CHECK(condition->struct_size == sizeof *condition && condition->text[0] != 0);
    CHECK(condition->kind == HELIOX_CONDITION_DAMAGE && condition->since_ms > 0);
    CHECK(condition->finding != NULL && condition->finding->segment != UINT32_MAX);
    told->conditions++;
}

static void on_finding(void *user, const heliox_finding *finding) {
    struct told *told = user;
    CHECK(finding->struct_size == sizeof *finding && finding->text[0] != 0);
    told->findings++;
}

static void on_progress(void *user, uint64_t done, uint64_t total) {
    struct told *told = user;
    told->progress++;
    told->done = done;
    told->total = total;
}

static void on_backup(void *user, const heliox_backup_info *info) {
    struct told *told = user;
    CHECK(info->struct_size == sizeof *info && info->number > 0);
    told->damaged += info->damage != NULL;
    told->backups++;
}

static void figures(heliox_store *store, heliox_keyspace *ks) {
    struct told told = {0};
    uint64_t value = 9;
    char *text = NULL;
    heliox_list *list = NULL;
    heliox_health health = HELIOX_HEALTH_CLOSED;
    fill(ks);
    OK(heliox_store_flush(store, &error));
    OK(heliox_store_sync(store, &error));
    OK(heliox_store_checkpoint(store, &error));
    OK(heliox_store_stats(store, on_stat, &told, &error));
    CHECK(told.stats > 40 && told.words == 1 && told.objects > 0);
    NULLED("visit", heliox_store_stats(store, NULL, NULL, &error));
    OK(heliox_store_stat(store, "objects", &value, &error));
    CHECK(value == told.objects);
    GIVES(HELIOX_NOT_FOUND, heliox_store_stat(store, "nothing", &value, &error));
    GIVES(HELIOX_NOT_FOUND, heliox_store_stat(store, "health", &value, &error));
    NULLED("value", heliox_store_stat(store, "objects", NULL, &error));
    NULLED("name", heliox_store_stat(store, NULL, &value, &error));
    OK(heliox_store_stats_json(store, &text, &error));
    CHECK(text[0] == '{' && strstr(text, "\"objects\":") && strstr(text, "\"health\":\"healthy\"}"));
    heliox_free(text);
    heliox_free(NULL);
    NULLED("json", heliox_store_stats_json(store, NULL, &error));
    NULLED("store", heliox_store_stats_json(NULL, &text, &error));
    CHECK(text == NULL);
    OK(heliox_store_describe(store, &text, &error));
    CHECK(text[0] != 0);
    heliox_free(text);
    NULLED("text", heliox_store_describe(store, NULL, &error));
    OK(heliox_store_warnings(store, &list, &error));
    heliox_list_free(list);
    OK(heliox_store_damage(store, &list, &error));
    CHECK(heliox_list_count(list) == 0);
    heliox_list_free(list);
    OK(heliox_store_health(store, &health, on_condition, &told, &error));
    CHECK(health == HELIOX_HEALTH_HEALTHY && told.conditions == 0);
    OK(heliox_store_health(store, NULL, NULL, NULL, &error));
    OK(heliox_store_events(store, on_event, &told, &error));
    CHECK(told.checkpoints >= 1);
    NULLED("visit", heliox_store_events(store, NULL, NULL, &error));

    heliox_scrub_report report = {0};
    report.struct_size = sizeof report;
    GIVES(HELIOX_NOT_FOUND, heliox_store_last_scrub(store, on_finding, &told, &report, &error));
    OK(heliox_store_scrub(store, on_progress, on_finding, &told, &report, &error));
    CHECK(report.struct_size == sizeof report && report.bytes > 0 && report.finding_count == 0);
    CHECK(told.findings == 0 && told.progress > 0 && told.done > 0);
    /* A caller that knows less is given less. */
    heliox_scrub_report last;
    memset(&last, 0xee, sizeof last);
    last.struct_size = offsetof(heliox_scrub_report, finished_ms);
    OK(heliox_store_last_scrub(store, NULL, NULL, &last, &error));
    CHECK(last.started_ms == report.started_ms && last.finished_ms == 0xeeeeeeeeeeeeeeee);
    CHECK(last.struct_size == offsetof(heliox_scrub_report, finished_ms));
    OK(heliox_store_last_scrub(store, NULL, NULL, NULL, &error));
    last.struct_size = 1;
    SAYS(HELIOX_INVALID, "struct_size", heliox_store_last_scrub(store, NULL, NULL, &last, &error));
    SAYS(HELIOX_INVALID, "struct_size", heliox_store_scrub(store, NULL, NULL, NULL, &last, &error));
    OK(heliox_store_events(store, on_event, &told, &error));
}

/* ---------------------------------------------------------------------------------------------- */

static atomic_int destroyed;
static void destroy(void *user) {
    CHECK(user != NULL);
    destroyed++;
}

static bool add(void *user, const char *key, size_t key_len, const char *base, size_t base_len,
                const char *operand, size_t operand_len, heliox_output *output) {
    CHECK(*(int *)user == 7 && key_len == 1 && *key == 'm');
    if (operand_len == 0)
        return false;
    return (base == NULL || heliox_output_append(output, base, base_len)) &&
           heliox_output_append(output, operand, operand_len);
}

/* Merge operator and listener live as long as something can call them. */
static void callbacks(void) {
    int seven = 7;
    struct told told = {0};
    heliox_keyspace *ks = NULL;
    heliox_value value = HELIOX_VALUE_INIT;
    heliox_options *options = small();
    UNSET(heliox_options_set_merge_operator(options, "append", NULL, &seven, destroy));
    UNSET(heliox_options_set_merge_operator(options, NULL, add, &seven, destroy));
    UNSET(heliox_options_set_merge_operator(NULL, "append", add, &seven, destroy));
    UNSET(heliox_options_set_event_listener(options, NULL, &told, destroy));
    UNSET(heliox_options_set_event_listener(NULL, on_event, &told, destroy));
    CHECK(destroyed == 0);
    SET(heliox_options_set_merge_operator(options, "append", add, &seven, destroy));
    SET(heliox_options_set_event_listener(options, on_event, &told, destroy));
    heliox_store *store = in_memory(options, &ks);
    heliox_options_free(options);
    CHECK(destroyed == 0);
    OK(heliox_keyspace_merge(ks, "m", 1, "ab", 2, &error));
    OK(heliox_keyspace_merge(ks, "m", 1, "cd", 2, &error));
    OK(heliox_keyspace_get(ks, "m", 1, &value, &error));
    CHECK(is(value, "abcd"));
    SAYS(HELIOX_INVALID, "append refused", heliox_keyspace_merge(ks, "m", 1, "", 0, &error));
    OK(heliox_store_checkpoint(store, &error));
    OK(heliox_store_close(store, &error));
    CHECK(told.checkpoints >= 1);
    heliox_store_free(store);
    CHECK(destroyed == 0);
    heliox_keyspace_free(ks);
    /* The listener's thread may be on its last steps. */
    for (int tries = 0; destroyed < 2 && tries < 1000; tries++)
        thrd_sleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    CHECK(destroyed == 2);
    heliox_value_free(&value);
}

static void refused(heliox_options *options, const char *part) {
    heliox_store *store = (heliox_store *)&store;
    SAYS(HELIOX_INVALID, part, heliox_store_open(in_dir("never"), options, &store, &error));
    CHECK(store == NULL);
    heliox_options_free(options);
}

static void options_out_of_bounds(void) {
    heliox_options *options = heliox_options_create();
    SET(heliox_options_set_memory_budget_bytes(options, 1));
    heliox_options *copy = heliox_options_clone(options);
    CHECK(heliox_options_clone(NULL) == NULL);
    refused(options, "memory_budget_bytes");
    refused(copy, "memory_budget_bytes");
    SET(heliox_options_set_segment_bytes(options = small(), 5));
    refused(options, "segment_bytes");
    SET(heliox_options_set_capacity_bytes(options = small(), 5));
    refused(options, "capacity_bytes");
    SET(heliox_options_set_scrub_period_secs(options = small(), UINT64_MAX));
    refused(options, "scrub_period_secs");
    SET(heliox_options_set_durability_bounded(options = small(), 0, 4096));
    refused(options, "0 ms");
    options = small();
    SET(heliox_options_add_device(options, in_dir("device")));
    SET(heliox_options_add_device(options, in_dir("device")));
    refused(options, "twice");
    heliox_key_source *key = heliox_key_source_file(in_dir("no key"));
    SET(heliox_options_set_encryption(options = small(), key));
    heliox_key_source_free(key);
    refused(options, "cannot be read");
    options = small();
    CHECK(heliox_options_set_io_mode(options, (heliox_io_mode)7) == HELIOX_INVALID);
    heliox_options_free(options);
    heliox_options_free(NULL);
    UNSET(heliox_options_set_create_if_missing(NULL, true));
    UNSET(heliox_options_set_read_only(NULL, true));
    UNSET(heliox_options_set_durability_sync(NULL));
    UNSET(heliox_options_set_durability_bounded(NULL, 1, 4096));
    UNSET(heliox_options_set_durability_none(NULL));
    UNSET(heliox_options_add_device(NULL, "x"));
    UNSET(heliox_options_add_volume(NULL, NULL));
    UNSET(heliox_options_set_capacity_bytes(NULL, 1));
    UNSET(heliox_options_set_exact(NULL, true));
    UNSET(heliox_options_set_encryption(NULL, NULL));
    UNSET(heliox_options_set_memory_budget_bytes(NULL, 1));
    UNSET(heliox_options_set_segment_bytes(NULL, 1));
    UNSET(heliox_options_set_scrub_period_secs(NULL, 1));
    UNSET(heliox_options_set_io_mode(NULL, HELIOX_IO_MODE_AUTO));
    CHECK(heliox_key_source_file(NULL) == NULL && heliox_key_source_command(NULL) == NULL);
    CHECK(heliox_key_source_bytes(NULL) == NULL);
    heliox_key_source_free(NULL);
    heliox_volume *volume = NULL;
    heliox_store *store = NULL;
    OK(heliox_volume_create_memory(1 << 20, &volume, &error));
    SET(heliox_options_add_volume(options = heliox_options_create(), volume));
    heliox_volume_free(volume);
    GIVES(HELIOX_SHORT_DEVICE, heliox_store_create(NULL, options, &store, &error));
    heliox_options_free(options);
    NULLED("volume", heliox_volume_create_memory(1 << 20, NULL, &error));
    heliox_volume_free(NULL);
}

/* Every option that takes effect without a device of its own; the store on disk. */
static void on_disk(void) {
    heliox_options *options = small();
    heliox_store *store = NULL, *second = NULL;
    heliox_keyspace *ks = NULL;
    heliox_value value = HELIOX_VALUE_INIT;
    SET(heliox_options_set_create_if_missing(options, false));
    GIVES(HELIOX_NOT_A_STORE, heliox_store_open(in_dir("store"), options, &store, &error));
    SET(heliox_options_set_create_if_missing(options, true));
    SET(heliox_options_set_durability_none(options));
    SET(heliox_options_set_durability_bounded(options, 50, 1 << 20));
    SET(heliox_options_set_durability_sync(options));
    SET(heliox_options_set_exact(options, true));
    SET(heliox_options_set_segment_bytes(options, 4 << 20));
    SET(heliox_options_set_scrub_period_secs(options, 0));
    SET(heliox_options_set_io_mode(options, HELIOX_IO_MODE_URING));
    SET(heliox_options_set_io_mode(options, HELIOX_IO_MODE_AUTO));
    SET(heliox_options_set_io_mode(options, HELIOX_IO_MODE_BLOCKING));
    OK(heliox_store_open(in_dir("store"), options, &store, &error));
    GIVES(HELIOX_STORE_IN_USE, heliox_store_open(in_dir("store"), options, &second, &error));
    CHECK(second == NULL);
    OK(heliox_keyspace_create(store, "one", &ks, &error));
    OK(heliox_keyspace_put(ks, "k", 1, "v", 1, NULL, &error));
    heliox_store_free(store);
    GIVES(HELIOX_CLOSED, heliox_keyspace_get(ks, "k", 1, &value, &error));
    heliox_keyspace_free(ks);
    GIVES(HELIOX_STORE_EXISTS, heliox_store_create(in_dir("store"), options, &store, &error));
    OK(heliox_store_open(in_dir("store"), options, &store, &error));
    OK(heliox_keyspace_open(store, "one", &ks, &error));
    OK(heliox_keyspace_get(ks, "k", 1, &value, &error));
    CHECK(is(value, "v"));
    heliox_key_source *key = heliox_key_source_bytes("0123456789abcdef0123456789abcdef");
    GIVES(HELIOX_NOT_ENCRYPTED, heliox_store_rotate_key(store, key, NULL, &error));
    heliox_key_source_free(key);
    heliox_keyspace_free(ks);
    heliox_store_free(store);
    heliox_store_free(NULL);
    /* A directory of somebody else's. */
    FILE *file = fopen(in_dir("file"), "w");
    fputs("not a store", file);
    fclose(file);
    SET(heliox_options_set_create_if_missing(options, false));
    SAYS(HELIOX_NOT_A_STORE, dir, heliox_store_open(dir, options, &store, &error));
    CHECK(store == NULL);
    SET(heliox_options_set_create_if_missing(options, true));
    CHECK(HELIOX_FAILED_WITH(heliox_store_open(in_dir("file"), options, &store, NULL)));
    NULLED("path", heliox_store_open(NULL, options, &store, &error));
    NULLED("store", heliox_store_open(in_dir("store"), options, NULL, &error));
    NULLED("path", heliox_store_create(NULL, NULL, &store, &error));
    /* Two files as devices. */
    for (int i = 0; i < 2; i++) {
        file = fopen(in_dir(i ? "device 1" : "device 0"), "w");
        CHECK(fseek(file, (80 << 20) - 1, SEEK_SET) == 0 && fputc(0, file) == 0);
        fclose(file);
        SET(heliox_options_add_device(options, in_dir(i ? "device 1" : "device 0")));
    }
    OK(heliox_store_create(in_dir("striped"), options, &store, &error));
    GIVES(HELIOX_STORE_IN_USE, heliox_store_destroy(in_dir("striped"), &error));
    heliox_store_free(store);
    OK(heliox_store_destroy(in_dir("striped"), &error));
    GIVES(HELIOX_NOT_A_STORE, heliox_store_destroy(in_dir("striped"), &error));
    CHECK(fopen(in_dir("striped/HELIOX"), "r") == NULL && fopen(in_dir("device 1"), "r") == NULL);
    GIVES(HELIOX_NOT_A_STORE, heliox_store_destroy(in_dir("file"), &error));
    NULLED("path", heliox_store_destroy(NULL, &error));
    heliox_options_free(options);
    heliox_value_free(&value);
}

static void checks(void) {
    struct told told = {0};
    heliox_check_report report = {0};
    heliox_list *problems = NULL;
    heliox_options *options = small();
    report.struct_size = sizeof report;
    OK(heliox_check(in_dir("store"), options, on_progress, &told, &report, &problems, &error));
    CHECK(report.records > 0 && report.problem_count == 0 && heliox_list_count(problems) == 0);
    CHECK(told.progress > 0);
    heliox_list_free(problems);
    OK(heliox_check(in_dir("store"), options, NULL, NULL, NULL, NULL, &error));
    GIVES(HELIOX_NOT_A_STORE, heliox_check(in_dir("no store"), options, NULL, NULL, NULL, &problems, &error));
    CHECK(problems == NULL);
    NULLED("path", heliox_check(NULL, options, NULL, NULL, NULL, NULL, &error));
    report.struct_size = 0;
    SAYS(HELIOX_INVALID, "struct_size", heliox_check(in_dir("store"), options, NULL, NULL, &report, NULL, &error));
    heliox_options_free(options);
}

static void encryption(void) {
    heliox_key_source *old = heliox_key_source_bytes("0123456789abcdef0123456789abcdef");
    heliox_key_source *new = heliox_key_source_command("printf %064d 7");
    FILE *file = fopen(in_dir("key"), "w");
    fputs("0000000000000000000000000000000000000000000000000000000000000009\n", file);
    fclose(file);
    heliox_key_source *third = heliox_key_source_file(in_dir("key"));
    heliox_key_change change = {0};
    change.struct_size = sizeof change;
    heliox_store *store = NULL;
    heliox_options *options = small(), *plain = small();
    SET(heliox_options_set_encryption(options, old));
    OK(heliox_store_create(in_dir("secret"), options, &store, &error));
    OK(heliox_store_rotate_key(store, new, &change, &error));
    CHECK(change.data_keys == 2 && change.added);
    NULLED("next", heliox_store_rotate_key(store, NULL, &change, &error));
    heliox_store_free(store);
    GIVES(HELIOX_WRONG_KEY, heliox_store_open(in_dir("secret"), options, &store, &error));
    GIVES(HELIOX_ENCRYPTED, heliox_store_open(in_dir("secret"), plain, &store, &error));
    GIVES(HELIOX_NOT_ENCRYPTED, heliox_store_open(in_dir("store"), options, &store, &error));
    SET(heliox_options_set_encryption(options, new));
    OK(heliox_change_key(in_dir("secret"), options, third, NULL, &error));
    GIVES(HELIOX_WRONG_KEY, heliox_change_key(in_dir("secret"), options, third, &change, &error));
    NULLED("next", heliox_change_key(in_dir("secret"), options, NULL, NULL, &error));
    SET(heliox_options_set_encryption(options, third));
    OK(heliox_store_open(in_dir("secret"), options, &store, &error));
    heliox_store_free(store);
    heliox_key_source_free(old);
    heliox_key_source_free(new);
    heliox_key_source_free(third);
    heliox_options_free(options);
    heliox_options_free(plain);
}

static void backups(void) {
    struct told told = {0};
    heliox_options *options = small();
    heliox_store *store = NULL;
    heliox_keyspace *ks = NULL;
    heliox_backup_report backup = {0};
    heliox_restore_report restore = {0};
    heliox_verify_report verify = {0};
    heliox_list *problems = NULL;
    backup.struct_size = sizeof backup;
    restore.struct_size = sizeof restore;
    verify.struct_size = sizeof verify;
    OK(heliox_store_open(in_dir("store"), options, &store, &error));
    OK(heliox_store_backup(store, in_dir("set"), 0, on_progress, &told, &backup, &error));
    CHECK(backup.number == 1 && backup.copied_bytes > 0 && told.progress > 0 && told.done == told.total);
    OK(heliox_store_backup(store, in_dir("set"), 1, NULL, NULL, &backup, &error));
    CHECK(backup.number == 2 && backup.removed == 1);
    OK(heliox_store_backup(store, in_dir("set"), 2, NULL, NULL, NULL, &error));
    NULLED("set", heliox_store_backup(store, NULL, 0, NULL, NULL, NULL, &error));
    heliox_store_free(store);
    OK(heliox_backups(in_dir("set"), on_backup, &told, &error));
    CHECK(told.backups == 2 && told.damaged == 0);
    NULLED("visit", heliox_backups(in_dir("set"), NULL, NULL, &error));
    GIVES(HELIOX_NOT_A_STORE, heliox_backups(in_dir("no set"), on_backup, &told, &error));
    NULLED("set", heliox_delete_backup(NULL, 1, &error));
    GIVES(HELIOX_NOT_A_STORE, heliox_delete_backup(in_dir("no set"), 1, &error));
    SAYS(HELIOX_INVALID, "no backup 77", heliox_delete_backup(in_dir("set"), 77, &error));
    OK(heliox_verify_backup(in_dir("set"), 0, options, on_progress, &told, &verify, &problems, &error));
    CHECK(verify.backups == 2 && verify.problem_count == 0 && heliox_list_count(problems) == 0);
    heliox_list_free(problems);
    OK(heliox_verify_backup(in_dir("set"), 3, options, NULL, NULL, NULL, NULL, &error));
    GIVES(HELIOX_INVALID, heliox_verify_backup(in_dir("set"), 9, options, NULL, NULL, NULL, &problems, &error));
    OK(heliox_restore(in_dir("set"), 0, in_dir("restored"), options, on_progress, &told, &restore, &error));
    CHECK(restore.number == 3 && restore.bytes > 0);
    GIVES(HELIOX_STORE_EXISTS,
          heliox_restore(in_dir("set"), 2, in_dir("restored"), options, NULL, NULL, NULL, &error));
    NULLED("path", heliox_restore(in_dir("set"), 2, NULL, options, NULL, NULL, NULL, &error));
    OK(heliox_store_open(in_dir("restored"), options, &store, &error));
    OK(heliox_keyspace_open(store, "one", &ks, &error));
    OK(heliox_keyspace_contains(ks, "k", 1, &error));
    heliox_keyspace_free(ks);
    heliox_store_free(store);
    heliox_options_free(options);
}

/* Changes a byte of the file behind the text, which is in it. */
static void spoil(const char *path, const char *text) {
    size_t len = 32u << 20;
    char *bytes = malloc(len);
    FILE *file = fopen(path, "r+b");
    CHECK(file != NULL && bytes != NULL);
    len = fread(bytes, 1, len, file);
    size_t at = 0;
    while (at + strlen(text) < len && memcmp(bytes + at, text, strlen(text)) != 0)
        at++;
    CHECK(at + strlen(text) < len);
    at += strlen(text);
    CHECK(fseek(file, (long)at, SEEK_SET) == 0 && fputc(bytes[at] ^ 1, file) != EOF && fclose(file) == 0);
    free(bytes);
}

/* Damage is told by reads, passed by iterators, and told again by health, events, scrub and check. */
static void damaged(void) {
    struct told told = {0};
    char key[8];
    static char bytes[9000];
    heliox_keyspace *ks = NULL;
    heliox_store *store = NULL;
    heliox_iterator *it = NULL;
    heliox_list *list = NULL;
    heliox_health health = HELIOX_HEALTH_HEALTHY;
    heliox_value value = HELIOX_VALUE_INIT;
    heliox_options *options = small();
    SET(heliox_options_set_scrub_period_secs(options, 0));
    OK(heliox_store_create(in_dir("hurt"), options, &store, &error));
    OK(heliox_keyspace_create(store, "one", &ks, &error));
    memset(bytes, '.', sizeof bytes);
    for (int i = 0; i < 30; i++) {
        snprintf(key, sizeof key, "k%02d", i);
        snprintf(bytes + 4500, 32, "marker %02d", i);
        OK(heliox_keyspace_put(ks, key, 3, bytes, sizeof bytes, NULL, &error));
    }
    heliox_keyspace_free(ks);
    heliox_store_free(store);
    spoil(in_dir("hurt/data"), "marker 15");

    OK(heliox_store_open(in_dir("hurt"), options, &store, &error));
    OK(heliox_keyspace_open(store, "one", &ks, &error));
    OK(heliox_keyspace_get(ks, "k03", 3, &value, &error));
    CHECK(value.len == sizeof bytes && memcmp(value.data + 4500, "marker 03", 9) == 0);
    GIVES(HELIOX_DAMAGED, heliox_keyspace_get(ks, "k15", 3, &value, &error));
    CHECK(value.len == 0);
    OK(heliox_iterator_create(ks, NULL, &it, &error));
    for (int backward = 0; backward < 2; backward++) {
        int seen = 0, lost = 0;
        bool at = backward ? heliox_iterator_seek_to_last(it) : heliox_iterator_seek_to_first(it);
        while (at || heliox_iterator_error(it, NULL) == HELIOX_DAMAGED) {
            CHECK(seen + lost < 30);
            if (!at) {
                GIVES(HELIOX_DAMAGED, heliox_iterator_error(it, &error));
                CHECK(heliox_iterator_key(it, NULL) == NULL);
                /* There is no way back from a record without a key. */
                CHECK(!(backward ? heliox_iterator_next(it) : heliox_iterator_prev(it)));
            }
            seen += at;
            lost += !at;
            at = backward ? heliox_iterator_prev(it) : heliox_iterator_next(it);
        }
        OK(heliox_iterator_error(it, &error));
        CHECK(lost >= 1 && lost <= 2 && seen == 30 - lost);
    }
    heliox_scrub_report report = {0};
    report.struct_size = sizeof report;
    OK(heliox_store_scrub(store, on_progress, on_finding, &told, &report, &error));
    CHECK(report.finding_count >= 1 && told.findings >= 1);
    OK(heliox_store_last_scrub(store, on_finding, &told, NULL, &error));
    CHECK(told.findings >= 2);
    OK(heliox_store_health(store, &health, on_condition, &told, &error));
    CHECK(health == HELIOX_HEALTH_DEGRADED && told.conditions >= 1);
    OK(heliox_store_damage(store, &list, &error));
    CHECK(heliox_list_count(list) >= 1 && heliox_list_get(list, 0)[0] != 0);
    heliox_list_free(list);
    told.findings = 0;
    OK(heliox_store_events(store, on_event, &told, &error));
    CHECK(told.findings >= 1);
    heliox_iterator_free(it);
    heliox_keyspace_free(ks);
    heliox_store_free(store);

    spoil(in_dir("hurt/data"), "marker 20");
    heliox_check_report check = {0};
    check.struct_size = sizeof check;
    OK(heliox_check(in_dir("hurt"), options, NULL, NULL, &check, &list, &error));
    CHECK(check.problem_count >= 1 && heliox_list_count(list) >= 1);
    heliox_list_free(list);
    heliox_options_free(options);
    heliox_value_free(&value);
}

/* Each thread writes, reads and counts the keys of its own, through one handle. */
static int work(void *shared) {
    static atomic_int next;
    const heliox_keyspace *ks = shared;
    heliox_value value = HELIOX_VALUE_INIT;
    int own = next++;
    char key[16];
    for (int i = 0; i < 500; i++) {
        int len = snprintf(key, sizeof key, "%d/%03d", own, i);
        CHECK(heliox_keyspace_put(ks, key, (size_t)len, key, (size_t)len, NULL, NULL) == HELIOX_OK);
        CHECK(heliox_keyspace_get(ks, key, (size_t)len, &value, NULL) == HELIOX_OK && is(value, key));
    }
    heliox_value_free(&value);
    heliox_iterator_options options = {0};
    heliox_iterator *it = NULL;
    options.struct_size = sizeof options;
    options.prefix = (heliox_slice){key, 2};
    CHECK(heliox_iterator_create(ks, &options, &it, NULL) == HELIOX_OK);
    int seen = 0;
    for (bool at_one = heliox_iterator_seek_to_first(it); at_one; at_one = heliox_iterator_next(it))
        seen++;
    heliox_iterator_free(it);
    return seen;
}

static void threads(void) {
    heliox_keyspace *ks = NULL;
    heliox_options *options = small();
    heliox_store *store = in_memory(options, &ks);
    thrd_t ids[4];
    heliox_options_free(options);
    for (int i = 0; i < 4; i++)
        CHECK(thrd_create(&ids[i], work, ks) == thrd_success);
    for (int i = 0; i < 4; i++) {
        int seen = 0;
        CHECK(thrd_join(ids[i], &seen) == thrd_success && seen == 500);
    }
    heliox_store_free(store);
    heliox_keyspace_free(ks);
}

/* What is left of a closed store says so, whichever way it was closed. */
static void closed(void) {
    heliox_keyspace *ks = NULL, *other = NULL;
    heliox_iterator *it = NULL, *more = NULL;
    heliox_snapshot *snapshot = NULL, *later = NULL;
    heliox_value value = HELIOX_VALUE_INIT;
    heliox_options *options = small();
    heliox_store *store = in_memory(options, &ks);
    heliox_batch *batch = heliox_batch_create();
    heliox_health health = HELIOX_HEALTH_HEALTHY;
    fill(ks);
    OK(heliox_store_snapshot(store, &snapshot, &error));
    OK(heliox_iterator_create(ks, NULL, &it, &error));
    CHECK(heliox_iterator_seek_to_first(it));
    /* Of another store. */
    heliox_options *others = small();
    heliox_store *elsewhere = in_memory(others, &other);
    heliox_options_free(others);
    SAYS(HELIOX_INVALID, "another store", heliox_keyspace_get_at(other, snapshot, "k", 1, &value, &error));
    OK(heliox_batch_put(batch, other, "k", 1, "v", 1, &error));
    SAYS(HELIOX_INVALID, "another store", heliox_store_write(store, batch, NULL, &error));
    heliox_store_free(elsewhere);
    heliox_keyspace_free(other);

    OK(heliox_store_close(store, &error));
    OK(heliox_store_close(store, &error));
    OK(heliox_store_health(store, &health, NULL, NULL, &error));
    CHECK(health == HELIOX_HEALTH_CLOSED);
    for (int freed = 0; freed < 2; freed++) {
        GIVES(HELIOX_CLOSED, heliox_keyspace_put(ks, "k", 1, "v", 1, NULL, &error));
        GIVES(HELIOX_CLOSED, heliox_keyspace_get(ks, "k", 1, &value, &error));
        GIVES(HELIOX_CLOSED, heliox_keyspace_get_at(ks, snapshot, "k", 1, &value, &error));
        GIVES(HELIOX_CLOSED, heliox_keyspace_multi_get_at(ks, snapshot, 0, NULL, NULL, &error));
        GIVES(HELIOX_CLOSED, heliox_iterator_create(ks, NULL, &more, &error));
        CHECK(!heliox_iterator_seek_to_first(it) && !heliox_iterator_valid(it));
        GIVES(HELIOX_CLOSED, heliox_iterator_error(it, &error));
        GIVES(HELIOX_CLOSED, heliox_iterator_refresh(it, NULL, &error));
        if (!freed) {
            GIVES(HELIOX_CLOSED, heliox_store_sync(store, &error));
            GIVES(HELIOX_CLOSED, heliox_store_flush(store, &error));
            GIVES(HELIOX_CLOSED, heliox_store_checkpoint(store, &error));
            GIVES(HELIOX_CLOSED, heliox_store_write(store, batch, NULL, &error));
            GIVES(HELIOX_CLOSED, heliox_store_snapshot(store, &later, &error));
            GIVES(HELIOX_CLOSED, heliox_keyspace_open(store, "one", &other, &error));
            GIVES(HELIOX_CLOSED, heliox_store_backup(store, in_dir("set"), 0, NULL, NULL, NULL, &error));
            heliox_store_free(store);
        }
    }
    /* The same memory, opened again. */
    OK(heliox_store_open(NULL, options, &store, &error));
    OK(heliox_keyspace_open(store, "one", &other, &error));
    OK(heliox_keyspace_contains(other, "k42", 3, &error));
    SAYS(HELIOX_INVALID, "merge operator", heliox_keyspace_merge(other, "k", 1, "v", 1, &error));
    heliox_keyspace_free(other);
    heliox_store_free(store);
    heliox_options_free(options);
    heliox_batch_free(batch);
    heliox_snapshot_free(snapshot);
    heliox_iterator_free(it);
    heliox_keyspace_free(ks);
    heliox_value_free(&value);
}

/* Every function that takes a store or a keyspace, without one. */
static void nulls(void) {
    heliox_keyspace *ks = NULL;
    heliox_list *list = NULL;
    heliox_value value = HELIOX_VALUE_INIT;
    heliox_snapshot *snapshot = NULL;
    char *text = NULL;
    uint64_t number = 0;
    heliox_slice slice = {"", 0};
    NULLED("store", heliox_store_close(NULL, &error));
    NULLED("store", heliox_store_write(NULL, NULL, NULL, &error));
    NULLED("store", heliox_store_snapshot(NULL, &snapshot, &error));
    NULLED("snapshot", heliox_store_snapshot(NULL, NULL, &error));
    NULLED("store", heliox_store_flush(NULL, &error));
    NULLED("store", heliox_store_sync(NULL, &error));
    NULLED("store", heliox_store_checkpoint(NULL, &error));
    NULLED("store", heliox_store_describe(NULL, &text, &error));
    NULLED("store", heliox_store_warnings(NULL, &list, &error));
    NULLED("list", heliox_store_warnings(NULL, NULL, &error));
    NULLED("store", heliox_store_damage(NULL, &list, &error));
    NULLED("store", heliox_store_keyspaces(NULL, &list, &error));
    NULLED("store", heliox_keyspace_open(NULL, "one", &ks, &error));
    NULLED("keyspace", heliox_keyspace_open(NULL, "one", NULL, &error));
    NULLED("store", heliox_keyspace_create(NULL, "one", &ks, &error));
    NULLED("store", heliox_keyspace_open_or_create(NULL, "one", &ks, &error));
    NULLED("store", heliox_keyspace_drop(NULL, "one", &error));
    NULLED("store", heliox_store_stats(NULL, on_stat, NULL, &error));
    NULLED("store", heliox_store_stat(NULL, "objects", &number, &error));
    NULLED("store", heliox_store_health(NULL, NULL, NULL, NULL, &error));
    NULLED("store", heliox_store_scrub(NULL, NULL, NULL, NULL, NULL, &error));
    NULLED("store", heliox_store_last_scrub(NULL, NULL, NULL, NULL, &error));
    NULLED("store", heliox_store_events(NULL, on_event, NULL, &error));
    NULLED("store", heliox_store_rotate_key(NULL, NULL, NULL, &error));
    NULLED("store", heliox_store_backup(NULL, "set", 0, NULL, NULL, NULL, &error));
    NULLED("keyspace", heliox_keyspace_put(NULL, "k", 1, "v", 1, NULL, &error));
    NULLED("keyspace", heliox_keyspace_put_ttl(NULL, "k", 1, "v", 1, 1, &error));
    NULLED("keyspace", heliox_keyspace_delete(NULL, "k", 1, NULL, &error));
    NULLED("keyspace", heliox_keyspace_delete_range(NULL, "k", 1, "l", 1, NULL, &error));
    NULLED("keyspace", heliox_keyspace_delete_prefix(NULL, "k", 1, NULL, &error));
    NULLED("keyspace", heliox_keyspace_insert_if_absent(NULL, "k", 1, "v", 1, &error));
    NULLED("keyspace", heliox_keyspace_replace_if_present(NULL, "k", 1, "v", 1, &error));
    NULLED("keyspace", heliox_keyspace_compare_and_set(NULL, "k", 1, &slice, NULL, &error));
    NULLED("keyspace", heliox_keyspace_take(NULL, "k", 1, &value, &error));
    NULLED("keyspace", heliox_keyspace_update(NULL, "k", 1, shouted, NULL, &error));
    NULLED("keyspace", heliox_keyspace_merge(NULL, "k", 1, "v", 1, &error));
    NULLED("keyspace", heliox_keyspace_get(NULL, "k", 1, &value, &error));
    NULLED("keyspace", heliox_keyspace_get_into(NULL, "k", 1, NULL, 0, NULL, &error));
    NULLED("keyspace", heliox_keyspace_get_range(NULL, "k", 1, 0, 1, &value, &error));
    NULLED("keyspace", heliox_keyspace_multi_get(NULL, 0, NULL, NULL, &error));
    NULLED("snapshot", heliox_keyspace_multi_get_at(NULL, NULL, 0, NULL, NULL, &error));
    NULLED("keyspace", heliox_keyspace_contains(NULL, "k", 1, &error));
    NULLED("keyspace", heliox_keyspace_approximate(NULL, "k", 1, "l", 1, NULL, NULL, &error));
    /* Without a place for the error there is the code. */
    CHECK(heliox_store_sync(NULL, NULL) == HELIOX_INVALID);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    dir = argv[1];
    heliox_keyspace *one = NULL;
    heliox_options *options = small();
    heliox_store *store = in_memory(options, &one);
    heliox_options_free(options);
    versions_and_names();
    puts_and_gets(one);
    large_values(one);
    conditions(one);
    write_options(one);
    batches(store, one);
    iterators(store, one);
    ranges(store, one);
    keyspaces(store, one);
    figures(store, one);
    heliox_keyspace_free(one);
    heliox_store_free(store);
    callbacks();
    options_out_of_bounds();
    on_disk();
    checks();
    encryption();
    backups();
    damaged();
    threads();
    closed();
    nulls();
    puts("all holds");
    return 0;
}
