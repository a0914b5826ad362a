// A store of Heliox as a leveldb::DB: the keyspace `default` of it.
//
// Threads: a Database may be used by any number at once; an iterator by one at a time.
#pragma once

#include <heliox.h>
#include <leveldb/db.h>
#include <leveldb/iterator.h>

#include <string>

#include "settings.h"
#include "status.h"

namespace heleveldb {

// The longest key that the engine takes.
constexpr size_t kKeyBytesMax = 65535;
// Where the keys are.
constexpr const char* kSpace = "default";

// A snapshot; one that could not be taken is null inside, and what reads at it fails.
class Moment : public leveldb::Snapshot {
 public:
  explicit Moment(heliox_snapshot* raw) : raw_(raw) {}
  ~Moment() override { heliox_snapshot_free(raw_); }
  const heliox_snapshot* raw() const { return raw_; }

 private:
  heliox_snapshot* const raw_;
};

class Database : public leveldb::DB {
 public:
  // Takes over the handles.
  Database(heliox_store* store, heliox_keyspace* space, bool hand_over);
  ~Database() override;

  Status Put(const leveldb::WriteOptions& options, const Slice& key, const Slice& value) override;
  Status Delete(const leveldb::WriteOptions& options, const Slice& key) override;
  Status Write(const leveldb::WriteOptions& options, leveldb::WriteBatch* updates) override;
  Status Get(const leveldb::ReadOptions& options, const Slice& key, std::string* value) override;
  leveldb::Iterator* NewIterator(const leveldb::ReadOptions& options) override;
  const leveldb::Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const leveldb::Snapshot* snapshot) override;
  bool GetProperty(const Slice& property, std::string* value) override;
  void GetApproximateSizes(const leveldb::Range* range, int n, uint64_t* sizes) override;
  void CompactRange(const Slice* begin, const Slice* end) override;

 private:
  Status Acknowledge(heliox_code code, heliox_error* error, bool is_synced);
  std::string Figures() const;

  heliox_store* const store_;
  heliox_keyspace* const space_;
  const bool hand_over_;
};

// An iterator over the keyspace, at `snapshot` or, if that is null, as of now.
leveldb::Iterator* MakeIterator(const heliox_keyspace* space, const leveldb::Snapshot* snapshot);

}  // namespace heleveldb
