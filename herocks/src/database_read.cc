// The database's reads. See database.h.
#include <rocksdb/env.h>
#include <rocksdb/wide_columns.h>

#include "database.h"
#include "iterator.h"
#include "merge.h"

namespace herocks {

namespace {

// What a thread keeps for its next read.
constexpr size_t kKeptBytesMax = 1 << 20;
// Threads that write while many keys are read make the reader look again, and then take a snapshot.
constexpr int kLatestTries = 2;

}  // namespace

Status Database::CheckRead(const ReadOptions& options) const {
  if (options.timestamp != nullptr || options.iter_start_ts != nullptr) {
    return Status::InvalidArgument("the column family has no timestamps",
                                   "Heliox does not support user-defined timestamps");
  }
  if (options.read_tier == rocksdb::kMemtableTier) {
    return Status::NotSupported("Heliox does not support reads of the memtable alone (kMemtableTier)",
                                "it has none: all that was written is read from where it is");
  }
  // What is read has to be durable, so it is made so.
  if (options.read_tier == rocksdb::kPersistedTier && !read_only_) return store_->Sync();
  return Status::OK();
}

Status Database::Resolve(const Family& family, const Slice& key, const Slice& stored, Slice* plain,
                         std::string* merged) const {
  Stack stack;
  switch (values_.Decode(stored, plain, &stack)) {
    case Shape::kPlain:
      return Status::OK();
    case Shape::kDamaged:
      return Status::Corruption("a value with merge operands cannot be taken apart");
    case Shape::kStack:
      break;
  }
  if (family.merger() == nullptr) {
    return Status::InvalidArgument("merge_operator is not properly initialized.");
  }
  Status done = MergeFully(*family.merger(), options_.info_log.get(), key, stack, merged);
  *plain = Slice(*merged);
  return done;
}

Status Database::GetAt(const Family& family, const Slice& key, const View* view,
                       PinnableSlice* value) const {
  thread_local Value buffer;
  std::string scratch;
  value->Reset();
  Status got = family.space.Get(family.keys.Encode(key, &scratch), view, &buffer);
  if (!got.ok()) return got;
  Slice plain;
  std::string merged;
  Status resolved = Resolve(family, key, buffer.slice(), &plain, &merged);
  if (!resolved.ok()) return resolved;
  value->PinSelf(plain);
  buffer.Shrink(kKeptBytesMax);
  return Status::OK();
}

Status Database::Get(const ReadOptions& options, ColumnFamilyHandle* handle, const Slice& key,
                     PinnableSlice* value) {
  const Timed timed(statistics(), rocksdb::DB_GET);
  Status allowed = CheckRead(options);
  if (!allowed.ok()) return allowed;
  Status got = GetAt(*FamilyOf(handle), key, ViewOf(options), value);
  rocksdb::Statistics* const counts = statistics();
  if (counts == nullptr) return got;
  counts->recordTick(rocksdb::NUMBER_KEYS_READ, 1);
  if (got.ok()) {
    counts->recordTick(rocksdb::BYTES_READ, value->size());
    counts->recordInHistogram(rocksdb::BYTES_PER_READ, value->size());
  }
  return got;
}

Status Database::Get(const ReadOptions& options, ColumnFamilyHandle* handle, const Slice& key,
                     PinnableSlice* value, std::string* timestamp) {
  if (timestamp != nullptr) timestamp->clear();
  return Get(options, handle, key, value);
}

Status Database::GetEntity(const ReadOptions& options, ColumnFamilyHandle* handle, const Slice& key,
                           rocksdb::PinnableWideColumns* columns) {
  PinnableSlice value;
  columns->Reset();
  Status got = Get(options, handle, key, &value);
  if (got.ok()) columns->SetPlainValue(value);
  return got;
}

Status Database::GetMergeOperands(const ReadOptions& options, ColumnFamilyHandle* handle,
                                  const Slice& key, PinnableSlice* operands,
                                  rocksdb::GetMergeOperandsOptions* wanted, int* count) {
  Status allowed = CheckRead(options);
  if (!allowed.ok()) return allowed;
  const FamilyPtr& family = FamilyOf(handle);
  std::string scratch;
  Value value;
  *count = 0;
  Status got = family->space.Get(family->keys.Encode(key, &scratch), ViewOf(options), &value);
  if (!got.ok()) return got;
  Slice plain;
  Stack stack;
  std::vector<Slice> all;
  switch (values_.Decode(value.slice(), &plain, &stack)) {
    case Shape::kPlain:
      all.push_back(plain);
      break;
    case Shape::kStack:
      if (stack.has_base) all.push_back(stack.base);
      all.insert(all.end(), stack.operands.begin(), stack.operands.end());
      break;
    case Shape::kDamaged:
      return Status::Corruption("a value with merge operands cannot be taken apart");
  }
  *count = static_cast<int>(all.size());
  if (*count > wanted->expected_max_number_of_operands) {
    return Status::Incomplete(Status::SubCode::KMergeOperandsInsufficientCapacity);
  }
  for (size_t i = 0; i < all.size(); i++) {
    operands[i].Reset();
    operands[i].PinSelf(all[i]);
  }
  return Status::OK();
}

// The keys of one family at the given places. Null `view`: each as of now.
Status Database::MultiGetFamily(const Family& family, const std::vector<size_t>& places,
                                const Slice* keys, const View* view, PinnableSlice* values,
                                Status* statuses) const {
  std::vector<std::string> scratches(family.keys.reversed() ? places.size() : 1);
  std::vector<heliox_slice> wanted(places.size());
  for (size_t i = 0; i < places.size(); i++) {
    const Slice key =
        family.keys.Encode(keys[places[i]], &scratches[family.keys.reversed() ? i : 0]);
    wanted[i] = {key.data(), key.size()};
  }
  std::vector<heliox_value> found(places.size(), heliox_value HELIOX_VALUE_INIT);
  Status got = family.space.MultiGet(wanted, view, &found);
  for (size_t i = 0; got.ok() && i < places.size(); i++) {
    const size_t at = places[i];
    if (found[i].data == nullptr) {
      statuses[at] = Status::NotFound();
      continue;
    }
    Slice plain;
    std::string merged;
    values[at].Reset();
    statuses[at] =
        Resolve(family, keys[at], Slice(found[i].data, found[i].len), &plain, &merged);
    if (statuses[at].ok()) values[at].PinSelf(plain);
  }
  heliox_values_free(found.data(), found.size());
  return got;
}

// The keys of each family in one go. Null `view`: each as of now. False, and nothing told, if that fails:
// one by one, each key tells its own failure.
bool Database::MultiGetFamilies(const std::vector<const Family*>& families, const Slice* keys,
                                const View* view, PinnableSlice* values, Status* statuses) const {
  std::vector<bool> done(families.size(), false);
  for (size_t i = 0; i < families.size(); i++) {
    if (done[i]) continue;
    std::vector<size_t> places;
    for (size_t j = i; j < families.size(); j++) {
      if (families[j] != families[i]) continue;
      places.push_back(j);
      done[j] = true;
    }
    if (!MultiGetFamily(*families[i], places, keys, view, values, statuses).ok()) return false;
  }
  return true;
}

// Reads all keys as of one moment, if nobody writes meanwhile. False, and nothing told, if somebody does.
bool Database::TryMultiGetLatest(const std::vector<const Family*>& families, const Slice* keys,
                                 PinnableSlice* values, Status* statuses) const {
  for (int tries = 0; tries < kLatestTries; tries++) {
    const uint64_t ended = gate_.Ended();
    const uint64_t begun = gate_.Begun();
    if (ended != begun) continue;
    const bool is_whole = MultiGetFamilies(families, keys, nullptr, values, statuses);
    if (is_whole && gate_.Begun() == begun) return true;
  }
  return false;
}

void Database::MultiGetMany(const ReadOptions& options, size_t count,
                            ColumnFamilyHandle* const* handles, const Slice* keys,
                            PinnableSlice* values, Status* statuses) const {
  const Timed timed(statistics(), rocksdb::DB_MULTIGET);
  Status allowed = CheckRead(options);
  for (size_t i = 0; i < count && !allowed.ok(); i++) statuses[i] = allowed;
  if (!allowed.ok() || count == 0) return;
  std::vector<const Family*> families(count);
  for (size_t i = 0; i < count; i++) families[i] = FamilyOf(handles[i]).get();
  ReadMany(options, families, keys, values, statuses);
  if (statistics() != nullptr) CountMany(count, values, statuses);
}

void Database::CountMany(size_t count, const PinnableSlice* values, const Status* statuses) const {
  uint64_t found = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; i++) {
    if (!statuses[i].ok()) continue;
    found++;
    bytes += values[i].size();
  }
  statistics()->recordTick(rocksdb::NUMBER_MULTIGET_CALLS, 1);
  statistics()->recordTick(rocksdb::NUMBER_MULTIGET_KEYS_READ, count);
  statistics()->recordTick(rocksdb::NUMBER_MULTIGET_KEYS_FOUND, found);
  statistics()->recordTick(rocksdb::NUMBER_MULTIGET_BYTES_READ, bytes);
  statistics()->recordInHistogram(rocksdb::BYTES_PER_MULTIGET, bytes);
}

