// RocksDB's file of options. See options_file.h.
#include "options_file.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <algorithm>
#include <cctype>
#include <cinttypes>
#include <cstdio>
#include <filesystem>

namespace rocksdb {

// RocksDB's own, without a header that is installed.
Status PersistRocksDBOptions(const DBOptions& options, const std::vector<std::string>& names,
                             const std::vector<ColumnFamilyOptions>& families,
                             const std::string& file, FileSystem* files);

}  // namespace rocksdb

namespace herocks {

namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "OPTIONS-";
constexpr char kUnfinished[] = ".dbtmp";

// The number in the name of such a file, also of an unfinished one; 0 for any other.
uint64_t NumberOf(std::string name) {
  const size_t cut = name.size() < sizeof kUnfinished ? 0 : name.size() - (sizeof kUnfinished - 1);
  if (name.compare(cut, std::string::npos, kUnfinished) == 0) name.resize(cut);
  if (name.rfind(kPrefix, 0) != 0) return 0;
  uint64_t number = 0;
  for (const char digit : name.substr(sizeof kPrefix - 1)) {
    if (!std::isdigit(static_cast<unsigned char>(digit))) return 0;
    number = number * 10 + static_cast<uint64_t>(digit - '0');
  }
  return number;
}

// Those in a directory, whatever can be seen of it.
std::vector<fs::path> Find(const std::string& dir) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    if (NumberOf(at->path().filename()) > 0) found.push_back(at->path());
  }
  return found;
}

Status Write(const std::string& dir, uint64_t number, const rocksdb::DBOptions& options,
             const std::vector<FamilyPtr>& families) {
  std::vector<std::string> names;
  std::vector<rocksdb::ColumnFamilyOptions> each;
  for (const FamilyPtr& family : families) {
    names.push_back(family->name);
    each.push_back(family->Now());
  }
  char name[64];
  std::snprintf(name, sizeof name, "/%s%06" PRIu64, kPrefix, number);
  const std::string path = dir + name;
  const auto& files = options.env->GetFileSystem();
  Status written =
      rocksdb::PersistRocksDBOptions(options, names, each, path + kUnfinished, files.get());
  return written.ok() ? options.env->RenameFile(path + kUnfinished, path) : written;
}

}  // namespace

Status WriteOptionsFile(const std::string& dir, const rocksdb::DBOptions& options,
                        const std::vector<FamilyPtr>& families) {
  const std::vector<fs::path> before = Find(dir);
  uint64_t last = 0;
  for (const fs::path& path : before) last = std::max(last, NumberOf(path.filename()));
  const Status written = Write(dir, last + 1, options, families);
  if (!written.ok()) {
    return options.fail_if_options_file_error
               ? Status::IOError("Unable to persist options.", written.ToString())
               : Status::OK();
  }
  std::error_code ignored;
  for (const fs::path& path : before) fs::remove(path, ignored);
  return Status::OK();
}

void DeleteOptionsFiles(const std::string& dir) {
  std::error_code ignored;
  for (const fs::path& path : Find(dir)) fs::remove(path, ignored);
}

}  // namespace herocks
