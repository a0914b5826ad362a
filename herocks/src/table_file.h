// A file of RocksDB's (SST) with all that it holds, also what RocksDB's own reader leaves out: deletes,
// merges and ranges. As SstFileWriter makes them: each key once.
//
// Threads: one at a time.
#pragma once

#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/table_properties.h>

#include <functional>
#include <memory>
#include <string>

namespace herocks {

using rocksdb::Slice;
using rocksdb::Status;

class TableFile {
 public:
  enum class Kind { kPut, kDelete, kMerge, kRange };
  struct Entry {
    Kind kind;
    Slice key;
    // The value, the operand, or the end of the range.
    Slice value;
  };
  using OnEntry = std::function<Status(const Entry&)>;

  // The file must be one that RocksDB would ingest with these options.
  Status Open(const rocksdb::Options& options, const std::string& path);
  const rocksdb::TableProperties& properties() const { return *properties_; }
  // The first key, and the last, or the end of a range.
  const std::string& first() const { return first_; }
  const std::string& last() const { return last_; }
  // All ranges, and then all else in the order of the keys: what a range deletes came before the file.
  Status Each(const OnEntry& on_entry) const;

 private:
  Status CheckKind() const;
  Status FindEnds(const rocksdb::Comparator& order);
  Status Walk(bool ranges, const OnEntry& on_entry) const;

  std::string path_;
  std::unique_ptr<rocksdb::SstFileReader> file_;
  // Inside of `file_`.
  void* reader_ = nullptr;
  std::shared_ptr<const rocksdb::TableProperties> properties_;
  std::string first_;
  std::string last_;
};

}  // namespace herocks
