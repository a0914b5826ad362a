// The database's properties and sizes. See database.h.
#include <rocksdb/cache.h>
#include <rocksdb/metadata.h>
#include <rocksdb/table.h>
#include <rocksdb/table_properties.h>

#include <algorithm>

#include "database.h"

namespace herocks {

namespace {

constexpr char kPrefix[] = "rocksdb.";

// Names without "rocksdb.": figures of a thing that Heliox does not have, so that there are none.
constexpr const char* kZeros[] = {"num-immutable-mem-table",
                                  "num-immutable-mem-table-flushed",
                                  "mem-table-flush-pending",
                                  "num-running-flushes",
                                  "compaction-pending",
                                  "num-running-compactions",
                                  "num-entries-active-mem-table",
                                  "num-entries-imm-mem-tables",
                                  "num-deletes-active-mem-table",
                                  "num-deletes-imm-mem-tables",
                                  "estimate-pending-compaction-bytes",
                                  "actual-delayed-write-rate",
                                  "is-write-stopped",
                                  "min-log-number-to-keep",
                                  "base-level",
                                  "block-cache-pinned-usage",
                                  "current-super-version-number",
                                  "num-blob-files",
                                  "total-blob-file-size",
                                  "live-blob-file-size",
                                  "live-blob-file-garbage-size"};

// Properties that are the engine's own figures.
struct Named {
  const char* property;
  const char* figure;
};
constexpr Named kFigures[] = {{"cur-size-active-mem-table", "tail_bytes"},
                              {"cur-size-all-mem-tables", "tail_bytes"},
                              {"size-all-mem-tables", "tail_bytes"},
                              {"estimate-table-readers-mem", "index_bytes"},
                              {"total-sst-files-size", "disk_bytes"},
                              {"live-sst-files-size", "disk_bytes"},
                              {"block-cache-usage", "cache_bytes"}};

// The levels that files would be on: none.
bool IsPerLevel(const std::string& name, const char* prefix) {
  const Slice given(name);
  return given.starts_with(prefix) && given.size() > std::string(prefix).size();
}

}  // namespace

// A property that is a number, by its name without "rocksdb.".
bool Database::Number(const Family& family, const std::string& name, uint64_t* value) const {
  *value = 0;
  if (std::find(std::begin(kZeros), std::end(kZeros), name) != std::end(kZeros)) return true;
  for (const Named& named : kFigures) {
    if (name != named.property) continue;
    *value = store_->Figure(named.figure);
    return true;
  }
  if (name == "estimate-num-keys" || name == "estimate-live-data-size") {
    uint64_t count = 0;
    uint64_t bytes = 0;
    if (!family.space.Approximate(Slice(""), nullptr, &count, &bytes).ok()) return false;
    *value = name == "estimate-num-keys" ? count : bytes;
  } else if (name == "background-errors") {
    *value = store_->Failed() ? 1 : 0;
  } else if (name == "is-file-deletions-enabled") {
    *value = file_deletions_disabled_.load() == 0 ? 1 : 0;
  } else if (name == "num-live-versions") {
    *value = 1;
  } else if (name == "min-obsolete-sst-number-to-keep") {
    *value = UINT64_MAX;
  } else if (name == "block-cache-capacity") {
    *value = store_->Figure("memory_budget_bytes");
  } else if (name == "num-snapshots" || name == "oldest-snapshot-time" ||
             name == "oldest-snapshot-sequence") {
    const std::lock_guard<std::mutex> lock(snapshots_mutex_);
    if (name == "num-snapshots") {
      *value = snapshots_.size();
    } else if (!snapshots_.empty()) {
      const TakenSnapshot* oldest = snapshots_.begin()->second;
      *value = name == "oldest-snapshot-time" ? static_cast<uint64_t>(oldest->GetUnixTime())
                                              : oldest->GetSequenceNumber();
    }
  } else {
    return false;
  }
  return true;
}

bool Database::GetIntProperty(ColumnFamilyHandle* handle, const Slice& property, uint64_t* value) {
  if (!property.starts_with(kPrefix)) return false;
  return Number(*FamilyOf(handle), property.ToString().substr(sizeof kPrefix - 1), value);
}

bool Database::GetAggregatedIntProperty(const Slice& property, uint64_t* value) {
  if (!property.starts_with(kPrefix)) return false;
  const std::string name = property.ToString().substr(sizeof kPrefix - 1);
  *value = 0;
  const bool is_of_family = name == "estimate-num-keys" || name == "estimate-live-data-size";
  if (!is_of_family) return Number(*default_family_, name, value);
  const std::shared_lock<std::shared_mutex> lock(families_mutex_);
  for (const auto& each : families_) {
    uint64_t one = 0;
    if (!Number(*each.second, name, &one)) return false;
    *value += one;
  }
  return true;
}

bool Database::GetProperty(ColumnFamilyHandle* handle, const Slice& property, std::string* value) {
  value->clear();
  uint64_t number = 0;
  if (GetIntProperty(handle, property, &number)) {
    *value = std::to_string(number);
    return true;
  }
  if (!property.starts_with(kPrefix)) return false;
  const std::string name = property.ToString().substr(sizeof kPrefix - 1);
  if (IsPerLevel(name, "num-files-at-level")) {
    *value = "0";
  } else if (IsPerLevel(name, "live-sst-files-size-at-temperature")) {
    // All of it is of the temperature that RocksDB calls unknown, 0.
    const bool is_unknown = name == "live-sst-files-size-at-temperature0";
    *value = std::to_string(is_unknown ? store_->Figure("disk_bytes") : 0);
  } else if (IsPerLevel(name, "compression-ratio-at-level")) {
    *value = "-1.0";
  } else if (name == "stats" || name == "cfstats" || name == "dbstats" ||
             name == "cfstats-no-file-histogram") {
    // Programs look for RocksDB's heading.
    *value = "** DB Stats **\nHeliox " + std::string(heliox_version()) + "\n" +
             store_->FiguresAsText();
  } else if (name == "levelstats") {
    *value = "Level Files Size(MB)\n--------------------\n";
  } else if (name == "aggregated-table-properties" ||
             IsPerLevel(name, "aggregated-table-properties-at-level")) {
    *value = rocksdb::TableProperties().ToString();
  } else if (name == "options-statistics") {
    if (statistics() != nullptr) *value = statistics()->ToString();
    return statistics() != nullptr;
  } else {
    return name == "sstables" || name == "cf-file-histogram" || name == "blob-stats";
  }
  return true;
}

bool Database::GetMapProperty(ColumnFamilyHandle*, const Slice& property,
                              std::map<std::string, std::string>* value) {
  value->clear();
  const std::string name = property.ToString();
  // Of no tables: zero each.
  if (name == "rocksdb.aggregated-table-properties" ||
      IsPerLevel(name, "rocksdb.aggregated-table-properties-at-level")) {
    for (const auto& each : rocksdb::TableProperties().GetAggregatablePropertiesAsMap()) {
      (*value)[each.first] = std::to_string(each.second);
    }
    return true;
  }
  if (property != "rocksdb.cfstats" && property != "rocksdb.dbstats") return false;
  const std::string text = store_->FiguresAsText();
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    const size_t colon = text.find(": ", at);
    if (colon < end) {
      (*value)["heliox." + text.substr(at, colon - at)] =
          text.substr(colon + 2, end - colon - 2);
    }
    at = end + 1;
  }
  return true;
}

