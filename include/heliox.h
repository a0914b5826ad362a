/*
 * heliox.h - the C interface of Heliox, a flash-native key-value storage engine.
 *
 * A guide with a whole program is in docs/c-api.md; C++ programs may prefer heliox.hpp, which
 * stands over this header. Programs link with -lheliox (pkg-config --cflags --libs heliox, or
 * find_package(Heliox) in CMake).
 *
 *     heliox_store *store = NULL;
 *     heliox_keyspace *films = NULL;
 *     heliox_value value = HELIOX_VALUE_INIT;
 *     heliox_error *error = NULL;
 *     if (heliox_store_open("films.heliox", NULL, &store, &error) == HELIOX_OK &&
 *         heliox_keyspace_open_or_create(store, "films", &films, &error) == HELIOX_OK &&
 *         heliox_keyspace_put(films, "tt0133093", 9, "The Matrix", 10, NULL, &error) == HELIOX_OK &&
 *         heliox_keyspace_get(films, "tt0133093", 9, &value, &error) == HELIOX_OK)
 *         printf("%.*s\n", (int)value.len, value.data);
 *     if (error != NULL)
 *         fprintf(stderr, "%s\n", heliox_error_text(error));
 *     heliox_error_free(error);
 *     heliox_value_free(&value);
 *     heliox_keyspace_free(films);
 *     heliox_store_free(store);
 *
 * CONVENTIONS
 *
 * Handles. heliox_store, heliox_keyspace and the like are opaque. Whoever was given one frees it with
 * the function of its name that ends in _free, once, in any order: a keyspace, snapshot or iterator
 * may outlive the handle of its store, and then answers HELIOX_CLOSED. All _free functions take NULL.
 *
 * Bytes. Keys and values are a pointer and a length, of any bytes; they are copied or used up before
 * the function returns. A NULL pointer is fine with length 0. Paths and names are text that ends with
 * a zero byte; names of keyspaces are UTF-8.
 *
 * Codes and errors. Functions that can fail return a heliox_code. HELIOX_OK, HELIOX_NOT_FOUND and
 * HELIOX_UNCHANGED are answers; all from HELIOX_INVALID on are failures (HELIOX_FAILED_WITH(code) tells).
 * Codes are stable, texts are for people. The last argument, `error`, may be NULL; else the function sets
 * *error: to NULL if it gave an answer, else to an error that the caller frees with heliox_error_free.
 * (So what *error held before is overwritten: free it first.) After a failure, results are NULL, 0 or
 * false, except where a function says otherwise.
 *
 * Memory. The library and the program may use different allocators: free nothing of the library's with
 * free(), but with the function that its comment names. Pointers into a handle (heliox_error_text,
 * heliox_iterator_key) end with the handle, or earlier where their comment says so.
 *
 * Null handles and null results. A NULL where a handle or a place for a result must be is
 * HELIOX_INVALID with a text that names it, not a crash; functions that give no code answer NULL, 0 or
 * false. A handle that was freed, or a length beyond the memory, cannot be told and is undefined.
 *
 * Threads. Stores, keyspaces, snapshots, key sources and volumes may be used by any number of threads at
 * once. Options, write options, batches, iterators, values and lists by one at a time. No handle may be
 * freed while another thread uses it. A handle may be made by one thread and freed by another.
 *
 * Callbacks. They get the `user` pointer that was given with them. They must return normally: no
 * exception, no longjmp, no ending of the thread. Pointers that they are given end when they return. Those
 * of one call (progress, visitors, update) run on the caller's thread before the call returns; merge
 * operators and listeners of events run on any thread, perhaps on several at once, until the `destroy`
 * function that came with them was called: once, when nothing can call them any more, which may be a moment
 * after the last handle of options and store was freed. What a callback may not do stands with it.
 *
 * Panics. A defect of the library never unwinds into the program: it is HELIOX_INTERNAL. The library
 * installs no signal handlers, and its own threads are named heliox-... .
 *
 * Versions. HELIOX_ABI_VERSION is raised when a program that was compiled with an older header would not
 * work any more; compare it with heliox_abi_version(). Structs that may grow begin with struct_size, which
 * the owner of the memory sets to sizeof (`heliox_check_report r = {0}; r.struct_size = sizeof r;`): the
 * library reads and writes no more than that. heliox_slice and heliox_value never change.
 *
 * NOT SUPPORTED through this interface: media of the program's own (Rust's `Media`; volumes in memory are
 * there), stores whose background work the program drives itself, keyspace names with zero bytes in them,
 * custom allocators. Not in Heliox at all: opening without the right to write, renaming keyspaces,
 * comparators other than by bytes, transactions with conflict checks beyond the conditional writes here,
 * several processes with one store open, a child of fork() that uses its parent's store.
 */
#ifndef HELIOX_H
#define HELIOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef HELIOX_API
#define HELIOX_API
#endif

/* Versions. ---------------------------------------------------------------------------------- */

#define HELIOX_ABI_VERSION 1

/* HELIOX_ABI_VERSION of the library that runs. */
HELIOX_API uint32_t heliox_abi_version(void);

/* The library's version, such as "0.1.0". Never freed. */
HELIOX_API const char *heliox_version(void);

/* Codes and errors. -------------------------------------------------------------------------- */

