// The database's writes: single ones here, batches in batch.cc. See database.h.
#include "batch.h"
#include "database.h"
#include "merge.h"

namespace herocks {

using rocksdb::BYTES_WRITTEN;
using rocksdb::DB_WRITE;
using rocksdb::NUMBER_KEYS_WRITTEN;

namespace {

Status NoTimestamps() {
  return Status::InvalidArgument("the column family has no timestamps",
                                 "Heliox does not support user-defined timestamps");
}

}  // namespace

namespace {

// What a batch of one change takes in RocksDB's log: its head, its kind, the family, keys and values with
// their lengths.
constexpr uint64_t kLogHeadBytes = 12;

uint64_t LogBytes(const Slice& text) {
  uint64_t bytes = 1;
  for (size_t rest = text.size(); rest >= 128; rest >>= 7) bytes++;
  return bytes + text.size();
}

uint64_t LogBytes(const Family& family, const Slice& key) {
  uint64_t bytes = kLogHeadBytes + 1 + LogBytes(key);
  if (family.id == 0) return bytes;
  bytes++;
  for (uint32_t rest = family.id; rest >= 128; rest >>= 7) bytes++;
  return bytes;
}

}  // namespace

// A write that was made, for the program's statistics.
void Database::CountLog(const WriteOptions& options, uint64_t bytes) const {
  if (options.disableWAL) return;
  statistics()->recordTick(rocksdb::WRITE_WITH_WAL, 1);
  statistics()->recordTick(rocksdb::WAL_FILE_BYTES, bytes);
  if (options.sync) statistics()->recordTick(rocksdb::WAL_FILE_SYNCED, 1);
}

Status Database::CheckWrite(const WriteOptions& options) const {
  if (read_only_) return Status::NotSupported("Not supported operation in read only mode.");
  if (options.sync && options.disableWAL) {
    return Status::InvalidArgument("Sync writes has to enable WAL.");
  }
  return Status::OK();
}

Status Database::CheckFamily(const Family& family) const {
  if (!family.dropped.load(std::memory_order_acquire)) return Status::OK();
  return Status::InvalidArgument("Invalid column family specified in write batch");
}

// One change of the family's, which was made.
void Database::CountWrite(const Family& family, uint64_t bytes) {
  CountKeys(1, bytes);
  family.Note(Family::kForFlush | Family::kForCompaction);
}

void Database::CountKeys(uint64_t keys, uint64_t bytes) {
  catalog_->Advance(keys);
  if (statistics() == nullptr) return;
  statistics()->recordTick(NUMBER_KEYS_WRITTEN, keys);
  statistics()->recordTick(BYTES_WRITTEN, bytes);
  statistics()->recordTick(rocksdb::WRITE_DONE_BY_SELF, 1);
  statistics()->recordInHistogram(rocksdb::BYTES_PER_WRITE, bytes);
}

Status Database::Put(const WriteOptions& options, ColumnFamilyHandle* handle, const Slice& key,
                     const Slice& value) {
  const Timed timed(statistics(), DB_WRITE);
  const Family& family = *FamilyOf(handle);
  Status put = WriteOne(options, family, key, &value);
  if (put.ok() && statistics() != nullptr) {
    CountLog(options, LogBytes(family, key) + LogBytes(value));
  }
  return put;
}

Status Database::Delete(const WriteOptions& options, ColumnFamilyHandle* handle,
                        const Slice& key) {
  const Timed timed(statistics(), DB_WRITE);
  const Family& family = *FamilyOf(handle);
  Status deleted = WriteOne(options, family, key, nullptr);
  if (deleted.ok() && statistics() != nullptr) CountLog(options, LogBytes(family, key));
  return deleted;
}

Status Database::SingleDelete(const WriteOptions& options, ColumnFamilyHandle* handle,
                              const Slice& key) {
  return Delete(options, handle, key);
}

Status Database::Put(const WriteOptions&, ColumnFamilyHandle*, const Slice&, const Slice&,
                     const Slice&) {
  return NoTimestamps();
}

Status Database::PutEntity(const WriteOptions&, ColumnFamilyHandle*, const Slice&,
                           const rocksdb::WideColumns&) {
  return Status::NotSupported("Heliox does not support wide columns (PutEntity)",
                              "a value is one string of bytes: keep the columns encoded in it");
}

Status Database::Delete(const WriteOptions&, ColumnFamilyHandle*, const Slice&, const Slice&) {
  return NoTimestamps();
}

Status Database::SingleDelete(const WriteOptions&, ColumnFamilyHandle*, const Slice&,
                              const Slice&) {
  return NoTimestamps();
}

Status Database::DeleteRange(const WriteOptions&, ColumnFamilyHandle*, const Slice&, const Slice&,
                             const Slice&) {
  return NoTimestamps();
}

Status Database::Merge(const WriteOptions&, ColumnFamilyHandle*, const Slice&, const Slice&,
                       const Slice&) {
  return NoTimestamps();
}

// Gives the key the value, or takes it away if there is none.
Status Database::WriteOne(const WriteOptions& options, const Family& family, const Slice& key,
                          const Slice* value) {
  Status allowed = CheckWrite(options);
  if (allowed.ok()) allowed = CheckFamily(family);
  if (!allowed.ok()) return allowed;
  const bool is_merged = family.merger() != nullptr;
  Promise promise = PromiseOf(options);
  const bool syncs_later = is_merged && promise == Promise::kSynced;
  // The lock of a key is not held while the device syncs.
  if (syncs_later) promise = Promise::kBounded;
  thread_local std::string key_scratch;
  std::string value_scratch;
  const Slice stored_key = family.keys.Encode(key, &key_scratch);
  Status written;
  {
    const Gate::Pass pass(&gate_);
    std::unique_lock<std::mutex> lock;
    if (is_merged) lock = std::unique_lock<std::mutex>(stripes_.At(StripeOf(family.id, key)));
    written = value == nullptr
                  ? store_->Delete(family.space, stored_key, promise)
                  : store_->Put(family.space, stored_key,
                                values_.EncodePlain(*value, &value_scratch), promise);
  }
  if (written.ok() && syncs_later) written = store_->Sync();
  if (written.ok()) CountWrite(family, key.size() + (value == nullptr ? 0 : value->size()));
  return written;
}

Status Database::Merge(const WriteOptions& options, ColumnFamilyHandle* handle, const Slice& key,
                       const Slice& value) {
  const Timed timed(statistics(), DB_WRITE);
  const FamilyPtr& family = FamilyOf(handle);
  if (family->merger() == nullptr) {
    return Status::NotSupported("Provide a merge_operator when opening DB");
  }
  Status merged = MergeOne(options, *family, key, value);
  if (merged.ok() && statistics() != nullptr) {
    CountLog(options, LogBytes(*family, key) + LogBytes(value));
  }
  return merged;
}

Status Database::MergeOne(const WriteOptions& options, const Family& family, const Slice& key,
                          const Slice& operand) {
  Status allowed = CheckWrite(options);
  if (allowed.ok()) allowed = CheckFamily(family);
  if (!allowed.ok()) return allowed;
  const bool syncs = options.sync;
  std::string scratch;
  const Slice stored_key = family.keys.Encode(key, &scratch);
  Status merged;
  {
    const Gate::Pass pass(&gate_);
    const std::lock_guard<std::mutex> lock(stripes_.At(StripeOf(family.id, key)));
    Value present;
    Status got = family.space.Get(stored_key, nullptr, &present);
    if (!got.ok() && !got.IsNotFound()) return got;
    const Slice stored = present.slice();
    std::string next;
    merged = AppendOperand(*family.merger(), options_.info_log.get(), values_, key,
                           got.ok() ? &stored : nullptr, operand, &next);
    if (merged.ok()) {
      merged = store_->Put(family.space, stored_key, next,
                           options.disableWAL ? Promise::kWeak : Promise::kBounded);
    }
  }
  if (merged.ok() && syncs) merged = store_->Sync();
  if (merged.ok()) CountWrite(family, key.size() + operand.size());
  return merged;
}

Status Database::DeleteRange(const WriteOptions& options, ColumnFamilyHandle* handle,
                             const Slice& begin, const Slice& end) {
  const Timed timed(statistics(), DB_WRITE);
  const FamilyPtr& family = FamilyOf(handle);
  const int order = family->options.comparator->Compare(begin, end);
  if (order > 0) return Status::InvalidArgument("end key comes before start key");
  if (order == 0) return CheckWrite(options);
  Status deleted = DeleteOneRange(options, *family, begin, end);
  if (deleted.ok() && statistics() != nullptr) {
    CountLog(options, LogBytes(*family, begin) + LogBytes(end));
  }
  return deleted;
}

Status Database::DeleteOneRange(const WriteOptions& options, const Family& family,
                                const Slice& begin, const Slice& end) {
  Status allowed = CheckWrite(options);
  if (allowed.ok()) allowed = CheckFamily(family);
  if (!allowed.ok()) return allowed;
  std::string from_scratch;
  std::string to_scratch;
  const Slice from = family.keys.Encode(begin, &from_scratch);
  const Slice to = family.keys.Encode(end, &to_scratch);
  Status deleted;
  if (family.merger() != nullptr) {
    // A merge that has read its key must not bring it back.
    const Gate::Alone alone(&gate_);
    deleted = store_->DeleteRange(family.space, from, to, PromiseOf(options));
  } else {
    const Gate::Pass pass(&gate_);
    deleted = store_->DeleteRange(family.space, from, to, PromiseOf(options));
  }
  if (deleted.ok()) CountWrite(family, begin.size() + end.size());
  return deleted;
}

Status Database::Write(const WriteOptions& options, rocksdb::WriteBatch* updates) {
  const Timed timed(statistics(), DB_WRITE);
  if (updates == nullptr) return Status::InvalidArgument("Batch is nullptr!");
  Status allowed = CheckWrite(options);
  if (!allowed.ok()) return allowed;
  BatchPlan plan(this, options);
  Status done = updates->Iterate(&plan);
  if (done.ok()) done = plan.Apply();
  if (done.ok() && statistics() != nullptr) CountLog(options, updates->GetDataSize());
  return done;
}

}  // namespace herocks