Status Database::GetApproximateSizes(const rocksdb::SizeApproximationOptions& options,
                                     ColumnFamilyHandle* handle, const rocksdb::Range* ranges,
                                     int count, uint64_t* sizes) {
  if (!options.include_memtables && !options.include_files) {
    return Status::InvalidArgument("Invalid options");
  }
  const FamilyPtr& family = FamilyOf(handle);
  for (int i = 0; i < count; i++) {
    std::string from_scratch;
    std::string to_scratch;
    const Slice from = family->keys.Encode(ranges[i].start, &from_scratch);
    const Slice to = family->keys.Encode(ranges[i].limit, &to_scratch);
    sizes[i] = 0;
    if (from.compare(to) >= 0) continue;
    uint64_t keys = 0;
    Status asked = family->space.Approximate(from, &to, &keys, &sizes[i]);
    if (!asked.ok()) return asked;
  }
  return Status::OK();
}

void Database::GetApproximateMemTableStats(ColumnFamilyHandle*, const rocksdb::Range&,
                                           uint64_t* const count, uint64_t* const size) {
  *count = 0;
  *size = 0;
}

void Database::GetLiveFilesMetaData(std::vector<rocksdb::LiveFileMetaData>* metadata) {
  metadata->clear();
}

void Database::GetColumnFamilyMetaData(ColumnFamilyHandle* handle,
                                       rocksdb::ColumnFamilyMetaData* metadata) {
  Describe(*FamilyOf(handle), metadata);
}

void Database::Describe(const Family& family, rocksdb::ColumnFamilyMetaData* metadata) const {
  *metadata = rocksdb::ColumnFamilyMetaData();
  metadata->name = family.name;
  uint64_t keys = 0;
  uint64_t bytes = 0;
  if (family.space.Approximate(Slice(""), nullptr, &keys, &bytes).ok()) {
    metadata->size = bytes;
  }
  // Programs look at level 0 and beyond; there are no files on them.
  for (int level = 0; level < family.options.num_levels; level++) {
    metadata->levels.emplace_back(level, 0, std::vector<rocksdb::SstFileMetaData>());
  }
}

void Database::GetAllColumnFamilyMetaData(std::vector<rocksdb::ColumnFamilyMetaData>* metadata) {
  metadata->clear();
  for (const FamilyPtr& family : Families()) {
    metadata->emplace_back();
    Describe(*family, &metadata->back());
  }
}

}  // namespace herocks