typedef enum heliox_code {
    HELIOX_OK = 0,
    /* The key, backup or figure is not there. No error is set. */
    HELIOX_NOT_FOUND = 1,
    /* The condition of a conditional write did not hold, and nothing was written. No error is set. */
    HELIOX_UNCHANGED = 2,
    /* An option or an argument makes no sense; the text states the bounds. */
    HELIOX_INVALID = 16,
    /* A key, a value, a batch or a name is longer than the store takes. */
    HELIOX_TOO_LARGE = 17,
    /* There is no store at this place. */
    HELIOX_NOT_A_STORE = 18,
    /* There is a store at this place already, or a device carries the label of one. */
    HELIOX_STORE_EXISTS = 19,
    /* Another process, or another handle of this one, has the store open. */
    HELIOX_STORE_IN_USE = 20,
    /* No keyspace has this name, or the keyspace was dropped. */
    HELIOX_UNKNOWN_KEYSPACE = 21,
    /* A keyspace has this name already. */
    HELIOX_KEYSPACE_EXISTS = 22,
    /* A device is missing, belongs to another store, or stands in the wrong place. */
    HELIOX_WRONG_DEVICE = 23,
    /* A device is shorter than the store that was made on it, or too short to make one. */
    HELIOX_SHORT_DEVICE = 24,
    /* The store was written in a format version that this library does not know. */
    HELIOX_VERSION = 25,
    /* The store is encrypted and no key was given. */
    HELIOX_ENCRYPTED = 26,
    /* A key was given and the store is not encrypted. */
    HELIOX_NOT_ENCRYPTED = 27,
    /* The store is encrypted with another key than the one given. */
    HELIOX_WRONG_KEY = 28,
    /* Bytes on media are not what was written there. */
    HELIOX_DAMAGED = 29,
    /* The operating system refused a read, a write or another operation. */
    HELIOX_IO = 30,
    /* No space is left, in the store or on the file system under it. */
    HELIOX_FULL = 31,
    /* The change needs more memory than the memory budget allows. */
    HELIOX_OVER_BUDGET = 32,
    /* The place cannot be written: read-only, or not permitted to this user. */
    HELIOX_READ_ONLY = 33,
    /* The snapshot needs versions that are no longer kept: take a new one. */
    HELIOX_SNAPSHOT_TOO_OLD = 34,
    /* The store was closed. */
    HELIOX_CLOSED = 35,
    /* An earlier write or sync failed; nothing is written until the store is opened again. */
    HELIOX_FAILED = 36,
    /* A rule of the library's own does not hold: a defect to be reported. */
    HELIOX_INTERNAL = 37
} heliox_code;

/* True if the code is a failure rather than an answer. */
#define HELIOX_FAILED_WITH(code) ((code) >= HELIOX_INVALID)

/* What went wrong: a code for programs and a text for people. */
typedef struct heliox_error heliox_error;

/* The code; HELIOX_OK for NULL. */
HELIOX_API heliox_code heliox_error_code(const heliox_error *error);
/* The text: what, where, expected and found, and what to do. Ends with the error; "" for NULL. */
HELIOX_API const char *heliox_error_text(const heliox_error *error);
HELIOX_API void heliox_error_free(heliox_error *error);
/* The name of a code, such as "NOT_FOUND"; "UNKNOWN" for what is none. Never freed. */
HELIOX_API const char *heliox_code_name(heliox_code code);

/* Bytes, texts, lists. ----------------------------------------------------------------------- */

/* Bytes of somebody else's. */
typedef struct heliox_slice {
    const char *data;
    size_t len;
} heliox_slice;

/*
 * A value that was read. Begins as HELIOX_VALUE_INIT, and may be given to read after read: its memory
 * is used again. `capacity` is the library's; change none of the three, and copy no value that you free.
 */
typedef struct heliox_value {
    const char *data;
    size_t len;
    size_t capacity;
} heliox_value;

#define HELIOX_VALUE_INIT { NULL, 0, 0 }

/* Frees the memory of a value and makes it HELIOX_VALUE_INIT again. */
HELIOX_API void heliox_value_free(heliox_value *value);
/* The same for `count` values. */
HELIOX_API void heliox_values_free(heliox_value *values, size_t count);
/* Frees text that the library gave as `char *`. */
HELIOX_API void heliox_free(char *text);

/* Texts, in order. */
typedef struct heliox_list heliox_list;

HELIOX_API size_t heliox_list_count(const heliox_list *list);
/* Text number `at`, from 0; NULL beyond the end. Ends with the list. */
HELIOX_API const char *heliox_list_get(const heliox_list *list, size_t at);
HELIOX_API void heliox_list_free(heliox_list *list);

/* How far a long call is, in bytes; 0 of 0 while the total is not known. */
typedef void (*heliox_progress_fn)(void *user, uint64_t done_bytes, uint64_t total_bytes);
/* Ends the use of a `user` pointer. */
typedef void (*heliox_destroy_fn)(void *user);

/* Where a callback puts the value that it gives. */
typedef struct heliox_output heliox_output;

/* Appends bytes. False, and nothing appended, for a NULL output. */
HELIOX_API bool heliox_output_append(heliox_output *output, const void *data, size_t len);
/* Takes back what was appended. */
HELIOX_API void heliox_output_clear(heliox_output *output);

/* Options of a store. ------------------------------------------------------------------------ */

/*
 * How a store is opened. Setters return HELIOX_INVALID for a NULL, and leave the bounds to the open, whose
 * error states them. Options marked "at creation" are kept in the store and ignored later. The handle may
 * be freed once the store is open, or used again.
 */
typedef struct heliox_options heliox_options;
/* Where the key of an encrypted store comes from. */
typedef struct heliox_key_source heliox_key_source;
/* Memory in the place of a device. */
typedef struct heliox_volume heliox_volume;
typedef struct heliox_event heliox_event;

/* The defaults. */
HELIOX_API heliox_options *heliox_options_create(void);
HELIOX_API heliox_options *heliox_options_clone(const heliox_options *options);
HELIOX_API void heliox_options_free(heliox_options *options);

/* Behaviour: what the store promises. */