void Database::ReadMany(const ReadOptions& options, const std::vector<const Family*>& families,
                        const Slice* keys, PinnableSlice* values, Status* statuses) const {
  const size_t count = families.size();
  const View* view = ViewOf(options);
  ViewPtr own;
  if (view == nullptr && count > 1) {
    if (TryMultiGetLatest(families, keys, values, statuses)) return;
    Status taken = store_->Snapshot(&own);
    for (size_t i = 0; i < count && !taken.ok(); i++) statuses[i] = taken;
    if (!taken.ok()) return;
    view = own.get();
  }
  if (count > 1 && MultiGetFamilies(families, keys, view, values, statuses)) return;
  for (size_t i = 0; i < count; i++) statuses[i] = GetAt(*families[i], keys[i], view, &values[i]);
}

std::vector<Status> Database::MultiGet(const ReadOptions& options,
                                       const std::vector<ColumnFamilyHandle*>& handles,
                                       const std::vector<Slice>& keys,
                                       std::vector<std::string>* values) {
  std::vector<Status> statuses(keys.size());
  std::vector<PinnableSlice> found(keys.size());
  MultiGetMany(options, keys.size(), handles.data(), keys.data(), found.data(), statuses.data());
  values->resize(keys.size());
  for (size_t i = 0; i < keys.size(); i++) {
    if (statuses[i].ok()) {
      (*values)[i].assign(found[i].data(), found[i].size());
    } else {
      (*values)[i].clear();
    }
  }
  return statuses;
}

