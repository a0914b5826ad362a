// A store of Heliox as a leveldb::DB. See database.h.
#include "database.h"

#include <leveldb/write_batch.h>

#include "dropin/ending.h"

namespace heleveldb {

namespace {

// Memory that a thread keeps for the values that it reads.
constexpr size_t kKeptBytesMax = 1 << 20;
constexpr uint64_t kLevels = 7;

// Options of a write are for one thread at a time, so each has its own.
const heliox_write_options* OptionsFor(bool is_synced) {
  struct Synced {
    Synced() : raw(heliox_write_options_create()) { heliox_write_options_set_durability_sync(raw); }
    ~Synced() { heliox_write_options_free(raw); }
    heliox_write_options* raw;
  };
  if (!is_synced) return nullptr;
  thread_local const Synced own;
  return own.raw;
}

struct Value {
  ~Value() { heliox_value_free(&raw); }
  heliox_value raw = HELIOX_VALUE_INIT;
};

// The changes of a WriteBatch, in its order.
class Changes : public leveldb::WriteBatch::Handler {
 public:
  explicit Changes(const heliox_keyspace* space) : space_(space), raw_(heliox_batch_create()) {}
  ~Changes() override { heliox_batch_free(raw_); }

  void Put(const Slice& key, const Slice& value) override {
    if (!status_.ok()) return;
    heliox_error* error = nullptr;
    status_ = ToStatus(heliox_batch_put(raw_, space_, key.data(), key.size(), value.data(),
                                        value.size(), &error),
                       error);
  }
  void Delete(const Slice& key) override {
    // Nothing has a key that long.
    if (!status_.ok() || key.size() > kKeyBytesMax) return;
    heliox_error* error = nullptr;
    status_ = ToStatus(heliox_batch_delete(raw_, space_, key.data(), key.size(), &error), error);
  }
  const Status& status() const { return status_; }
  const heliox_batch* raw() const { return raw_; }