/* Make a store where there is none. Default: true. */
HELIOX_API heliox_code heliox_options_set_create_if_missing(heliox_options *options, bool create);
/* Open for reading alone: not a byte of the store's files is written, so that they need no right to write.
 * Others may have it open in the same way meanwhile. Changes, scrubs and checkpoints are HELIOX_READ_ONLY.
 * Default: false. */
HELIOX_API heliox_code heliox_options_set_read_only(heliox_options *options, bool read_only);
/* A write returns when it is durable; those that wait at the same time share one sync. */
HELIOX_API heliox_code heliox_options_set_durability_sync(heliox_options *options);
/*
 * A write returns at once, and a crash loses at most the last `ms` milliseconds (1 to 3,600,000) and
 * `bytes` bytes (4096 at least) of acknowledged writes. Default: 100 ms, 8 MiB.
 */
HELIOX_API heliox_code heliox_options_set_durability_bounded(heliox_options *options, uint64_t ms,
                                                             uint64_t bytes);
/* A write returns at once and is durable with the next sync, flush by itself, checkpoint or close. */
HELIOX_API heliox_code heliox_options_set_durability_none(heliox_options *options);
/*
 * At creation: a block device, or a file that exists, to stripe the store over; call once for each (64 at
 * most). Contents are overwritten. Later: where the devices are now, if their paths changed.
 */
HELIOX_API heliox_code heliox_options_add_device(heliox_options *options, const char *path);
/* A volume in memory, instead of devices and of the directory, whose path is then ignored. */
HELIOX_API heliox_code heliox_options_add_volume(heliox_options *options, const heliox_volume *volume);
/* At creation: bytes that the store takes on media at most. Default: what is free less a reserve. */
HELIOX_API heliox_code heliox_options_set_capacity_bytes(heliox_options *options, uint64_t bytes);
/* Verify the key of each displaced record by a background read. Default: false. */
HELIOX_API heliox_code heliox_options_set_exact(heliox_options *options, bool exact);
/* At creation: encrypt (AES-256-GCM); later: the key of the store. */
HELIOX_API heliox_code heliox_options_set_encryption(heliox_options *options,
                                                     const heliox_key_source *key);

/*
 * The new value of `key` from its present one (`base`, NULL if it has none) and the operand: append it to
 * `output` and return true. False refuses the operand: the merge fails with HELIOX_INVALID. Must be a pure
 * function of its arguments, callable from any thread, perhaps several times for one merge. It may not
 * call the store.
 */
typedef bool (*heliox_merge_fn)(void *user, const char *key, size_t key_len, const char *base,
                                size_t base_len, const char *operand, size_t operand_len,
                                heliox_output *output);
/* What heliox_keyspace_merge does. `name` is for messages; `destroy` may be NULL. If the call fails it
 * has taken nothing over, and destroy is not called. */
HELIOX_API heliox_code heliox_options_set_merge_operator(heliox_options *options, const char *name,
                                                         heliox_merge_fn merge, void *user,
                                                         heliox_destroy_fn destroy);

/* Called for each event (see heliox_event) by a thread of its own, one at a time and in order. It may use
 * the store, but not free or close it. If it blocks, only events wait: 1,024, then the oldest are dropped. */
typedef void (*heliox_event_fn)(void *user, const heliox_event *event);
HELIOX_API heliox_code heliox_options_set_event_listener(heliox_options *options,
                                                         heliox_event_fn listener, void *user,
                                                         heliox_destroy_fn destroy);

/* Performance: speed and space only. */

/* How reads reach the kernel. */
typedef enum heliox_io_mode {
    /* io_uring where the kernel grants it, else blocking calls. The default. */
    HELIOX_IO_MODE_AUTO = 0,
    /* io_uring, or an error at open. */
    HELIOX_IO_MODE_URING = 1,
    /* Blocking calls only. */
    HELIOX_IO_MODE_BLOCKING = 2
} heliox_io_mode;

/* Memory for index, tail and cache together; 16 MiB at least. Default: a quarter of the machine's. */
HELIOX_API heliox_code heliox_options_set_memory_budget_bytes(heliox_options *options, uint64_t bytes);
/* At creation: bytes of a segment, a power of two from 4 to 64 MiB. Default: by capacity. */
HELIOX_API heliox_code heliox_options_set_segment_bytes(heliox_options *options, uint64_t bytes);
/* In how many seconds the scrub reads and verifies all in use; 0 turns it off. Default: a week. */
HELIOX_API heliox_code heliox_options_set_scrub_period_secs(heliox_options *options, uint64_t secs);
HELIOX_API heliox_code heliox_options_set_io_mode(heliox_options *options, heliox_io_mode mode);

/* A file with 32 bytes or 64 hexadecimal digits. NULL for a NULL path. */
HELIOX_API heliox_key_source *heliox_key_source_file(const char *path);
/* A command for `sh -c` that writes what such a file holds. NULL for a NULL command. */
HELIOX_API heliox_key_source *heliox_key_source_command(const char *command);
/* The key itself: 32 bytes. NULL for NULL. */
HELIOX_API heliox_key_source *heliox_key_source_bytes(const void *key);
HELIOX_API void heliox_key_source_free(heliox_key_source *key);

/* Memory of so many bytes as a device. Keeps its contents as long as a handle or store has it. */
HELIOX_API heliox_code heliox_volume_create_memory(uint64_t bytes, heliox_volume **volume,
                                                   heliox_error **error);
HELIOX_API void heliox_volume_free(heliox_volume *volume);

/* Options of a write. ------------------------------------------------------------------------ */

/* How a write differs from the store's defaults. NULL, where it is asked for, means not at all. */
typedef struct heliox_write_options heliox_write_options;

