// RocksDB's static and free functions that Heliox does not do: each says so, instead of opening
// files of RocksDB's beside the store or taking our database for one of RocksDB's.
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/experimental.h>
#include <rocksdb/utilities/debug.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction_db.h>

#include "exported.h"

namespace {

using rocksdb::Status;

Status Refused(const char* what, const char* instead) {
  return Status::NotSupported(std::string("Heliox does not support ") + what, instead);
}

constexpr char kTransactions[] = "a WriteBatch is atomic; conflicts are not checked";
constexpr char kNoFiles[] = "its data is not in RocksDB's files";
constexpr char kMending[] = "use heliox check, and heliox restore from a backup";

}  // namespace

namespace rocksdb {

HEROCKS_EXPORTED Status DB::OpenAsSecondary(const Options&, const std::string&, const std::string&,
                                            DB** dbptr) {
  *dbptr = nullptr;
  return Refused("secondary instances", "a store is open in one process");
}

HEROCKS_EXPORTED Status DB::OpenAsSecondary(const DBOptions&, const std::string&,
                                            const std::string&,
                                            const std::vector<ColumnFamilyDescriptor>&,
                                            std::vector<ColumnFamilyHandle*>*, DB** dbptr) {
  *dbptr = nullptr;
  return Refused("secondary instances", "a store is open in one process");
}

HEROCKS_EXPORTED Status DB::OpenAndCompact(const std::string&, const std::string&,
                                           const std::string&, std::string*,
                                           const CompactionServiceOptionsOverride&) {
  return Refused("OpenAndCompact", kNoFiles);
}

HEROCKS_EXPORTED Status DB::OpenAndCompact(const OpenAndCompactOptions&, const std::string&,
                                           const std::string&, const std::string&, std::string*,
                                           const CompactionServiceOptionsOverride&) {
  return Refused("OpenAndCompact", kNoFiles);
}

HEROCKS_EXPORTED Status DB::OpenAndTrimHistory(const DBOptions&, const std::string&,
                                               const std::vector<ColumnFamilyDescriptor>&,
                                               std::vector<ColumnFamilyHandle*>*, DB** dbptr,
                                               std::string) {
  *dbptr = nullptr;
  return Refused("OpenAndTrimHistory", "there are no user-defined timestamps");
}

HEROCKS_EXPORTED Status RepairDB(const std::string&, const DBOptions&,
                                 const std::vector<ColumnFamilyDescriptor>&) {
  return Refused("RepairDB", kMending);
}

HEROCKS_EXPORTED Status RepairDB(const std::string&, const DBOptions&,
                                 const std::vector<ColumnFamilyDescriptor>&,
                                 const ColumnFamilyOptions&) {
  return Refused("RepairDB", kMending);
}

HEROCKS_EXPORTED Status RepairDB(const std::string&, const Options&) {
  return Refused("RepairDB", kMending);
}

HEROCKS_EXPORTED Status DeleteFilesInRange(DB*, ColumnFamilyHandle*, const Slice*, const Slice*,
                                           bool) {
  return Refused("DeleteFilesInRange", "use DeleteRange, which takes constant time");
}

HEROCKS_EXPORTED Status DeleteFilesInRanges(DB*, ColumnFamilyHandle*, const RangePtr*, size_t,
                                            bool) {
  return Refused("DeleteFilesInRanges", "use DeleteRange, which takes constant time");
}

HEROCKS_EXPORTED Status GetAllKeyVersions(DB*, Slice, Slice, size_t, std::vector<KeyVersion>*) {
  return Refused("GetAllKeyVersions", "older versions are not kept as RocksDB keeps them");
}

HEROCKS_EXPORTED Status GetAllKeyVersions(DB*, ColumnFamilyHandle*, Slice, Slice, size_t,
                                          std::vector<KeyVersion>*) {
  return Refused("GetAllKeyVersions", "older versions are not kept as RocksDB keeps them");
}

namespace experimental {

HEROCKS_EXPORTED Status UpdateManifestForFilesState(const DBOptions&, const std::string&,
                                                    const std::vector<ColumnFamilyDescriptor>&,
                                                    const UpdateManifestForFilesStateOptions&) {
  return Refused("UpdateManifestForFilesState", kNoFiles);
}

}  // namespace experimental

HEROCKS_EXPORTED Status TransactionDB::Open(const Options&, const TransactionDBOptions&,
                                            const std::string&, TransactionDB** dbptr) {
  *dbptr = nullptr;
  return Refused("TransactionDB", kTransactions);
}

HEROCKS_EXPORTED Status TransactionDB::Open(const DBOptions&, const TransactionDBOptions&,
                                            const std::string&,
                                            const std::vector<ColumnFamilyDescriptor>&,
                                            std::vector<ColumnFamilyHandle*>*,
                                            TransactionDB** dbptr) {
  *dbptr = nullptr;
  return Refused("TransactionDB", kTransactions);
}

HEROCKS_EXPORTED Status TransactionDB::WrapDB(DB*, const TransactionDBOptions&,
                                              const std::vector<size_t>&,
                                              const std::vector<ColumnFamilyHandle*>&,
                                              TransactionDB** dbptr) {
  *dbptr = nullptr;
  return Refused("TransactionDB", kTransactions);
}

HEROCKS_EXPORTED Status TransactionDB::WrapStackableDB(StackableDB*, const TransactionDBOptions&,
                                                       const std::vector<size_t>&,
                                                       const std::vector<ColumnFamilyHandle*>&,
                                                       TransactionDB** dbptr) {
  *dbptr = nullptr;
  return Refused("TransactionDB", kTransactions);
}

HEROCKS_EXPORTED Status OptimisticTransactionDB::Open(const Options&, const std::string&,
                                                      OptimisticTransactionDB** dbptr) {
  *dbptr = nullptr;
  return Refused("OptimisticTransactionDB", kTransactions);
}

HEROCKS_EXPORTED Status OptimisticTransactionDB::Open(const DBOptions&, const std::string&,
                                                      const std::vector<ColumnFamilyDescriptor>&,
                                                      std::vector<ColumnFamilyHandle*>*,
                                                      OptimisticTransactionDB** dbptr) {
  *dbptr = nullptr;
  return Refused("OptimisticTransactionDB", kTransactions);
}

HEROCKS_EXPORTED Status OptimisticTransactionDB::Open(const DBOptions&,
                                                      const OptimisticTransactionDBOptions&,
                                                      const std::string&,
                                                      const std::vector<ColumnFamilyDescriptor>&,
                                                      std::vector<ColumnFamilyHandle*>*,
                                                      OptimisticTransactionDB** dbptr) {
  *dbptr = nullptr;
  return Refused("OptimisticTransactionDB", kTransactions);
}

namespace blob_db {

// Debian's package has no header of these two.
struct BlobDBOptions;
class BlobDB {
 public:
  static Status Open(const Options& options, const BlobDBOptions& bdb_options,
                     const std::string& dbname, BlobDB** blob_db);
  static Status Open(const DBOptions& db_options, const BlobDBOptions& bdb_options,
                     const std::string& dbname,
                     const std::vector<ColumnFamilyDescriptor>& column_families,
                     std::vector<ColumnFamilyHandle*>* handles, BlobDB** blob_db);
};

HEROCKS_EXPORTED Status BlobDB::Open(const Options&, const BlobDBOptions&, const std::string&,
                                     BlobDB** blob_db) {
  *blob_db = nullptr;
  return Refused("BlobDB", "large values need nothing special");
}

HEROCKS_EXPORTED Status BlobDB::Open(const DBOptions&, const BlobDBOptions&, const std::string&,
                                     const std::vector<ColumnFamilyDescriptor>&,
                                     std::vector<ColumnFamilyHandle*>*, BlobDB** blob_db) {
  *blob_db = nullptr;
  return Refused("BlobDB", "large values need nothing special");
}

}  // namespace blob_db

}  // namespace rocksdb
