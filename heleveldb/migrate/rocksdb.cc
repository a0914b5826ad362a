// Reads a store of RocksDB, or makes one, for `heliox import` and `heliox export`: the program
// heliox-migrate-rocksdb. A store that is read is opened for reading alone. One thread.
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/utilities/options_util.h>
#include <rocksdb/wide_columns.h>
#include <rocksdb/write_batch.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "stream.h"

namespace {

namespace fs = std::filesystem;
using migrate::Failure;
using migrate::Sum;
using rocksdb::ColumnFamilyDescriptor;
using rocksdb::Slice;
using rocksdb::Status;
using Families = std::vector<ColumnFamilyDescriptor>;

constexpr size_t kBatchBytes = 1 << 20;
constexpr size_t kReadAheadBytes = 2 << 20;

constexpr char kMergeAdvice[] =
    "; it holds merge operands, which only the merge operator of its program can merge: let that "
    "program call CompactRange over everything first (without snapshots), or Put what it Gets";

class Silent : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

struct Opened {
  Opened() = default;
  Opened(Opened&&) = default;
  ~Opened() {
    for (auto* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
  }
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
};

void Check(const Status& status, const std::string& what) {
  if (!status.ok()) throw Failure(what + ": " + status.ToString());
}

bool HasLog(const std::string& dir) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir, ignored)) {
    if (entry.path().extension() == ".log") return true;
  }
  return false;
}

// The options that the store was last opened with, as far as RocksDB itself can make them: merge
// operators and comparators of its own, other places of files. Without a file of them, the defaults.
void LoadOptions(const std::string& dir, rocksdb::DBOptions* options, Families* families) {
  std::vector<std::string> names;
  Check(rocksdb::DB::ListColumnFamilies(rocksdb::DBOptions(), dir, &names),
        "RocksDB cannot read " + dir);
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = true;
  config.ignore_unsupported_options = true;
  Families known;
  if (!rocksdb::LoadLatestOptions(config, dir, options, &known).ok()) {
    *options = rocksdb::DBOptions();
    known.clear();
  }
  options->info_log = std::make_shared<Silent>();
  options->create_if_missing = false;
  options->listeners.clear();
  // The default ends the log, without a word, at the first change that cannot be applied, such as a
  // merge without its operator. This one stops at it, and takes only a cut-off end.
  options->wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options->paranoid_checks = true;
  // Where the store once was is not where its log is now.
  if (HasLog(dir)) options->wal_dir.clear();
  for (const std::string& name : names) {
    ColumnFamilyDescriptor family(name, rocksdb::ColumnFamilyOptions());
    for (const ColumnFamilyDescriptor& each : known) {
      if (each.name == name) family.options = each.options;
    }
    families->push_back(family);
  }
}

Status TryOpen(const rocksdb::DBOptions& options, const std::string& dir, const Families& families,
               Opened* opened) {
  rocksdb::DB* raw = nullptr;
  opened->handles.clear();
  const Status status =
      rocksdb::DB::OpenForReadOnly(options, dir, families, &opened->handles, &raw);
  opened->db.reset(raw);
  return status;
}

// Which families cannot be opened, and why.
[[noreturn]] void FailToOpen(const rocksdb::DBOptions& options, const std::string& dir,
                             const Families& families, const Status& first) {
  for (const ColumnFamilyDescriptor& family : families) {
    Families some;
    if (family.name != rocksdb::kDefaultColumnFamilyName) some.push_back(families[0]);
    some.push_back(family);
    Opened opened;
    const Status status = TryOpen(options, dir, some, &opened);
    if (status.ToString().find("existing comparator") == std::string::npos) continue;
    throw Failure("the keys of the column family " + family.name +
                  " are ordered by a comparator of its program, which RocksDB does not have here: " +
                  status.ToString());
  }
  const std::string text = "RocksDB cannot open " + dir + ": " + first.ToString();
  const bool is_merge = text.find("merge_operator") != std::string::npos;
  throw Failure(is_merge ? text + kMergeAdvice : text);
}

Opened OpenToRead(const std::string& dir, Families* families) {
  rocksdb::DBOptions options;
  LoadOptions(dir, &options, families);
  Opened opened;
  const Status status = TryOpen(options, dir, *families, &opened);
  if (!status.ok()) FailToOpen(options, dir, *families, status);
  return opened;
}

// What a value is beyond its bytes would be lost.
void CheckPlain(const rocksdb::Iterator& it, const std::string& family) {
  const rocksdb::WideColumns& columns = it.columns();
  if (columns.size() == 1 && columns[0].name() == rocksdb::kDefaultWideColumnName) return;
  throw Failure("the column family " + family + " holds entities with columns (PutEntity), for " +
                "which Heliox has no place: key " + it.key().ToString(true) + " (hexadecimal)");
}

[[noreturn]] void FailToRead(const ColumnFamilyDescriptor& family, const Status& status,
                             uint64_t count) {
  const std::string text = "RocksDB stops reading the column family " + family.name + " after " +
                           std::to_string(count) + " records: " + status.ToString();
  const bool is_merge = status.ToString().find("erge") != std::string::npos;
  if (!is_merge || family.options.merge_operator != nullptr) throw Failure(text);
  throw Failure(text + kMergeAdvice);
}