HELIOX_API heliox_write_options *heliox_write_options_create(void);
HELIOX_API void heliox_write_options_free(heliox_write_options *options);
HELIOX_API heliox_code heliox_write_options_set_durability_sync(heliox_write_options *options);
HELIOX_API heliox_code heliox_write_options_set_durability_bounded(heliox_write_options *options,
                                                                   uint64_t ms, uint64_t bytes);
HELIOX_API heliox_code heliox_write_options_set_durability_none(heliox_write_options *options);
/* The value expires so many milliseconds from the write (1 at least). */
HELIOX_API heliox_code heliox_write_options_set_ttl_ms(heliox_write_options *options, uint64_t ttl_ms);
/* The defaults again. */
HELIOX_API heliox_code heliox_write_options_clear(heliox_write_options *options);

/* Stores. ------------------------------------------------------------------------------------ */

typedef struct heliox_store heliox_store;
typedef struct heliox_keyspace heliox_keyspace;
typedef struct heliox_batch heliox_batch;
typedef struct heliox_snapshot heliox_snapshot;
typedef struct heliox_iterator heliox_iterator;

/* Opens the store in the directory `path`; makes it first if there is none and the options allow that.
 * NULL options are the defaults. */
HELIOX_API heliox_code heliox_store_open(const char *path, const heliox_options *options,
                                         heliox_store **store, heliox_error **error);
/* Makes a store and opens it; HELIOX_STORE_EXISTS if there is one. */
HELIOX_API heliox_code heliox_store_create(const char *path, const heliox_options *options,
                                           heliox_store **store, heliox_error **error);
/*
 * Deletes the store in the directory `path`, which nobody may have open: its files, and the directory if
 * nothing else is in it; devices become such that hold no store. If this does not end, the store is whole,
 * or the next call goes on with it. HELIOX_NOT_A_STORE if there is none; nothing is deleted that is not the
 * store's.
 */
HELIOX_API heliox_code heliox_store_destroy(const char *path, heliox_error **error);
/*
 * Makes everything durable, writes a checkpoint, and closes: all handles of the store give HELIOX_CLOSED
 * from now on, and its files and devices are unlocked and closed, so that it can be opened again whatever
 * handles are left. Tells whether that went well, which heliox_store_free cannot. Does nothing the second
 * time. The handle remains to be freed.
 */
HELIOX_API heliox_code heliox_store_close(const heliox_store *store, heliox_error **error);
/* Closes the store, if it is open, and frees the handle. */
HELIOX_API void heliox_store_free(heliox_store *store);

/* Writes a batch: all of it becomes visible and durable, or nothing. The batch is unchanged. */
HELIOX_API heliox_code heliox_store_write(const heliox_store *store, const heliox_batch *batch,
                                          const heliox_write_options *options, heliox_error **error);
/* A snapshot of everything that is visible now, over all keyspaces. */
HELIOX_API heliox_code heliox_store_snapshot(const heliox_store *store, heliox_snapshot **snapshot,
                                             heliox_error **error);
HELIOX_API void heliox_snapshot_free(heliox_snapshot *snapshot);
/* Hands everything to the devices, without waiting until it is durable. */
HELIOX_API heliox_code heliox_store_flush(const heliox_store *store, heliox_error **error);
/* Returns when every write so far is durable. */
HELIOX_API heliox_code heliox_store_sync(const heliox_store *store, heliox_error **error);
/* Writes a checkpoint now, so that the next open replays little. */
HELIOX_API heliox_code heliox_store_checkpoint(const heliox_store *store, heliox_error **error);

/* Which store this is and where it is kept, in one line. Freed with heliox_free. */
HELIOX_API heliox_code heliox_store_describe(const heliox_store *store, char **text,
                                             heliox_error **error);
/* What is not as it should be and did not keep the store from opening. */
HELIOX_API heliox_code heliox_store_warnings(const heliox_store *store, heliox_list **list,
                                             heliox_error **error);
/* What was found damaged since the store was opened. */
HELIOX_API heliox_code heliox_store_damage(const heliox_store *store, heliox_list **list,
                                           heliox_error **error);

/* Keyspaces. --------------------------------------------------------------------------------- */

/* The keyspace of this name; HELIOX_UNKNOWN_KEYSPACE if there is none. */
HELIOX_API heliox_code heliox_keyspace_open(const heliox_store *store, const char *name,
                                            heliox_keyspace **keyspace, heliox_error **error);
/* Makes a keyspace; HELIOX_KEYSPACE_EXISTS if there is one. Names have 1 to 255 bytes. */
HELIOX_API heliox_code heliox_keyspace_create(const heliox_store *store, const char *name,
                                              heliox_keyspace **keyspace, heliox_error **error);
HELIOX_API heliox_code heliox_keyspace_open_or_create(const heliox_store *store, const char *name,
                                                      heliox_keyspace **keyspace,
                                                      heliox_error **error);
/* Takes a keyspace with all its keys away, in constant time. */
HELIOX_API heliox_code heliox_keyspace_drop(const heliox_store *store, const char *name,
                                            heliox_error **error);
/* The names of all keyspaces, in order. */
HELIOX_API heliox_code heliox_store_keyspaces(const heliox_store *store, heliox_list **list,
                                              heliox_error **error);
/* Another handle of the same keyspace. NULL for NULL. */
HELIOX_API heliox_keyspace *heliox_keyspace_clone(const heliox_keyspace *keyspace);
/* The keyspace's name; NULL for NULL. Ends with the handle. */
HELIOX_API const char *heliox_keyspace_name(const heliox_keyspace *keyspace);
HELIOX_API void heliox_keyspace_free(heliox_keyspace *keyspace);

/* Writing. Keys have 0 to 65,535 bytes, values 0 to 256 MiB. */

