// From RocksDB's options and the environment to the engine's, and what is refused. See settings.h.
#include "settings.h"

#include <rocksdb/advanced_options.h>
#include <rocksdb/cache.h>
#include <rocksdb/comparator.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/table.h>

#include <cstring>
#include <set>

#include "dropin/environment.h"

namespace herocks {

namespace {

constexpr uint64_t kDefaultBlockCacheBytes = 8ull << 20;

// The block caches of all families, each counted once.
uint64_t CacheBytes(const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
  uint64_t bytes = 0;
  std::set<const rocksdb::Cache*> seen;
  for (const auto& family : families) {
    const auto& factory = family.options.table_factory;
    if (factory == nullptr) continue;
    const auto* table = factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    if (table == nullptr || table->no_block_cache) continue;
    if (table->block_cache == nullptr) {
      bytes += kDefaultBlockCacheBytes;
    } else if (seen.insert(table->block_cache.get()).second) {
      bytes += table->block_cache->GetCapacity();
    }
  }
  return bytes;
}

uint64_t BufferBytes(const rocksdb::DBOptions& options,
                     const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
  if (options.db_write_buffer_size > 0) return options.db_write_buffer_size;
  uint64_t bytes = 0;
  for (const auto& family : families) {
    const int buffers = family.options.max_write_buffer_number;
    bytes += family.options.write_buffer_size * static_cast<uint64_t>(buffers > 0 ? buffers : 1);
  }
  return bytes;
}

Status Refused(const std::string& what, const std::string& why) {
  return Status::NotSupported("Heliox does not support " + what, why);
}

}  // namespace

Status CheckDatabaseOptions(const rocksdb::DBOptions& options) {
  if (options.env != nullptr && options.env != rocksdb::Env::Default()) {
    const auto& files = options.env->GetFileSystem();
    if (files == nullptr || std::strcmp(files->Name(), rocksdb::FileSystem::Default()->Name()) != 0) {
      return Refused("this Env", "Heliox reads and writes files itself: a store in memory, or one "
                                 "encrypted by an Env, would not be what it seems");
    }
  }
  if (options.wal_filter != nullptr) return Refused("wal_filter", "there is no WAL to filter");
  return Status::OK();
}

Status CheckFamilyOptions(const std::string& name, const rocksdb::ColumnFamilyOptions& options) {
  const std::string of = " (column family " + name + ")";
  const rocksdb::Comparator* comparator = options.comparator;
  if (comparator == nullptr) return Status::InvalidArgument("comparator is null" + of);
  if (comparator->timestamp_size() > 0) {
    return Refused("user-defined timestamps" + of, "use a comparator without timestamps");
  }
  if (comparator != rocksdb::BytewiseComparator() &&
      comparator != rocksdb::ReverseBytewiseComparator()) {
    return Refused(std::string("a comparator of the program's own, ") + comparator->Name() + of,
                   "rocksdb::BytewiseComparator() and rocksdb::ReverseBytewiseComparator() are possible");
  }
  if (options.compaction_style == rocksdb::kCompactionStyleFIFO) {
    return Refused("FIFO compaction" + of, "nothing would be dropped when the store is full");
  }
  if (options.inplace_callback != nullptr && options.inplace_update_support) {
    return Refused("inplace_callback" + of, "a put would not do what the callback says");
  }
  return Status::OK();
}

Status MakeStoreOptions(const rocksdb::DBOptions& options,
                        const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                        StoreOptions* made) {
  made->create = options.create_if_missing;
  made->memory_bytes = CacheBytes(families) + BufferBytes(options, families);
  return dropin::ReadEnvironment<Status>(made);
}

rocksdb::DBOptions Completed(const rocksdb::DBOptions& options, const std::string& dir) {
  rocksdb::DBOptions completed = options;
  if (completed.db_paths.empty()) completed.db_paths.emplace_back(dir, UINT64_MAX);
  if (completed.env == nullptr) completed.env = rocksdb::Env::Default();
  return completed;
}

Status CheckNotRocksDB(const std::string& dir) {
  return dropin::CheckNotForeign<Status>(dir);
}

}  // namespace herocks
