// The database's options while it is open: what can be changed, and what they are now. See database.h.
//
// RocksDB's own code says which options can be changed and to what. All of them but prefix_extractor only
// tune what Heliox does not have; what was changed is told, and kept in RocksDB's file of options.
#include <rocksdb/convenience.h>

#include "database.h"
#include "options_file.h"

namespace rocksdb {

// Of RocksDB's own, without a header that is installed.
class ColumnFamilyData {
 public:
  static Status ValidateOptions(const DBOptions& options, const ColumnFamilyOptions& family);
};

class DBImpl {
 public:
  static Status ValidateOptions(const DBOptions& options);
};

}  // namespace rocksdb

namespace herocks {

namespace {

using NameValues = std::unordered_map<std::string, std::string>;

// Options that cannot be changed are said to be unknown, as RocksDB does where a database's are set.
Status AsUnknown(const NameValues& changes, const Status& parsed) {
  if (!parsed.IsInvalidArgument()) return parsed;
  const std::string why = parsed.getState() == nullptr ? "" : parsed.getState();
  for (const char* prefix : {"Option not changeable: ", "Could not find option: : "}) {
    const Slice text(why);
    if (!text.starts_with(prefix)) continue;
    const std::string name = why.substr(Slice(prefix).size());
    if (changes.count(name) > 0) return Status::NotFound("Unrecognized option", name);
  }
  return parsed;
}

rocksdb::ConfigOptions Changeable() {
  rocksdb::ConfigOptions config;
  config.mutable_options_only = true;
  return config;
}

}  // namespace

Status Database::SetOptions(ColumnFamilyHandle* handle, const NameValues& changes) {
  if (changes.empty()) return Status::InvalidArgument("empty input");
  const FamilyPtr family = FamilyOf(handle);
  const std::lock_guard<std::mutex> lock(options_mutex_);
  ColumnFamilyOptions changed;
  Status done =
      rocksdb::GetColumnFamilyOptionsFromMap(Changeable(), family->Now(), changes, &changed);
  if (done.ok()) done = rocksdb::ColumnFamilyData::ValidateOptions(options_now_, changed);
  if (!done.ok()) return done;
  family->Change(changed);
  return read_only_ ? Status::OK() : KeepOptionsLocked();
}

Status Database::SetDBOptions(const NameValues& changes) {
  if (changes.empty()) return Status::InvalidArgument("empty input");
  const std::lock_guard<std::mutex> lock(options_mutex_);
  DBOptions changed;
  Status done =
      AsUnknown(changes, rocksdb::GetDBOptionsFromMap(Changeable(), options_now_, changes, &changed));
  if (changed.bytes_per_sync == 0) changed.bytes_per_sync = 1 << 20;
  if (done.ok()) done = rocksdb::DBImpl::ValidateOptions(changed);
  for (const FamilyPtr& family : Families()) {
    if (done.ok()) done = rocksdb::ColumnFamilyData::ValidateOptions(changed, family->Now());
  }
  if (!done.ok()) return done;
  options_now_ = changed;
  return read_only_ ? Status::OK() : KeepOptionsLocked();
}

Status Database::EnableAutoCompaction(const std::vector<ColumnFamilyHandle*>& handles) {
  Status done;
  for (ColumnFamilyHandle* handle : handles) {
    Status set = SetOptions(handle, {{"disable_auto_compactions", "false"}});
    if (!set.ok()) done = set;
  }
  return done;
}

DBOptions Database::GetDBOptions() const {
  const std::lock_guard<std::mutex> lock(options_mutex_);
  return options_now_;
}

Options Database::GetOptions(ColumnFamilyHandle* handle) const {
  return Options(GetDBOptions(), FamilyOf(handle)->Now());
}

int Database::NumberLevels(ColumnFamilyHandle* handle) {
  return FamilyOf(handle)->options.num_levels;
}

int Database::Level0StopWriteTrigger(ColumnFamilyHandle* handle) {
  return FamilyOf(handle)->Now().level0_stop_writes_trigger;
}

Status Database::KeepOptions() {
  const std::lock_guard<std::mutex> lock(options_mutex_);
  return KeepOptionsLocked();
}

Status Database::KeepOptionsLocked() const {
  return WriteOptionsFile(name_, options_now_, Families());
}

std::vector<FamilyPtr> Database::Families() const {
  std::vector<FamilyPtr> families;
  const std::shared_lock<std::shared_mutex> lock(families_mutex_);
  for (const auto& each : families_) families.push_back(each.second);
  return families;
}

}  // namespace herocks