HELIOX_API heliox_code heliox_keyspace_put(const heliox_keyspace *keyspace, const void *key,
                                           size_t key_len, const void *value, size_t value_len,
                                           const heliox_write_options *options, heliox_error **error);
/* The value expires so many milliseconds from now (1 at least). */
HELIOX_API heliox_code heliox_keyspace_put_ttl(const heliox_keyspace *keyspace, const void *key,
                                               size_t key_len, const void *value, size_t value_len,
                                               uint64_t ttl_ms, heliox_error **error);
/* HELIOX_OK even if there is no such key: nothing is read. */
HELIOX_API heliox_code heliox_keyspace_delete(const heliox_keyspace *keyspace, const void *key,
                                              size_t key_len, const heliox_write_options *options,
                                              heliox_error **error);
/* Takes away every key in [from, to), in constant time. */
HELIOX_API heliox_code heliox_keyspace_delete_range(const heliox_keyspace *keyspace, const void *from,
                                                    size_t from_len, const void *to, size_t to_len,
                                                    const heliox_write_options *options,
                                                    heliox_error **error);
/* Takes away every key that starts with the prefix; all keys if it is empty. */
HELIOX_API heliox_code heliox_keyspace_delete_prefix(const heliox_keyspace *keyspace,
                                                     const void *prefix, size_t prefix_len,
                                                     const heliox_write_options *options,
                                                     heliox_error **error);

/* Conditional writes: each one atomic step. HELIOX_UNCHANGED if the condition did not hold. */

/* Gives the key the value if it has none. */
HELIOX_API heliox_code heliox_keyspace_insert_if_absent(const heliox_keyspace *keyspace,
                                                        const void *key, size_t key_len,
                                                        const void *value, size_t value_len,
                                                        heliox_error **error);
/* Gives the key the value if it has one. */
HELIOX_API heliox_code heliox_keyspace_replace_if_present(const heliox_keyspace *keyspace,
                                                          const void *key, size_t key_len,
                                                          const void *value, size_t value_len,
                                                          heliox_error **error);
/* Gives the key the value `next` if it has the value `expected`. NULL for `expected` is "has none"; NULL for
 * `next` deletes the key; empty values are pointers to anything, with length 0. */
HELIOX_API heliox_code heliox_keyspace_compare_and_set(const heliox_keyspace *keyspace,
                                                       const void *key, size_t key_len,
                                                       const heliox_slice *expected,
                                                       const heliox_slice *next,
                                                       heliox_error **error);
/* Takes the value away and gives it; HELIOX_NOT_FOUND if there was none. */
HELIOX_API heliox_code heliox_keyspace_take(const heliox_keyspace *keyspace, const void *key,
                                            size_t key_len, heliox_value *value,
                                            heliox_error **error);

/* What an update does. Anything else that the callback returns keeps the value. */
typedef enum heliox_update {
    /* Leaves things as they are: HELIOX_UNCHANGED. */
    HELIOX_UPDATE_KEEP = 0,
    /* The next value is what was appended to the output. */
    HELIOX_UPDATE_PUT = 1,
    /* The key has no value from now on. */
    HELIOX_UPDATE_DELETE = 2
} heliox_update;

/* Is shown the present value (NULL if there is none) and decides about the next. Called again, with an
 * output that is empty again, if somebody else wrote the key meanwhile. It may not write to the store. */
typedef heliox_update (*heliox_update_fn)(void *user, const char *value, size_t value_len,
                                          heliox_output *output);
HELIOX_API heliox_code heliox_keyspace_update(const heliox_keyspace *keyspace, const void *key,
                                              size_t key_len, heliox_update_fn update, void *user,
                                              heliox_error **error);
/* Merges an operand into the value of the key by the store's merge operator. */
HELIOX_API heliox_code heliox_keyspace_merge(const heliox_keyspace *keyspace, const void *key,
                                             size_t key_len, const void *operand, size_t operand_len,
                                             heliox_error **error);

/* Reading. HELIOX_NOT_FOUND if the key has no value; the value then has length 0. */

/* The memory of `value` is used again, so a loop over many keys allocates next to nothing; the key may not
 * lie in it. */
HELIOX_API heliox_code heliox_keyspace_get(const heliox_keyspace *keyspace, const void *key,
                                           size_t key_len, heliox_value *value, heliox_error **error);
/* Into memory of the caller's: as much as fits `capacity`. *value_len is the length of the whole value,
 * so that it does not fit if it is larger than `capacity`; it may be NULL. */
HELIOX_API heliox_code heliox_keyspace_get_into(const heliox_keyspace *keyspace, const void *key,
                                                size_t key_len, void *buffer, size_t capacity,
                                                size_t *value_len, heliox_error **error);
/* Bytes offset .. offset + len of the value, fewer at its end. */
HELIOX_API heliox_code heliox_keyspace_get_range(const heliox_keyspace *keyspace, const void *key,
                                                 size_t key_len, uint64_t offset, uint64_t len,
                                                 heliox_value *value, heliox_error **error);
/* The value at the time of the snapshot. */
HELIOX_API heliox_code heliox_keyspace_get_at(const heliox_keyspace *keyspace,
                                              const heliox_snapshot *snapshot, const void *key,
                                              size_t key_len, heliox_value *value,
                                              heliox_error **error);
/*
 * The values of `count` keys, their records read in one batch. `values` are `count` values, each
 * HELIOX_VALUE_INIT or of an earlier read; keys without a value have data NULL afterwards, and only those.
 * After a failure all are HELIOX_VALUE_INIT.
 */
HELIOX_API heliox_code heliox_keyspace_multi_get(const heliox_keyspace *keyspace, size_t count,
                                                 const heliox_slice *keys, heliox_value *values,
                                                 heliox_error **error);
