// The engine as the shim sees it: libheliox behind types that free what they hold.
//
// The only file, with engine.cc, that knows the C interface. Keys and values here are those of the
// engine. Threads: a Store, its Spaces and Views are shared by all; a Scan, a Value and a Changes
// belong to one thread at a time. Everything that can fail gives a rocksdb::Status.
#pragma once

#include <heliox.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace herocks {

using rocksdb::Slice;
using rocksdb::Status;

// The longest key and value that the engine takes.
constexpr size_t kKeyBytesMax = 65535;
constexpr size_t kValueBytesMax = 256ull << 20;

// When a write counts as done.
enum class Promise {
  // As the store was opened: within a bound of time.
  kBounded,
  // On the device when it returns.
  kSynced,
  // With the next flush.
  kWeak,
};

// What a store says by itself.
struct StoreEvent {
  enum class Kind {
    // It takes no more writes until it is opened again.
    kFailed,
    // It takes no new data until there is room, and then again.
    kFull,
    kNotFull,
    // Writers wait for room, and do no more.
    kStallBegan,
    kStallEnded,
  };
  Kind kind;
  // Why.
  std::string text;
};

struct StoreOptions {
  bool create = false;
  // Nothing is written, and no right to write is needed; others may read meanwhile.
  bool read_only = false;
  uint64_t memory_bytes = 0;
  // 0: what the file system has.
  uint64_t capacity_bytes = 0;
  // A bound in milliseconds; 0: every write is handed to the file before it returns.
  uint64_t durability_ms = 100;
  // Called by a thread of its own, one event at a time; may use the store, and must not throw.
  std::function<void(const StoreEvent&)> on_event;
};

// Memory for values that are read; used again read after read.
class Value {
 public:
  Value() = default;
  ~Value() { heliox_value_free(&raw_); }
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  Slice slice() const { return Slice(raw_.len == 0 ? "" : raw_.data, raw_.len); }
  heliox_value* raw() { return &raw_; }
  // Frees what one large value left.
  void Shrink(size_t bytes_max) {
    if (raw_.capacity > bytes_max) heliox_value_free(&raw_);
  }

 private:
  heliox_value raw_ = HELIOX_VALUE_INIT;
};

// A snapshot of the engine's.
class View {
 public:
  explicit View(heliox_snapshot* raw) : raw_(raw) {}
  ~View() { heliox_snapshot_free(raw_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  const heliox_snapshot* raw() const { return raw_; }

 private:
  heliox_snapshot* raw_;
};
using ViewPtr = std::shared_ptr<const View>;

// A keyspace.
class Space {
 public:
  explicit Space(heliox_keyspace* raw) : raw_(raw, heliox_keyspace_free) {}

  const heliox_keyspace* raw() const { return raw_.get(); }
  // NotFound if the key has no value. Null `view`: as of now.
  Status Get(const Slice& key, const View* view, Value* value) const;
  // The values of many keys; those without have no data. Null `view`: each as of now.
  Status MultiGet(const std::vector<heliox_slice>& keys, const View* view,
                  std::vector<heliox_value>* values) const;
  // Gives the key another value, or none, if it still has this one; else does nothing.
  Status CompareAndSet(const Slice& key, const Slice& expected, const Slice* next) const;
  // Null `to`: the end of the keyspace.
  Status Approximate(const Slice& from, const Slice* to, uint64_t* count, uint64_t* bytes) const;

 private:
  std::shared_ptr<heliox_keyspace> raw_;
};

// Writes that take effect together; of several of one key the last counts.
class Changes {
 public:
  Changes() : raw_(heliox_batch_create()) {}
  ~Changes() { heliox_batch_free(raw_); }
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  Status Put(const Space& space, const Slice& key, const Slice& value);
  Status Delete(const Space& space, const Slice& key);
  bool empty() const { return heliox_batch_count(raw_) == 0; }
  void Clear() { heliox_batch_clear(raw_); }
  const heliox_batch* raw() const { return raw_; }

 private:
  heliox_batch* raw_;
};

// An iteration over a keyspace, at one view.
class Scan {
 public:
  Scan() = default;
  ~Scan() { heliox_iterator_free(raw_); }
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  // Only keys in [from, to); null: no such bound. Stands nowhere at first.
  Status Start(const Space& space, const View* view, const Slice* from, const Slice* to);
  bool started() const { return raw_ != nullptr; }
  bool First() { return heliox_iterator_seek_to_first(raw_); }
  bool Last() { return heliox_iterator_seek_to_last(raw_); }
  bool At(const Slice& key) { return heliox_iterator_seek(raw_, key.data(), key.size()); }
  bool AtOrBefore(const Slice& key) {
    return heliox_iterator_seek_for_prev(raw_, key.data(), key.size());
  }
  bool Next() { return heliox_iterator_next(raw_); }
  bool Prev() { return heliox_iterator_prev(raw_); }
  // Where the scan stands; valid until it moves.
  void Entry(Slice* key, Slice* value) const;
  Status status() const;

 private:
  heliox_iterator* raw_ = nullptr;
};

// An open store.
class Store {
 public:
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  static Status Open(const std::string& dir, const StoreOptions& options,
                     std::unique_ptr<Store>* store);
  // Deletes the store in `dir`; OK if there is none.
  static Status Destroy(const std::string& dir);
  // Makes everything durable; whatever uses the store from now on is told that it is closed.
  Status Close();

  // NotFound if there is none of the name.
  Status OpenSpace(const std::string& name, std::unique_ptr<Space>* space);
  Status CreateSpace(const std::string& name, std::unique_ptr<Space>* space);
  Status DropSpace(const std::string& name);
  Status Spaces(std::vector<std::string>* names);

  Status Put(const Space& space, const Slice& key, const Slice& value, Promise promise);
  Status Delete(const Space& space, const Slice& key, Promise promise);
  Status DeleteRange(const Space& space, const Slice& from, const Slice& to, Promise promise);
  Status Write(const Changes& changes, Promise promise);

  Status Snapshot(ViewPtr* view);
  // Hands everything to the files; Sync also waits until it is durable.
  Status Flush();
  Status Sync();

  // Adds a backup to a set.
  Status Backup(const std::string& set, uint64_t* number);
  // Copies the store, as it is now, into a directory that is made for it, by way of a backup set that
  // is gone afterwards.
  Status CopyTo(const std::string& set, const std::string& dir);

  // A figure by its name; 0 if there is none.
  uint64_t Figure(const char* name) const;
  std::string FiguresAsText() const;
  bool Failed() const;

 private:
  Store(heliox_store* raw, bool hand_over);
  Status Acknowledge(heliox_code code, heliox_error* error, Promise promise);

  heliox_store* const raw_;
  const bool hand_over_;
};

// A backup of a set.
struct BackupEntry {
  uint64_t number;
  uint64_t created_ms;
  uint64_t segments;
  uint64_t bytes;
  bool is_damaged;
};

// The backups of a set, oldest first.
Status ListBackups(const std::string& set, std::vector<BackupEntry>* entries);
// Makes a store out of a backup, 0 for the newest.
Status RestoreBackup(const std::string& set, uint64_t number, const std::string& dir);
// Deletes a backup, and nothing that another one needs.
Status RemoveBackup(const std::string& set, uint64_t number);
// Corruption if the backup is not whole.
Status VerifyBackups(const std::string& set, uint64_t number);

}  // namespace herocks
