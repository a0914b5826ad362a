// RocksDB's BackupEngine over the backup sets of Heliox.
//
// The backup directory is a set as `heliox backup` makes it: incremental by segment, verified by
// `heliox verify`, restored by `heliox restore` as well. Ids are the numbers of the set. A set that
// RocksDB made is left alone. Threads: as RocksDB's, one backup at a time; StopBackup at any time.
#include <rocksdb/utilities/backup_engine.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "database.h"
#include "destroy.h"
#include "exported.h"
#include "settings.h"

namespace herocks {

namespace {

using rocksdb::BackupID;
using rocksdb::BackupInfo;
using rocksdb::IOStatus;

IOStatus Refused(const char* what, const char* instead) {
  return IOStatus::NotSupported(std::string("Heliox does not support ") + what, instead);
}

IOStatus AsIO(const Status& status) { return rocksdb::status_to_io_status(Status(status)); }

// What the system just refused, as RocksDB tells it.
IOStatus Failed(const char* what, const std::string& path) {
  const std::string doing = std::string("While ") + what + ": " + path;
  return errno == ENOENT ? IOStatus::PathNotFound(doing, std::strerror(errno))
                         : IOStatus::IOError(doing, std::strerror(errno));
}

// Looks at what is to be opened, for either kind of engine.
IOStatus CheckSet(const rocksdb::BackupEngineOptions& options, rocksdb::Env* env) {
  for (rocksdb::Env* const each : {env, options.backup_env}) {
    DBOptions asked;
    if (each != nullptr) asked.env = each;
    Status allowed = CheckDatabaseOptions(asked);
    if (!allowed.ok()) return AsIO(allowed);
  }
  const std::string& dir = options.backup_dir;
  const bool is_foreign = dropin::Exists(dir + "/meta") && dropin::Exists(dir + "/private");
  if (dropin::Exists(dir + "/HELIOX-BACKUP") || !is_foreign) return IOStatus::OK();
  return IOStatus::InvalidArgument(
      dir + " holds backups of RocksDB itself, which Heliox leaves alone",
      "give another directory; what is in the backups comes over by way of RocksDB, which restores "
      "them, and heliox import");
}

// What both kinds of engine do; they differ in their base alone.
template <typename Base>
class Reading : public Base {
 public:
  explicit Reading(std::string set) : set_(std::move(set)) {}

  Status GetBackupInfo(BackupID id, BackupInfo* info, bool) const override {
    for (const BackupEntry& entry : Entries()) {
      if (entry.number != id || entry.is_damaged) continue;
      *info = InfoOf(entry);
      return Status::OK();
    }
    return Status::NotFound("Backup not found");
  }

  Status GetLatestBackupInfo(BackupInfo* info, bool) const override {
    std::vector<BackupInfo> infos;
    GetBackupInfo(&infos, false);
    if (infos.empty()) return Status::NotFound("Backup not found");
    *info = infos.back();
    return Status::OK();
  }

  void GetBackupInfo(std::vector<BackupInfo>* infos, bool) const override {
    infos->clear();
    for (const BackupEntry& entry : Entries()) {
      if (!entry.is_damaged) infos->push_back(InfoOf(entry));
    }
  }

  void GetCorruptedBackups(std::vector<BackupID>* ids) const override {
    ids->clear();
    for (const BackupEntry& entry : Entries()) {
      if (entry.is_damaged) ids->push_back(static_cast<BackupID>(entry.number));
    }
  }

  using Base::RestoreDBFromBackup;
  IOStatus RestoreDBFromBackup(const rocksdb::RestoreOptions& options, BackupID id,
                               const std::string& dir, const std::string&) const override {
    return Has(id) ? Restore(options, id, dir) : IOStatus::NotFound("Backup not found");
  }

  using Base::RestoreDBFromLatestBackup;
  IOStatus RestoreDBFromLatestBackup(const rocksdb::RestoreOptions& options,
                                     const std::string& dir, const std::string&) const override {
    BackupInfo latest;
    const Status found = GetLatestBackupInfo(&latest, false);
    return found.ok() ? Restore(options, latest.backup_id, dir) : AsIO(found);
  }

  IOStatus VerifyBackup(BackupID id, bool) const override {
    return Has(id) ? AsIO(VerifyBackups(set_, id)) : IOStatus::NotFound();
  }

 protected:
  std::vector<BackupEntry> Entries() const {
    std::vector<BackupEntry> entries;
    // A set that cannot be read has none.
    if (!ListBackups(set_, &entries).ok()) entries.clear();
    return entries;
  }

  static BackupInfo InfoOf(const BackupEntry& entry) {
    return BackupInfo(static_cast<BackupID>(entry.number),
                      static_cast<int64_t>(entry.created_ms / 1000), entry.bytes,
                      static_cast<uint32_t>(entry.segments), "");
  }

  bool Has(BackupID id) const {
    for (const BackupEntry& entry : Entries()) {
      if (entry.number == id) return true;
    }
    return false;
  }