 private:
  const heliox_keyspace* const space_;
  heliox_batch* const raw_;
  Status status_;
};

// A decimal number and nothing else.
bool IsLevel(Slice text) {
  uint64_t level = 0;
  if (text.empty()) return false;
  for (size_t at = 0; at < text.size(); at++) {
    if (text[at] < '0' || text[at] > '9' || level > kLevels) return false;
    level = level * 10 + static_cast<uint64_t>(text[at] - '0');
  }
  return level < kLevels;
}

uint64_t Figure(const heliox_store* store, const char* name) {
  uint64_t value = 0;
  return heliox_store_stat(store, name, &value, nullptr) == HELIOX_OK ? value : 0;
}

__attribute__((destructor)) void AtTheEnd() { dropin::OpenStores::Get().HandOver(); }

}  // namespace

Database::Database(heliox_store* store, heliox_keyspace* space, bool hand_over)
    : store_(store), space_(space), hand_over_(hand_over) {
  dropin::OpenStores::Get().Add(store_);
}

Database::~Database() {
  dropin::OpenStores::Get().Remove(store_);
  heliox_keyspace_free(space_);
  heliox_store_free(store_);
}

// What a write answers, once it was handed over if that was asked for.
Status Database::Acknowledge(heliox_code code, heliox_error* error, bool is_synced) {
  if (code != HELIOX_OK || !hand_over_ || is_synced) return ToStatus(code, error);
  heliox_error* flush_error = nullptr;
  return ToStatus(heliox_store_flush(store_, &flush_error), flush_error);
}

Status Database::Put(const leveldb::WriteOptions& options, const Slice& key, const Slice& value) {
  return Guarded([&] {
    heliox_error* error = nullptr;
    const heliox_code code =
        heliox_keyspace_put(space_, key.data(), key.size(), value.data(), value.size(),
                            OptionsFor(options.sync), &error);
    return Acknowledge(code, error, options.sync);
  });
}

Status Database::Delete(const leveldb::WriteOptions& options, const Slice& key) {
  if (key.size() > kKeyBytesMax) return Status::OK();
  return Guarded([&] {
    heliox_error* error = nullptr;
    const heliox_code code = heliox_keyspace_delete(space_, key.data(), key.size(),
                                                    OptionsFor(options.sync), &error);
    return Acknowledge(code, error, options.sync);
  });
}

Status Database::Write(const leveldb::WriteOptions& options, leveldb::WriteBatch* updates) {
  // LevelDB's own way to ask for a compaction.
  if (updates == nullptr) return Status::OK();
  return Guarded([&] {
    Changes changes(space_);
    Status read = updates->Iterate(&changes);
    if (read.ok()) read = changes.status();
    if (!read.ok()) return read;
    // A batch of nothing with `sync` makes durable what came before it.
    heliox_error* error = nullptr;
    if (heliox_batch_count(changes.raw()) == 0) {
      return options.sync ? ToStatus(heliox_store_sync(store_, &error), error) : Status::OK();
    }
    const heliox_code code =
        heliox_store_write(store_, changes.raw(), OptionsFor(options.sync), &error);
    return Acknowledge(code, error, options.sync);
  });
}

Status Database::Get(const leveldb::ReadOptions& options, const Slice& key, std::string* value) {
  if (key.size() > kKeyBytesMax) return Status::NotFound(Slice());
  return Guarded([&] {
    thread_local Value found;
    heliox_error* error = nullptr;
    const auto* at = static_cast<const Moment*>(options.snapshot);
    const heliox_code code =
        at == nullptr
            ? heliox_keyspace_get(space_, key.data(), key.size(), &found.raw, &error)
            : heliox_keyspace_get_at(space_, at->raw(), key.data(), key.size(), &found.raw, &error);
    if (code == HELIOX_OK && found.raw.len == 0) value->clear();
    if (code == HELIOX_OK && found.raw.len > 0) value->assign(found.raw.data, found.raw.len);
    if (found.raw.capacity > kKeptBytesMax) heliox_value_free(&found.raw);
    return ToStatus(code, error);
  });
}

leveldb::Iterator* Database::NewIterator(const leveldb::ReadOptions& options) {
  return MakeIterator(space_, options.snapshot);
}

const leveldb::Snapshot* Database::GetSnapshot() {
  heliox_snapshot* raw = nullptr;
  heliox_store_snapshot(store_, &raw, nullptr);
  const leveldb::Snapshot* made = nullptr;
  (void)Guarded([&] {
    made = new Moment(raw);
    return Status::OK();
  });
  if (made == nullptr) heliox_snapshot_free(raw);
  return made;
}

void Database::ReleaseSnapshot(const leveldb::Snapshot* snapshot) {
  delete static_cast<const Moment*>(snapshot);
}

std::string Database::Figures() const {
  std::string text;
  const auto add = [](void* user, const char* name, uint64_t value, const char* words) {
    auto* out = static_cast<std::string*>(user);
    // No exception may pass through the engine.
    (void)Guarded([&] {
      out->append(name).append(": ");
      out->append(words != nullptr ? std::string(words) : std::to_string(value)).append("\n");
      return Status::OK();
    });
  };
  heliox_store_stats(store_, add, &text, nullptr);
  return text;
}

bool Database::GetProperty(const Slice& property, std::string* value) {
  bool is_known = true;
  const Status got = Guarded([&] {
    value->clear();
    Slice name = property;
    const Slice level("leveldb.num-files-at-level");
    if (name.starts_with(level)) {
      name.remove_prefix(level.size());
      is_known = IsLevel(name);
      if (is_known) *value = "0";
    } else if (name == Slice("leveldb.stats")) {
      *value = Figures();
    } else if (name == Slice("leveldb.approximate-memory-usage")) {
      *value = std::to_string(Figure(store_, "index_bytes") + Figure(store_, "cache_bytes") +
                              Figure(store_, "tail_bytes"));
    } else {
      is_known = name == Slice("leveldb.sstables");
    }
    return Status::OK();
  });
  return is_known && got.ok();
}

void Database::GetApproximateSizes(const leveldb::Range* range, int n, uint64_t* sizes) {
  for (int at = 0; at < n; at++) {
    const Slice& from = range[at].start;
    const Slice& to = range[at].limit;
    sizes[at] = 0;
    if (from.compare(to) >= 0) continue;
    heliox_keyspace_approximate(space_, from.data(), from.size(), to.data(), to.size(), nullptr,
                                &sizes[at], nullptr);
  }
}

// Space comes back by itself; what a program can notice is that everything is durable.
void Database::CompactRange(const Slice*, const Slice*) { heliox_store_sync(store_, nullptr); }

}  // namespace heleveldb
