// What RocksDB's tool ldb does by taking a database for RocksDB's own class: ours in its place.
//
// These are not of RocksDB's interface, and found all the same, by their names in the library.
#include <rocksdb/db.h>
#include <rocksdb/utilities/ldb_cmd.h>

#include <string>

#include "exported.h"

namespace {

// Reaches what commands say about themselves.
struct Command : rocksdb::LDBCommand {
  static void Fail(rocksdb::LDBCommand* command, const std::string& why) {
    command->*(&Command::exec_state_) = rocksdb::LDBCommandExecuteResult::Failed(why);
  }
};

}  // namespace

namespace rocksdb {

class DBImpl {
 public:
  Status TablesRangeTombstoneSummary(ColumnFamilyHandle* family, int entries_max,
                                     std::string* summary);
};

// `list_file_range_deletes` says nothing of a failure, so this is an answer.
HEROCKS_EXPORTED Status DBImpl::TablesRangeTombstoneSummary(ColumnFamilyHandle*, int,
                                                            std::string* summary) {
  *summary = "Heliox has no files of RocksDB's, and keeps no range deletions in any";
  return Status::OK();
}

}  // namespace rocksdb

// `dump_live_files` opens RocksDB's CURRENT, and dies if it is not there.
extern "C" HEROCKS_EXPORTED void HeRocksDumpLiveFiles(rocksdb::LDBCommand* command) asm(
    "_ZN7rocksdb19DBFileDumperCommand9DoCommandEv");

void HeRocksDumpLiveFiles(rocksdb::LDBCommand* command) {
  Command::Fail(command, "Heliox does not support dump_live_files: its data is not in RocksDB's files");
}
