// RocksDB's checkpoints: a copy of the database, as it is now, that can be opened by itself.
//
// RocksDB links its files into the copy; ours copies what is in use, by a backup that is restored.
// As with RocksDB's, the copy gets an identity of its own when it is opened.
#include <rocksdb/utilities/checkpoint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "database.h"
#include "dropin/place.h"
#include "exported.h"

namespace herocks {

namespace {

class StoreCheckpoint final : public rocksdb::Checkpoint {
 public:
  explicit StoreCheckpoint(Database* db) : db_(db) {}

  Status CreateCheckpoint(const std::string& given, uint64_t, uint64_t* sequence) override {
    if (dropin::Exists(given)) return Status::InvalidArgument("Directory exists");
    const std::string dir = given.substr(0, given.find_last_not_of('/') + 1);
    if (dir.empty()) return Status::InvalidArgument("invalid checkpoint directory name");
    // The copy is made in here, and gets its name when it is whole.
    const std::string staging = dir + ".tmp";
    Clear(staging);
    if (::mkdir(staging.c_str(), 0755) != 0) return Failed("mkdir", staging);
    const SequenceNumber last = db_->GetLatestSequenceNumber();
    Status made = db_->catalog().Settle();
    if (made.ok()) made = db_->store().CopyTo(staging + kSet, staging + kCopy);
    if (made.ok() && ::rename((staging + kCopy).c_str(), dir.c_str()) != 0) {
      made = Failed("renaming", staging + kCopy);
    }
    Clear(staging);
    if (made.ok() && sequence != nullptr) *sequence = last;
    return made;
  }

  Status ExportColumnFamily(ColumnFamilyHandle*, const std::string&,
                            rocksdb::ExportImportFilesMetaData** metadata) override {
    *metadata = nullptr;
    return Status::NotSupported("Heliox does not support ExportColumnFamily",
                                "its data is not in RocksDB's files");
  }

 private:
  static constexpr char kSet[] = "/heliox-set";
  static constexpr char kCopy[] = "/heliox-copy";

  static Status Failed(const char* what, const std::string& path) {
    const std::string doing = std::string("While ") + what + ": " + path;
    return errno == ENOENT ? Status::PathNotFound(doing, std::strerror(errno))
                           : Status::IOError(doing, std::strerror(errno));
  }

  // Also what a checkpoint has left that did not end; nothing else that is there.
  static void Clear(const std::string& staging) {
    std::error_code ignored;
    std::filesystem::remove_all(staging + kSet, ignored);
    std::filesystem::remove_all(staging + kCopy, ignored);
    (void)::rmdir(staging.c_str());
  }

  Database* const db_;
};

}  // namespace

}  // namespace herocks

namespace rocksdb {

HEROCKS_EXPORTED Status Checkpoint::Create(DB* db, Checkpoint** checkpoint) {
  *checkpoint = new herocks::StoreCheckpoint(static_cast<herocks::Database*>(db->GetRootDB()));
  return Status::OK();
}

// RocksDB's own, which a derived class would fall back to, take the database for RocksDB's.
HEROCKS_EXPORTED Status Checkpoint::CreateCheckpoint(const std::string&, uint64_t, uint64_t*) {
  return Status::NotSupported("");
}

HEROCKS_EXPORTED Status Checkpoint::ExportColumnFamily(ColumnFamilyHandle*, const std::string&,
                                                       ExportImportFilesMetaData**) {
  return Status::NotSupported("");
}

}  // namespace rocksdb