std::vector<Status> Database::MultiGet(const ReadOptions& options,
                                       const std::vector<ColumnFamilyHandle*>& handles,
                                       const std::vector<Slice>& keys,
                                       std::vector<std::string>* values,
                                       std::vector<std::string>* timestamps) {
  if (timestamps != nullptr) timestamps->assign(keys.size(), std::string());
  return MultiGet(options, handles, keys, values);
}

void Database::MultiGet(const ReadOptions& options, ColumnFamilyHandle* handle, const size_t count,
                        const Slice* keys, PinnableSlice* values, Status* statuses, const bool) {
  const std::vector<ColumnFamilyHandle*> handles(count, handle);
  MultiGetMany(options, count, handles.data(), keys, values, statuses);
}

void Database::MultiGet(const ReadOptions& options, ColumnFamilyHandle* handle, const size_t count,
                        const Slice* keys, PinnableSlice* values, std::string* timestamps,
                        Status* statuses, const bool sorted) {
  for (size_t i = 0; timestamps != nullptr && i < count; i++) timestamps[i].clear();
  MultiGet(options, handle, count, keys, values, statuses, sorted);
}

void Database::MultiGet(const ReadOptions& options, const size_t count,
                        ColumnFamilyHandle** handles, const Slice* keys, PinnableSlice* values,
                        Status* statuses, const bool) {
  MultiGetMany(options, count, handles, keys, values, statuses);
}

void Database::MultiGet(const ReadOptions& options, const size_t count,
                        ColumnFamilyHandle** handles, const Slice* keys, PinnableSlice* values,
                        std::string* timestamps, Status* statuses, const bool sorted) {
  for (size_t i = 0; timestamps != nullptr && i < count; i++) timestamps[i].clear();
  MultiGet(options, count, handles, keys, values, statuses, sorted);
}

bool Database::KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* handle,
                           const Slice& key, std::string* value, std::string* timestamp,
                           bool* value_found) {
  if (value_found != nullptr) *value_found = false;
  if (timestamp != nullptr) timestamp->clear();
  PinnableSlice found;
  Status got = Get(options, handle, key, &found);
  if (got.IsNotFound()) return false;
  if (!got.ok()) return true;
  if (value != nullptr) value->assign(found.data(), found.size());
  if (value_found != nullptr) *value_found = true;
  return true;
}

rocksdb::Iterator* Database::NewIterator(const ReadOptions& options, ColumnFamilyHandle* handle) {
  std::vector<rocksdb::Iterator*> one;
  Status made = NewIterators(options, {handle}, &one);
  return made.ok() ? one.front() : rocksdb::NewErrorIterator(made);
}

Status Database::NewIterators(const ReadOptions& options,
                              const std::vector<ColumnFamilyHandle*>& handles,
                              std::vector<rocksdb::Iterator*>* iterators) {
  iterators->clear();
  Status allowed = CheckRead(options);
  if (allowed.ok() && options.managed) {
    allowed = Status::NotSupported("Managed iterator is not supported anymore.");
  }
  if (!allowed.ok()) return allowed;
  ViewPtr view;
  if (options.snapshot != nullptr) {
    view = static_cast<const TakenSnapshot*>(options.snapshot)->view();
  } else if (!options.tailing) {
    Status taken = store_->Snapshot(&view);
    if (!taken.ok()) return taken;
  }
  for (ColumnFamilyHandle* handle : handles) {
    iterators->push_back(new FamilyIterator(this, FamilyOf(handle), options, view));
  }
  return Status::OK();
}

const rocksdb::Snapshot* Database::GetSnapshot() {
  ViewPtr view;
  // In this order, the snapshot sees all that the number counts.
  const SequenceNumber sequence = catalog_->LastSequence();
  if (!store_->Snapshot(&view).ok()) return nullptr;
  int64_t now = 0;
  options_.env->GetCurrentTime(&now).PermitUncheckedError();
  auto* const taken = new TakenSnapshot(std::move(view), sequence, now);
  const std::lock_guard<std::mutex> lock(snapshots_mutex_);
  snapshots_.insert({sequence, taken});
  return taken;
}

void Database::ReleaseSnapshot(const rocksdb::Snapshot* snapshot) {
  if (snapshot == nullptr) return;
  auto* const taken = static_cast<TakenSnapshot*>(const_cast<rocksdb::Snapshot*>(snapshot));
  {
    const std::lock_guard<std::mutex> lock(snapshots_mutex_);
    snapshots_.erase({taken->GetSequenceNumber(), taken});
  }
  delete taken;
}

}  // namespace herocks