template <typename Visit>
Sum ForEach(Opened* opened, size_t at, const ColumnFamilyDescriptor& family, Visit visit) {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  options.total_order_seek = true;
  options.readahead_size = kReadAheadBytes;
  const std::unique_ptr<rocksdb::Iterator> it(
      opened->db->NewIterator(options, opened->handles[at]));
  Sum sum;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    CheckPlain(*it, family.name);
    const Slice key = it->key();
    const Slice value = it->value();
    sum.Add(key.data(), key.size(), value.data(), value.size());
    visit(key, value);
  }
  if (!it->status().ok()) FailToRead(family, it->status(), sum.count);
  return sum;
}

// DBWithTTL leaves no mark but in the options that it was opened with.
void NoteTtl(const std::string& dir) {
  std::string name;
  if (!rocksdb::GetLatestOptionsFileName(dir, rocksdb::Env::Default(), &name).ok()) return;
  std::ifstream file(dir + "/" + name);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.find("TtlCompactionFilter") == std::string::npos &&
      text.find("TtlMergeOperator") == std::string::npos) {
    return;
  }
  migrate::Send(migrate::kNote,
                "the store was used through DBWithTTL: each value ends with four bytes, the time of "
                "its writing; they are kept as they are, and nothing expires");
}

void Read(const std::string& dir) {
  migrate::LockForReading(dir);
  if (fs::exists(dir + "/blob_dir")) {
    throw Failure(dir + " was made by BlobDB, whose values are in files of their own");
  }
  Families families;
  Opened opened = OpenToRead(dir, &families);
  NoteTtl(dir);
  migrate::SendNumber(migrate::kTotal, migrate::BytesOf(dir));
  for (const ColumnFamilyDescriptor& family : families) {
    migrate::Send(migrate::kListed, family.name, family.options.comparator->Name());
  }
  for (size_t at = 0; at < families.size(); at++) {
    migrate::Send(migrate::kFamily, families[at].name, families[at].options.comparator->Name());
    migrate::SendSum(ForEach(&opened, at, families[at], [](const Slice& key, const Slice& value) {
      migrate::Send(migrate::kRecord, key.data(), key.size(), value.data(), value.size());
    }));
  }
}

// Makes a store out of what comes.
class Maker {
 public:
  explicit Maker(const std::string& dir) : dir_(dir) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.error_if_exists = true;
    rocksdb::DB* raw = nullptr;
    Check(rocksdb::DB::Open(options, dir, &raw), "RocksDB cannot make a store");
    db_.reset(raw);
    unlogged_.disableWAL = true;
  }

  void Take(const migrate::Frame& frame) {
    if (frame.kind == migrate::kFamily) {
      Begin(frame.first, frame.second);
    } else if (frame.kind == migrate::kSum) {
      expected_.back() = migrate::SumOf(frame);
    } else if (frame.kind == migrate::kRecord) {
      Check(batch_.Put(handles_.back(), frame.first, frame.second), "RocksDB takes no record");
      if (batch_.GetDataSize() >= kBatchBytes) Write();
    }
  }

  // Makes it durable, and reads it from what a program will open.
  void End() {
    Write();
    for (auto* handle : handles_) {
      Check(db_->Flush(rocksdb::FlushOptions(), handle), "RocksDB cannot flush");
    }
    for (auto* handle : handles_) (void)db_->DestroyColumnFamilyHandle(handle);
    Check(db_->Close(), "RocksDB cannot close");
    db_.reset();
    Families families;
    Opened opened = OpenToRead(dir_, &families);
    for (size_t at = 0; at < families.size(); at++) {
      Sum expected;
      for (size_t made = 0; made < names_.size(); made++) {
        if (names_[made] == families[at].name) expected = expected_[made];
      }
      const Sum found = ForEach(&opened, at, families[at], [](const Slice&, const Slice&) {});
      if (found == expected) continue;
      throw Failure("what RocksDB gives back of the column family " + families[at].name +
                    " is not what was written: " + std::to_string(found.count) + " keys of " +
                    std::to_string(expected.count));
    }
  }

 private:
  void Begin(const std::string& name, const std::string& comparator) {
    Write();
    rocksdb::ColumnFamilyOptions options;
    if (comparator == rocksdb::ReverseBytewiseComparator()->Name()) {
      options.comparator = rocksdb::ReverseBytewiseComparator();
    }
    if (name == rocksdb::kDefaultColumnFamilyName &&
        options.comparator != rocksdb::BytewiseComparator()) {
      throw Failure("the column family default can only be exported in the order of its bytes");
    }
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    if (name != rocksdb::kDefaultColumnFamilyName) {
      Check(db_->CreateColumnFamily(options, name, &handle), "RocksDB takes no family " + name);
    } else {
      handle = db_->DefaultColumnFamily();
    }
    handles_.push_back(handle);
    names_.push_back(name);
    expected_.emplace_back();
  }

  void Write() {
    if (batch_.Count() == 0) return;
    Check(db_->Write(unlogged_, &batch_), "RocksDB cannot write");
    batch_.Clear();
  }

  const std::string dir_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::vector<std::string> names_;
  std::vector<Sum> expected_;
  rocksdb::WriteBatch batch_;
  rocksdb::WriteOptions unlogged_;
};

void Write(const std::string& dir) {
  const std::string partial = dir + ".partial";
  Maker maker(partial);
  migrate::Frame frame;
  for (migrate::Receive(&frame); frame.kind != migrate::kEnd; migrate::Receive(&frame)) {
    maker.Take(frame);
  }
  maker.End();
  migrate::Publish(partial, dir);
}

}  // namespace

int main(int argc, char** argv) { return migrate::Main(argc, argv, Read, Write); }