  IOStatus Restore(const rocksdb::RestoreOptions& options, BackupID id,
                   const std::string& given) const {
    if (options.keep_log_files) {
      return Refused("keep_log_files", "there are no log files that go on after a backup");
    }
    const std::string dir = given.substr(0, given.find_last_not_of('/') + 1);
    if (dir.empty()) return IOStatus::InvalidArgument("no directory for a database: " + given);
    if (::mkdir(dir.c_str(), 0755) != 0 && errno != EEXIST) return Failed("open directory", dir);
    const std::string fresh = dir + ".restoring";
    const IOStatus restored = RestoreBeside(id, fresh, dir);
    if (restored.ok()) return restored;
    // What was refused leaves nothing behind.
    DestroyStore(fresh).PermitUncheckedError();
    (void)::rmdir(fresh.c_str());
    return restored;
  }

  // Beside the place first, so that what is there goes only when the other is whole.
  IOStatus RestoreBeside(BackupID id, const std::string& fresh, const std::string& dir) const {
    Status done = DestroyStore(fresh);
    if (done.ok()) done = RestoreBackup(set_, id, fresh);
    if (done.ok()) done = DestroyStore(dir);
    if (!done.ok()) return AsIO(done);
    (void)::mkdir(dir.c_str(), 0755);
    for (const char* file : {"/data", "/HELIOX"}) {
      if (::rename((fresh + file).c_str(), (dir + file).c_str()) != 0) {
        return Failed("renaming", fresh + file);
      }
    }
    (void)::rmdir(fresh.c_str());
    return IOStatus::OK();
  }

  const std::string set_;
};

class ReadOnlyEngine final : public Reading<rocksdb::BackupEngineReadOnly> {
 public:
  using Reading::Reading;
};

class WholeEngine final : public Reading<rocksdb::BackupEngine> {
 public:
  using Reading::Reading;

  IOStatus CreateNewBackupWithMetadata(const rocksdb::CreateBackupOptions& options,
                                       rocksdb::DB* db, const std::string& metadata,
                                       BackupID* id) override {
    if (!metadata.empty()) return Refused("metadata of backups", "keep it beside the set");
    auto* const database = static_cast<Database*>(db->GetRootDB());
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_.load()) return Stopped();
    Status made = database->catalog().Settle();
    uint64_t number = 0;
    if (made.ok()) made = database->store().Backup(set_, &number);
    // One that was under way comes to its end, and goes.
    if (made.ok() && stopped_.load()) {
      made = RemoveBackup(set_, number);
      return made.ok() ? Stopped() : AsIO(made);
    }
    if (made.ok() && id != nullptr) *id = static_cast<BackupID>(number);
    if (made.ok() && options.progress_callback) options.progress_callback();
    return AsIO(made);
  }

  void StopBackup() override { stopped_.store(true); }
  IOStatus GarbageCollect() override { return IOStatus::OK(); }

  IOStatus PurgeOldBackups(uint32_t keep) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<BackupEntry> old = Entries();
    old.resize(old.size() > keep ? old.size() - keep : 0);
    Status deleted;
    for (const BackupEntry& entry : old) {
      if (deleted.ok()) deleted = RemoveBackup(set_, entry.number);
    }
    return AsIO(deleted);
  }

  IOStatus DeleteBackup(BackupID id) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const BackupEntry& entry : Entries()) {
      if (entry.number == id) return AsIO(RemoveBackup(set_, entry.number));
    }
    return IOStatus::NotFound("Backup not found");
  }

 private:
  static IOStatus Stopped() { return AsIO(Status::Incomplete("Backup stopped")); }

  std::mutex mutex_;
  // For good, as with RocksDB.
  std::atomic<bool> stopped_{false};
};

// Whether a set can be read there: also a directory that is empty, which is how a set begins.
bool IsReadable(const std::string& dir) {
  if (dropin::Exists(dir + "/HELIOX-BACKUP")) return true;
  std::error_code error;
  return std::filesystem::is_directory(dir, error) && std::filesystem::is_empty(dir, error);
}

}  // namespace

}  // namespace herocks

namespace rocksdb {

HEROCKS_EXPORTED IOStatus BackupEngine::Open(const BackupEngineOptions& options, Env* env,
                                             BackupEngine** engine) {
  *engine = nullptr;
  const IOStatus allowed = herocks::CheckSet(options, env);
  if (!allowed.ok()) return allowed;
  if (::mkdir(options.backup_dir.c_str(), 0755) != 0 && errno != EEXIST) {
    return herocks::Failed("mkdir if missing", options.backup_dir + "/");
  }
  auto made = std::make_unique<herocks::WholeEngine>(options.backup_dir);
  if (options.destroy_old_data) {
    const IOStatus purged = made->PurgeOldBackups(0);
    if (!purged.ok()) return purged;
  }
  *engine = made.release();
  return IOStatus::OK();
}

HEROCKS_EXPORTED IOStatus BackupEngineReadOnly::Open(const BackupEngineOptions& options, Env* env,
                                                     BackupEngineReadOnly** engine) {
  *engine = nullptr;
  if (options.destroy_old_data) {
    return IOStatus::InvalidArgument("Can't destroy old data with ReadOnly BackupEngine");
  }
  const IOStatus allowed = herocks::CheckSet(options, env);
  if (!allowed.ok()) return allowed;
  if (!herocks::IsReadable(options.backup_dir)) {
    return IOStatus::NotFound(options.backup_dir + "/meta is missing");
  }
  *engine = new herocks::ReadOnlyEngine(options.backup_dir);
  return IOStatus::OK();
}

}  // namespace rocksdb