/* As heliox_keyspace_multi_get, all as of the snapshot. */
HELIOX_API heliox_code heliox_keyspace_multi_get_at(const heliox_keyspace *keyspace,
                                                    const heliox_snapshot *snapshot, size_t count,
                                                    const heliox_slice *keys, heliox_value *values,
                                                    heliox_error **error);
/* HELIOX_OK if the key has a value. */
HELIOX_API heliox_code heliox_keyspace_contains(const heliox_keyspace *keyspace, const void *key,
                                                size_t key_len, heliox_error **error);
/* About how many keys [from, to) holds, and how many bytes they take: counted where they are few, at most
 * 256; else by the index, and on media by a mean. NULL for `to` is the end of the keyspace. `count` and
 * `bytes` may be NULL. */
HELIOX_API heliox_code heliox_keyspace_approximate(const heliox_keyspace *keyspace, const void *from,
                                                   size_t from_len, const void *to, size_t to_len,
                                                   uint64_t *count, uint64_t *bytes,
                                                   heliox_error **error);

/* Batches. ----------------------------------------------------------------------------------- */

/* Writes over any keyspaces of one store that take effect all together or not at all. Of several writes of
 * one key the last counts. Bounds are checked by heliox_store_write. */
HELIOX_API heliox_batch *heliox_batch_create(void);
HELIOX_API heliox_batch *heliox_batch_clone(const heliox_batch *batch);
HELIOX_API void heliox_batch_free(heliox_batch *batch);
HELIOX_API heliox_code heliox_batch_put(heliox_batch *batch, const heliox_keyspace *keyspace,
                                        const void *key, size_t key_len, const void *value,
                                        size_t value_len, heliox_error **error);
HELIOX_API heliox_code heliox_batch_put_ttl(heliox_batch *batch, const heliox_keyspace *keyspace,
                                            const void *key, size_t key_len, const void *value,
                                            size_t value_len, uint64_t ttl_ms, heliox_error **error);
HELIOX_API heliox_code heliox_batch_delete(heliox_batch *batch, const heliox_keyspace *keyspace,
                                           const void *key, size_t key_len, heliox_error **error);
/* How many writes the batch holds; 0 for NULL. */
HELIOX_API size_t heliox_batch_count(const heliox_batch *batch);
/* Takes all writes out; their memory is kept for the next ones. */
HELIOX_API void heliox_batch_clear(heliox_batch *batch);

/* Iterators. --------------------------------------------------------------------------------- */

/* What an iterator gives. All zero but struct_size: every key and value, as of now. */
typedef struct heliox_iterator_options {
    size_t struct_size;
    /* Only keys at or after this one. */
    heliox_slice from;
    /* Only keys before this one; no such bound if data is NULL. */
    heliox_slice to;
    /* Only keys that start with this. */
    heliox_slice prefix;
    /* As of this snapshot, which may be freed meanwhile; NULL for one taken now. */
    const heliox_snapshot *snapshot;
    /* At most so many entries from a seek or a change of direction on, which are then read at once; 0 for no
     * limit. */
    uint64_t limit;
    /* Values are given empty. Records are read all the same. */
    bool keys_only;
} heliox_iterator_options;

/*
 * An iterator over keys in order, at one snapshot to its end. It stands nowhere at first: seek. It may
 * step in both directions; a change of direction costs a seek. NULL options are all zero.
 */
HELIOX_API heliox_code heliox_iterator_create(const heliox_keyspace *keyspace,
                                              const heliox_iterator_options *options,
                                              heliox_iterator **iterator, heliox_error **error);
HELIOX_API void heliox_iterator_free(heliox_iterator *iterator);
/* These give true if the iterator stands at an entry afterwards. False at the end, or after an error. */
HELIOX_API bool heliox_iterator_seek_to_first(heliox_iterator *iterator);
HELIOX_API bool heliox_iterator_seek_to_last(heliox_iterator *iterator);
/* To the first entry at or after the key. */
HELIOX_API bool heliox_iterator_seek(heliox_iterator *iterator, const void *key, size_t key_len);
/* To the last entry at or before the key. */
HELIOX_API bool heliox_iterator_seek_for_prev(heliox_iterator *iterator, const void *key,
                                              size_t key_len);
/* From an entry, or from a record that could not be read (HELIOX_DAMAGED), in the direction of the last
 * step: to the next one that can be read. False where the iterator stands nowhere. */
HELIOX_API bool heliox_iterator_next(heliox_iterator *iterator);
HELIOX_API bool heliox_iterator_prev(heliox_iterator *iterator);
/* True if the iterator stands at an entry. */
HELIOX_API bool heliox_iterator_valid(const heliox_iterator *iterator);
/* Key and value of the entry; NULL and 0 without one. Valid until the next step, seek, refresh or free. */
HELIOX_API const char *heliox_iterator_key(const heliox_iterator *iterator, size_t *len);
HELIOX_API const char *heliox_iterator_value(const heliox_iterator *iterator, size_t *len);
/* Both at once; false without an entry. Either may be NULL. */
HELIOX_API bool heliox_iterator_entry(const heliox_iterator *iterator, heliox_slice *key,
                                      heliox_slice *value);
/* HELIOX_OK unless the last step or seek failed. */
HELIOX_API heliox_code heliox_iterator_error(const heliox_iterator *iterator, heliox_error **error);
/* Goes over to another snapshot, NULL for one taken now, and stands nowhere. After a failure it stands
 * nowhere, at the snapshot that it had. */
HELIOX_API heliox_code heliox_iterator_refresh(heliox_iterator *iterator,
                                               const heliox_snapshot *snapshot,
                                               heliox_error **error);

/* Figures, health, events. ------------------------------------------------------------------- */

