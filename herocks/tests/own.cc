// What of HeRocks has no like in RocksDB, or another answer: who only reads, whose backups those are, what
// is refused.
//
//   own DIR
//
// Ends with 1 if something is not as it should be, and says what.
#include <fcntl.h>
#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace rocksdb;

std::string dir;

class Join : public AssociativeMergeOperator {
 public:
  bool Merge(const Slice&, const Slice* existing, const Slice& value, std::string* result,
             Logger*) const override {
    *result = existing == nullptr ? value.ToString() : existing->ToString() + value.ToString();
    return true;
  }
  const char* Name() const override { return "Join"; }
};

Status Expect(bool holds, const char* what) {
  return holds ? Status::OK() : Status::Corruption("not as expected", what);
}

Options BaseOptions() {
  Options options;
  options.create_if_missing = true;
  options.merge_operator = std::make_shared<Join>();
  return options;
}

// When a file of a store was last changed.
std::pair<time_t, long> ChangedAt(const std::string& path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) return {0, 0};
  return {found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

// Whether this process has the file open, and not to write.
bool IsOpenToRead(const std::string& path) {
  struct stat wanted = {};
  bool is_open = false;
  if (::stat(path.c_str(), &wanted) != 0) return false;
  for (int fd = 0; fd < 1024; fd++) {
    struct stat found = {};
    if (::fstat(fd, &found) != 0 || found.st_ino != wanted.st_ino) continue;
    if ((::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY) return false;
    is_open = true;
  }
  return is_open;
}

// Who opens to read writes nothing, and leaves room for others who do so; also of a copy.
Status ReadOnly() {
  const std::string place = dir + "/read only";
  const std::string data = place + "/data";
  DB* writer = nullptr;
  DB* first = nullptr;
  DB* second = nullptr;
  Status status = DB::Open(BaseOptions(), place, &writer);
  if (!status.ok()) return status;
  status = writer->Merge(WriteOptions(), "a", "1");
  const Status beside = DB::OpenForReadOnly(BaseOptions(), place, &first);
  delete writer;
  if (!status.ok() || !beside.IsIOError()) return Expect(false, "read only beside a writer");
  const auto before = ChangedAt(data);
  status = DB::OpenForReadOnly(BaseOptions(), place, &first);
  if (status.ok()) status = DB::OpenForReadOnly(BaseOptions(), place, &second);
  if (!status.ok()) return status;
  const std::unique_ptr<DB> owners[2] = {std::unique_ptr<DB>(first), std::unique_ptr<DB>(second)};
  std::vector<std::string> names;
  status = DB::ListColumnFamilies(DBOptions(), place, &names);
  std::string value;
  if (status.ok()) status = second->Get(ReadOptions(), "a", &value);
  if (status.ok()) status = second->VerifyChecksum();
  if (status.ok()) status = Expect(DB::Open(BaseOptions(), place, &writer).IsIOError(), "a writer");
  if (!status.ok()) return status;
  Checkpoint* checkpoint = nullptr;
  status = Checkpoint::Create(first, &checkpoint);
  const std::unique_ptr<Checkpoint> owner(checkpoint);
  if (status.ok()) status = checkpoint->CreateCheckpoint(place + " copied");
  if (!status.ok()) return status;
  return Expect(value == "1" && IsOpenToRead(data) && ChangedAt(data) == before, "read only");
}

// A set of backups of RocksDB's own is left alone.
Status ForeignBackups() {
  const std::string place = dir + "/foreign backups";
  for (const char* part : {"", "/meta", "/private"}) ::mkdir((place + part).c_str(), 0755);
  std::ofstream(place + "/meta/1") << "0\n";
  BackupEngineOptions options(place);
  options.destroy_old_data = true;
  BackupEngine* engine = nullptr;
  BackupEngineReadOnly* reading = nullptr;
  const Status open = BackupEngine::Open(Env::Default(), options, &engine);
  options.destroy_old_data = false;
  const Status read = BackupEngineReadOnly::Open(Env::Default(), options, &reading);
  const bool says_whose = open.ToString().find("backups of RocksDB itself") != std::string::npos;
  return Expect(open.IsInvalidArgument() && read.IsInvalidArgument() && says_whose &&
                    ::access((place + "/meta/1").c_str(), F_OK) == 0,
                "foreign backups");
}

// A backup that cannot be restored, since the database is open, changes nothing and leaves nothing.
Status RestoreOverOpen() {
  const std::string place = dir + "/restored over";
  DB* opened = nullptr;
  Status status = DB::Open(BaseOptions(), place, &opened);
  if (!status.ok()) return status;
  const std::unique_ptr<DB> owner(opened);
  BackupEngine* engine = nullptr;
  status = BackupEngine::Open(Env::Default(), BackupEngineOptions(place + " backups"), &engine);
  if (!status.ok()) return status;
  const std::unique_ptr<BackupEngine> backups(engine);
  status = backups->CreateNewBackup(opened);
  if (status.ok()) status = opened->Put(WriteOptions(), "after", "1");
  if (!status.ok()) return status;
  const Status refused = backups->RestoreDBFromLatestBackup(place, place);
  std::string value;
  status = opened->Get(ReadOptions(), "after", &value);
  return Expect(refused.IsIOError() && status.ok() &&
                    ::access((place + ".restoring").c_str(), F_OK) != 0,
                "restore over an open database");
}

// Backups of an encrypted database are verified and restored with the key that is set.
Status EncryptedBackups() {
  const std::string place = dir + "/encrypted";
  std::ofstream(place + " key") << std::string(64, 'a') << "\n";
  ::setenv("HELIOX_KEY_FILE", (place + " key").c_str(), 1);
  DB* opened = nullptr;
  Status status = DB::Open(BaseOptions(), place, &opened);
  std::unique_ptr<DB> owner(opened);
  BackupEngine* engine = nullptr;
  if (status.ok()) status = opened->Put(WriteOptions(), "fruit", "apple");
  if (!status.ok()) return status;
  status = BackupEngine::Open(Env::Default(), BackupEngineOptions(place + " backups"), &engine);
  if (!status.ok()) return status;
  const std::unique_ptr<BackupEngine> backups(engine);
  status = backups->CreateNewBackup(opened);
  if (status.ok()) status = backups->VerifyBackup(1);
  owner.reset();
  if (status.ok()) status = backups->RestoreDBFromLatestBackup(place, place);
  if (status.ok()) status = DB::Open(BaseOptions(), place, &opened);
  if (!status.ok()) return status;
  owner.reset(opened);
  std::string value;
  status = opened->Get(ReadOptions(), "fruit", &value);
  ::unsetenv("HELIOX_KEY_FILE");
  return status;
}

// A file in another order is refused: RocksDB takes it, and finds a part of its keys at best.
Status OtherOrder() {
  Options reversed = BaseOptions();
  reversed.comparator = ReverseBytewiseComparator();
  SstFileWriter writer(EnvOptions(), reversed);
  Status status = writer.Open(dir + "/reversed.sst");
  if (status.ok()) status = writer.Put("z", "1");
  if (status.ok()) status = writer.Put("y", "2");
  if (status.ok()) status = writer.Finish();
  if (!status.ok()) return status;
  DB* opened = nullptr;
  status = DB::Open(BaseOptions(), dir + "/other order", &opened);
  if (!status.ok()) return status;
  status = opened->IngestExternalFile({dir + "/reversed.sst"}, IngestExternalFileOptions());
  delete opened;
  return Expect(status.IsInvalidArgument() &&
                    status.ToString().find("rocksdb.ReverseBytewise") != std::string::npos,
                status.ToString().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  dir = argv[1];
  int failures = 0;
  for (const Status& status : {ReadOnly(), ForeignBackups(), RestoreOverOpen(), EncryptedBackups(),
                               OtherOrder()}) {
    if (status.ok()) continue;
    std::printf("FAILED %s\n", status.ToString().c_str());
    failures++;
  }
  return failures > 0 ? 1 : 0;
}