/* One figure. `text` is NULL for numbers; names state units (bytes, ms). */
typedef void (*heliox_stat_fn)(void *user, const char *name, uint64_t value, const char *text);
/* Every figure, in a fixed order. */
HELIOX_API heliox_code heliox_store_stats(const heliox_store *store, heliox_stat_fn visit, void *user,
                                          heliox_error **error);
/* One figure that is a number, by name; HELIOX_NOT_FOUND if there is none of the name. */
HELIOX_API heliox_code heliox_store_stat(const heliox_store *store, const char *name, uint64_t *value,
                                         heliox_error **error);
/* Every figure as a JSON object. Freed with heliox_free. */
HELIOX_API heliox_code heliox_store_stats_json(const heliox_store *store, char **json,
                                               heliox_error **error);

typedef enum heliox_health {
    /* Does all its work. */
    HELIOX_HEALTH_HEALTHY = 0,
    /* Does all its work, and something wants attention. */
    HELIOX_HEALTH_DEGRADED = 1,
    /* Reads and deletes; new data is refused until there is room. */
    HELIOX_HEALTH_FULL = 2,
    /* Reads; writes are refused until it is opened again. */
    HELIOX_HEALTH_FAILED = 3,
    /* Was closed. */
    HELIOX_HEALTH_CLOSED = 4
} heliox_health;

typedef enum heliox_structure {
    HELIOX_STRUCTURE_OTHER = 0,
    HELIOX_STRUCTURE_RECORDS = 1,
    HELIOX_STRUCTURE_SEGMENT_HEADER = 2,
    HELIOX_STRUCTURE_CHECKPOINT = 3,
    HELIOX_STRUCTURE_SUPERBLOCK = 4,
    HELIOX_STRUCTURE_LABEL = 5
} heliox_structure;

typedef enum heliox_remedy {
    /* Nothing yet. */
    HELIOX_REMEDY_NONE = 0,
    /* A whole copy was written anew, or nothing was lost. */
    HELIOX_REMEDY_MENDED = 1,
    /* What could be read of the segment was moved out of it. */
    HELIOX_REMEDY_EVACUATED = 2
} heliox_remedy;

/* Damage that was found. */
typedef struct heliox_finding {
    size_t struct_size;
    heliox_structure structure;
    heliox_remedy remedy;
    /* The volume from 0, and bytes from its start. */
    uint32_t volume;
    /* The segment; UINT32_MAX for what lies in none. */
    uint32_t segment;
    uint64_t offset;
    uint64_t len_bytes;
    /* Milliseconds since 1970. */
    uint64_t found_ms;
    uint64_t live_records;
    uint64_t lost_records;
    /* What was expected and found. */
    const char *what;
    /* All of it in words. */
    const char *text;
} heliox_finding;

typedef void (*heliox_finding_fn)(void *user, const heliox_finding *finding);

typedef enum heliox_condition_kind {
    HELIOX_CONDITION_OTHER = 0,
    /* See `finding`. */
    HELIOX_CONDITION_DAMAGE = 1,
    HELIOX_CONDITION_DAMAGE_AT_OPEN = 2,
    /* `found` more findings are not listed. */
    HELIOX_CONDITION_MORE_DAMAGE = 3,
    /* `limit` bytes are all there are. */
    HELIOX_CONDITION_FULL = 4,
    /* `found` of `limit` bytes are live. */
    HELIOX_CONDITION_NEARLY_FULL = 5,
    /* The index takes `found` of `limit` bytes. */
    HELIOX_CONDITION_MEMORY_SHORT = 6,
    /* The first failure of a store that failed. */
    HELIOX_CONDITION_FAILED = 7
} heliox_condition_kind;

/* Something that is not as it should be. */
typedef struct heliox_condition {
    size_t struct_size;
    heliox_condition_kind kind;
    /* When it was noticed, in milliseconds since 1970. */
    uint64_t since_ms;
    uint64_t found;
    uint64_t limit;
    /* NULL unless it is damage. */
    const heliox_finding *finding;
    /* All of it in words. */
    const char *text;
} heliox_condition;

typedef void (*heliox_condition_fn)(void *user, const heliox_condition *condition);
/* Whether the store does all its work; `visit`, which may be NULL, is told why not. `health` may be NULL. */
HELIOX_API heliox_code heliox_store_health(const heliox_store *store, heliox_health *health,
                                           heliox_condition_fn visit, void *user,
                                           heliox_error **error);

/* What a pass of the scrub did and found. */
typedef struct heliox_scrub_report {
    size_t struct_size;
    /* Milliseconds since 1970. */
    uint64_t started_ms;
    uint64_t finished_ms;
    uint64_t segments;
    uint64_t bytes;
    uint64_t unsteady_reads;
    uint64_t finding_count;
    uint64_t moved_records;
    uint64_t lost_records;
} heliox_scrub_report;

/* Reads and verifies everything in use, and mends what it can. Damage is in the report, and told to
 * `visit` (the first hundred findings), never an error. Callbacks and report may be NULL. */
HELIOX_API heliox_code heliox_store_scrub(const heliox_store *store, heliox_progress_fn progress,
                                          heliox_finding_fn visit, void *user,
                                          heliox_scrub_report *report, heliox_error **error);
/* The last pass that ended since the store was opened; HELIOX_NOT_FOUND if none did. */
HELIOX_API heliox_code heliox_store_last_scrub(const heliox_store *store, heliox_finding_fn visit,
                                               void *user, heliox_scrub_report *report,
                                               heliox_error **error);

typedef enum heliox_event_kind {
    HELIOX_EVENT_OTHER = 0,
    /* `from` and `to`. */
    HELIOX_EVENT_HEALTH_CHANGED = 1,
    /* `finding`. */
    HELIOX_EVENT_DAMAGE_FOUND = 2,
    HELIOX_EVENT_SCRUB_STARTED = 3,
    /* `scrub`. */
    HELIOX_EVENT_SCRUB_FINISHED = 4,
    /* `amount` bytes. */
    HELIOX_EVENT_CHECKPOINT_WRITTEN = 5,
    HELIOX_EVENT_STALL_BEGAN = 6,
    /* `amount` milliseconds. */
    HELIOX_EVENT_STALL_ENDED = 7,
    HELIOX_EVENT_BACKGROUND_ERROR = 8,
    /* `amount` keys. */
    HELIOX_EVENT_STRANGERS_HEALED = 9,
    /* `amount` events. */
    HELIOX_EVENT_EVENTS_DROPPED = 10
} heliox_event_kind;

/* Something that happened in a store. */
struct heliox_event {
    size_t struct_size;
    heliox_event_kind kind;
    heliox_health from;
    heliox_health to;
    /* Counts the events of an open store, from 1. */
    uint64_t number;
    /* Milliseconds since 1970. */
    uint64_t at_ms;
    uint64_t amount;
    /* NULL unless the kind says otherwise. */
    const heliox_finding *finding;
    const heliox_scrub_report *scrub;
    /* The kind's name, for logs. */
    const char *name;
    /* The rest in words. */
    const char *text;
};

/* The newest events since the store was opened, at most 64, oldest first. */
HELIOX_API heliox_code heliox_store_events(const heliox_store *store, heliox_event_fn visit, void *user,
                                           heliox_error **error);

/* Check, keys, backups. ---------------------------------------------------------------------- */

/* What a check found. */
typedef struct heliox_check_report {
    size_t struct_size;
    uint64_t records;
    uint64_t entries;
    uint64_t segments;
    uint64_t bytes;
    uint64_t strangers;
    uint64_t problem_count;
} heliox_check_report;

/* Verifies a whole store that nobody has open, and writes nothing. Damage is in the report and in
 * `problems` (the first hundred, in words), never an error. Callback, report and problems may be NULL. */
HELIOX_API heliox_code heliox_check(const char *path, const heliox_options *options,
                                    heliox_progress_fn progress, void *user,
                                    heliox_check_report *report, heliox_list **problems,
                                    heliox_error **error);

/* What a change of keys did. */
typedef struct heliox_key_change {
    size_t struct_size;
    /* Data keys that the store has now. */
    uint64_t data_keys;
    /* One of them is for what is written from the next opening on. */
    bool added;
} heliox_key_change;

/* Changes the key of an encrypted store that nobody has open; the options give the present one. */
HELIOX_API heliox_code heliox_change_key(const char *path, const heliox_options *options,
                                         const heliox_key_source *next, heliox_key_change *report,
                                         heliox_error **error);
/* The same for the open store. */
HELIOX_API heliox_code heliox_store_rotate_key(const heliox_store *store, const heliox_key_source *next,
                                               heliox_key_change *report, heliox_error **error);

/* What a backup did. */
typedef struct heliox_backup_report {
    size_t struct_size;
    uint64_t number;
    uint64_t segments;
    uint64_t bytes;
    uint64_t copied_segments;
    uint64_t copied_bytes;
    uint64_t shared_bytes;
    uint64_t removed;
} heliox_backup_report;

/* Backs the store up into the set in the directory `set`; readers and writers go on. Then removes all but
 * the newest `keep` backups; 0 keeps all. Callback and report may be NULL. */
HELIOX_API heliox_code heliox_store_backup(const heliox_store *store, const char *set, uint64_t keep,
                                           heliox_progress_fn progress, void *user,
                                           heliox_backup_report *report, heliox_error **error);

/* A backup of a set. */
typedef struct heliox_backup_info {
    size_t struct_size;
    uint64_t number;
    /* Milliseconds since 1970. */
    uint64_t created_ms;
    uint64_t segments;
    uint64_t bytes;
    /* Why it cannot be used; NULL if it can. */
    const char *damage;
} heliox_backup_info;

typedef void (*heliox_backup_info_fn)(void *user, const heliox_backup_info *info);
/* The backups of a set, oldest first. */
HELIOX_API heliox_code heliox_backups(const char *set, heliox_backup_info_fn visit, void *user,
                                      heliox_error **error);
/* Deletes backup `number` of the set, also one that is damaged, and the files that only it needed. The
 * others stay whole, also if this does not end. HELIOX_INVALID if there is none of this number. */
HELIOX_API heliox_code heliox_delete_backup(const char *set, uint64_t number, heliox_error **error);

/* What a restore did. */
typedef struct heliox_restore_report {
    size_t struct_size;
    uint64_t number;
    uint64_t created_ms;
    uint64_t segments;
    uint64_t bytes;
    uint64_t capacity_bytes;
} heliox_restore_report;

/* Makes a store in `path` out of backup `number` of the set, 0 for the newest. */
HELIOX_API heliox_code heliox_restore(const char *set, uint64_t number, const char *path,
                                      const heliox_options *options, heliox_progress_fn progress,
                                      void *user, heliox_restore_report *report,
                                      heliox_error **error);

/* What a verification found. */
typedef struct heliox_verify_report {
    size_t struct_size;
    uint64_t backups;
    uint64_t files;
    uint64_t bytes;
    uint64_t records;
    uint64_t problem_count;
} heliox_verify_report;

/* Verifies backup `number` of the set, 0 for all. As heliox_check. */
HELIOX_API heliox_code heliox_verify_backup(const char *set, uint64_t number,
                                            const heliox_options *options,
                                            heliox_progress_fn progress, void *user,
                                            heliox_verify_report *report, heliox_list **problems,
                                            heliox_error **error);

#ifdef __cplusplus
}
#endif

#endif /* HELIOX_H */
