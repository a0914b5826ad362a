// Tries every function that docs/herocks.md names, and says which are done and which are refused.
//
//   truth DIR
//
// Prints "supported NAME" or "refused NAME" for each, as surface.cc does for others; scripts/herocks-test
// holds that against the document, so that neither can say what the other does not. A function counts as supported only if it also gives
// what it should. Ends with 1 if something neither works nor is refused.
#include <rocksdb/cache.h>
#include <rocksdb/comparator.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/experimental.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/statistics.h>
#include <rocksdb/stats_history.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/utilities/db_ttl.h>
#include <rocksdb/utilities/debug.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/utilities/write_batch_with_index.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "try.h"

namespace {

using namespace rocksdb;

std::string dir;
DB* db = nullptr;

class Backward : public Comparator {
 public:
  explicit Backward(size_t timestamp_bytes) : Comparator(timestamp_bytes) {}
  int Compare(const Slice& a, const Slice& b) const override { return b.compare(a); }
  const char* Name() const override { return "test.Backward"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

// What opening a new database with these options says.
Status OpenWith(const std::function<void(Options*)>& change) {
  Options options = BaseOptions();
  change(&options);
  DB* opened = nullptr;
  Status status = DB::Open(options, dir + "/options", &opened);
  if (!status.ok()) return status;
  delete opened;
  return DestroyDB(dir + "/options", options);
}

std::string Value(const std::string& key, const ReadOptions& options = ReadOptions()) {
  std::string value;
  const Status got = db->Get(options, key, &value);
  return got.ok() ? value : "(" + got.ToString() + ")";
}

void TryWrites() {
  const WriteOptions options;
  Try("Put", [&] { return db->Put(options, "a", "1"); });
  Try("Get", [&] { return Expect(Value("a") == "1", "Get"); });
  Try("Delete", [&] { return db->Delete(options, "a"); });
  Try("SingleDelete", [&] { return db->SingleDelete(options, "a"); });
  Try("Merge", [&] {
    for (const char* operand : {"x", "y", "z"}) {
      const Status merged = db->Merge(options, "m", operand);
      if (!merged.ok()) return merged;
    }
    return Expect(Value("m") == "xyz", "Merge");
  });
  Try("Write", [&] {
    WriteBatch batch;
    Status added = batch.Put("b", "2");
    if (added.ok()) added = batch.DeleteRange("b", "c");
    if (added.ok()) added = batch.Put("b", "3");
    if (added.ok()) added = batch.Merge("b", "4");
    if (added.ok()) added = db->Write(options, &batch);
    return added.ok() ? Expect(Value("b") == "34", "Write") : added;
  });
  Try("DeleteRange", [&] { return db->DeleteRange(options, db->DefaultColumnFamily(), "x", "y"); });
  Try("PutEntity", [&] {
    return db->PutEntity(options, db->DefaultColumnFamily(), "e", WideColumns{{"c", "v"}});
  });
  Try("WriteOptions::sync", [&] {
    WriteOptions synced;
    synced.sync = true;
    return db->Put(synced, "s", "1");
  });
  Try("WriteOptions::disableWAL", [&] {
    WriteOptions weak;
    weak.disableWAL = true;
    return db->Put(weak, "w", "1");
  });
}

void TryReads() {
  Try("MultiGet", [&] {
    std::vector<std::string> values;
    const auto statuses = db->MultiGet(ReadOptions(), {"b", "none"}, &values);
    return Expect(statuses[0].ok() && statuses[1].IsNotFound() && values[0] == "34", "MultiGet");
  });
  Try("KeyMayExist", [&] {
    std::string value;
    return Expect(db->KeyMayExist(ReadOptions(), "b", &value) &&
                      !db->KeyMayExist(ReadOptions(), "none", &value),
                  "KeyMayExist");
  });
  Try("GetMergeOperands", [&] {
    PinnableSlice operands[4];
    GetMergeOperandsOptions wanted;
    wanted.expected_max_number_of_operands = 4;
    int count = 0;
    const Status got = db->GetMergeOperands(ReadOptions(), db->DefaultColumnFamily(), "m",
                                            operands, &wanted, &count);
    return got.ok() ? Expect(count == 3 && operands[2] == "z", "GetMergeOperands") : got;
  });
  Try("GetEntity", [&] {
    PinnableWideColumns columns;
    const Status got = db->GetEntity(ReadOptions(), db->DefaultColumnFamily(), "b", &columns);
    return got.ok() ? Expect(columns.columns().at(0).value() == "34", "GetEntity") : got;
  });
  Try("NewIterator", [&] {
    const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
    iterator->SeekToLast();
    iterator->Prev();
    iterator->SeekForPrev("bb");
    return Expect(iterator->Valid() && iterator->key() == "b", "NewIterator");
  });
  Try("NewIterators", [&] {
    std::vector<Iterator*> made;
    const Status status = db->NewIterators(ReadOptions(), {db->DefaultColumnFamily()}, &made);
    for (Iterator* iterator : made) delete iterator;
    return status;
  });
  Try("GetSnapshot", [&] {
    ReadOptions options;
    options.snapshot = db->GetSnapshot();
    const Status put = db->Put(WriteOptions(), "b", "changed");
    const bool old = Value("b", options) == "34";
    db->ReleaseSnapshot(options.snapshot);
    return put.ok() ? Expect(old && Value("b") == "changed", "GetSnapshot") : put;
  });
  Try("ReadOptions::tailing", [&] {
    ReadOptions options;
    options.tailing = true;
    const std::unique_ptr<Iterator> iterator(db->NewIterator(options));
    const Status put = db->Put(WriteOptions(), "tail", "1");
    iterator->Seek("tail");
    Status status = put.ok() ? Expect(iterator->Valid(), "tailing") : put;
    iterator->SeekToLast();
    // Beyond what it saw when it was placed.
    if (status.ok()) status = db->Put(WriteOptions(), "z", "1");
    iterator->Next();
    if (status.ok()) status = Expect(iterator->Valid() && iterator->key() == "z", "tailing on");
    iterator->Next();
    if (status.ok()) status = Expect(!iterator->Valid() && iterator->status().ok(), "tailing end");
    return status.ok() ? db->Delete(WriteOptions(), "z") : status;
  });
  Try("ReadOptions::read_tier = kMemtableTier", [&] {
    ReadOptions options;
    options.read_tier = kMemtableTier;
    std::string value;
    return db->Get(options, "b", &value);
  });
}

void TryFamilies() {
  ColumnFamilyHandle* made = nullptr;
  Try("CreateColumnFamily",
      [&] { return db->CreateColumnFamily(ColumnFamilyOptions(), "more", &made); });
  Try("ListColumnFamilies", [&] {
    std::vector<std::string> names;
    const Status listed = DB::ListColumnFamilies(DBOptions(), dir + "/db", &names);
    return listed.ok() ? Expect(names.size() == 2, "ListColumnFamilies") : listed;
  });
  Try("DropColumnFamily", [&] { return db->DropColumnFamily(made); });
  Try("DestroyColumnFamilyHandle", [&] { return db->DestroyColumnFamilyHandle(made); });
  Try("CreateColumnFamilyWithImport", [&] {
    ColumnFamilyHandle* handle = nullptr;
    return db->CreateColumnFamilyWithImport(ColumnFamilyOptions(), "imported",
                                            ImportColumnFamilyOptions(),
                                            ExportImportFilesMetaData(), &handle);
  });
}

void TryAdministration() {
  Try("Flush", [&] { return db->Flush(FlushOptions()); });
  Try("SyncWAL", [&] { return db->SyncWAL(); });
  Try("FlushWAL", [&] { return db->FlushWAL(false); });
  Try("LockWAL", [&] { return db->LockWAL(); });
  Try("UnlockWAL", [&] {
    const Status unlocked = db->UnlockWAL();
    return unlocked.ok() ? db->Put(WriteOptions(), "w", "1") : unlocked;
  });
  Try("CompactRange", [&] { return db->CompactRange(CompactRangeOptions(), nullptr, nullptr); });
  Try("SetOptions", [&] { return db->SetOptions({{"write_buffer_size", "1000000"}}); });
  Try("SetDBOptions", [&] { return db->SetDBOptions({{"max_background_jobs", "3"}}); });
  Try("VerifyChecksum", [&] { return db->VerifyChecksum(); });
  Try("GetProperty", [&] {
    std::string text;
    uint64_t keys = 0;
    return Expect(db->GetProperty("rocksdb.stats", &text) && !text.empty() &&
                      db->GetIntProperty("rocksdb.estimate-num-keys", &keys) && keys == 5,
                  "GetProperty");
  });
  Try("GetApproximateSizes", [&] {
    const Range range("a", "z");
    uint64_t size = 0;
    const Status asked = db->GetApproximateSizes(&range, 1, &size);
    return asked.ok() ? Expect(size > 0, "GetApproximateSizes") : asked;
  });
  Try("GetLatestSequenceNumber",
      [&] { return Expect(db->GetLatestSequenceNumber() > 5, "GetLatestSequenceNumber"); });
  Try("GetDbIdentity", [&] {
    std::string identity;
    return db->GetDbIdentity(identity);
  });
  Try("Statistics", [&] {
    const auto statistics = db->GetDBOptions().statistics;
    HistogramData writes;
    statistics->histogramData(DB_WRITE, &writes);
    return Expect(statistics->getTickerCount(NUMBER_KEYS_WRITTEN) > 5 && writes.count > 5,
                  "Statistics");
  });
}

void TryFiles() {
  ColumnFamilyHandle* const family = db->DefaultColumnFamily();
  Try("CompactFiles", [&] { return db->CompactFiles(CompactionOptions(), family, {"1.sst"}, 1); });
  Try("DeleteFile", [&] { return db->DeleteFile("1.sst"); });
  Try("GetUpdatesSince", [&] {
    std::unique_ptr<TransactionLogIterator> updates;
    return db->GetUpdatesSince(0, &updates);
  });
  Try("GetLiveFiles", [&] {
    std::vector<std::string> files;
    uint64_t size = 0;
    return db->GetLiveFiles(files, &size);
  });
  Try("GetLiveFilesStorageInfo", [&] {
    std::vector<LiveFileStorageInfo> files;
    return db->GetLiveFilesStorageInfo(LiveFilesStorageInfoOptions(), &files);
  });
  Try("GetSortedWalFiles", [&] {
    VectorLogPtr files;
    return db->GetSortedWalFiles(files);
  });
  Try("GetCurrentWalFile", [&] {
    std::unique_ptr<LogFile> file;
    return db->GetCurrentWalFile(&file);
  });
  Try("IngestExternalFile", [&] {
    SstFileWriter writer(EnvOptions(), BaseOptions());
    Status status = writer.Open(dir + "/1.sst");
    if (status.ok()) status = writer.Put("ingested", "1");
    if (status.ok()) status = writer.Put("ingested too", "2");
    if (status.ok()) status = writer.Finish();
    if (status.ok()) status = db->IngestExternalFile({dir + "/1.sst"}, IngestExternalFileOptions());
    return status.ok() ? Expect(Value("ingested too") == "2", "IngestExternalFile") : status;
  });
  Try("IngestExternalFiles", [&] {
    SstFileWriter writer(EnvOptions(), BaseOptions());
    Status status = writer.Open(dir + "/4.sst");
    if (status.ok()) status = writer.Put("ingested three", "3");
    if (status.ok()) status = writer.Finish();
    IngestExternalFileArg file;
    file.column_family = family;
    file.external_files = {dir + "/4.sst"};
    if (status.ok()) status = db->IngestExternalFiles({file});
    return status.ok() ? Expect(Value("ingested three") == "3", "IngestExternalFiles") : status;
  });
  Try("GetStatsHistory", [&] {
    std::unique_ptr<StatsHistoryIterator> history;
    return db->GetStatsHistory(0, 1, &history);
  });
  Try("StartTrace", [&] { return db->StartTrace(TraceOptions(), nullptr); });
}

// Two backups; the first is restored over a later state.
Status BackUp() {
  BackupEngine* engine = nullptr;
  Status done = BackupEngine::Open(Env::Default(), BackupEngineOptions(dir + "/backup"), &engine);
  if (!done.ok()) return done;
  const std::unique_ptr<BackupEngine> owner(engine);
  BackupID id = 0;
  done = engine->CreateNewBackup(CreateBackupOptions(), db, &id);
  if (done.ok()) done = db->Put(WriteOptions(), "m", "later");
  if (done.ok()) done = engine->CreateNewBackup(db);
  if (done.ok()) done = engine->VerifyBackup(id);
  if (done.ok()) done = engine->RestoreDBFromLatestBackup(dir + "/restored", dir + "/restored");
  if (done.ok()) done = engine->RestoreDBFromBackup(id, dir + "/restored", dir + "/restored");
  if (done.ok()) done = db->Put(WriteOptions(), "m", "xyz");
  std::vector<BackupInfo> infos;
  engine->GetBackupInfo(&infos);
  if (done.ok()) done = engine->PurgeOldBackups(1);
  if (done.ok()) done = Expect(infos.size() == 2, "two backups");
  if (done.ok()) done = engine->CreateNewBackup(db);
  if (done.ok()) done = engine->DeleteBackup(infos[1].backup_id);
  if (done.ok()) done = engine->VerifyBackup(infos[1].backup_id + 1);
  engine->GetBackupInfo(&infos);
  if (done.ok()) done = Expect(infos.size() == 1, "one backup");
  DB* copy = nullptr;
  if (done.ok()) done = DB::OpenForReadOnly(BaseOptions(), dir + "/restored", &copy);
  if (!done.ok()) return done;
  std::string value;
  done = copy->Get(ReadOptions(), "m", &value);
  delete copy;
  return done.ok() ? Expect(value == "xyz", "BackupEngine") : done;
}

void TryFreeFunctions() {
  ColumnFamilyHandle* const family = db->DefaultColumnFamily();
  Try("CancelAllBackgroundWork", [&] {
    CancelAllBackgroundWork(db, true);
    return db->Put(WriteOptions(), "after", "1");
  });
  Try("DeleteFilesInRange", [&] { return DeleteFilesInRange(db, family, nullptr, nullptr); });
  Try("DeleteFilesInRanges", [&] { return DeleteFilesInRanges(db, family, nullptr, 0); });
  Try("GetAllKeyVersions", [&] {
    std::vector<KeyVersion> versions;
    return GetAllKeyVersions(db, "a", "z", 10, &versions);
  });
  Try("Checkpoint", [&] {
    Checkpoint* checkpoint = nullptr;
    Status made = Checkpoint::Create(db, &checkpoint);
    if (!made.ok()) return made;
    const std::unique_ptr<Checkpoint> owner(checkpoint);
    made = checkpoint->CreateCheckpoint(dir + "/checkpoint");
    DB* copy = nullptr;
    if (made.ok()) made = DB::OpenForReadOnly(BaseOptions(), dir + "/checkpoint", &copy);
    if (!made.ok()) return made;
    std::string value;
    made = copy->Get(ReadOptions(), "m", &value);
    delete copy;
    return made.ok() ? Expect(value == "xyz", "Checkpoint") : made;
  });
  Try("Checkpoint::ExportColumnFamily", [&] {
    Checkpoint* checkpoint = nullptr;
    const Status made = Checkpoint::Create(db, &checkpoint);
    if (!made.ok()) return made;
    const std::unique_ptr<Checkpoint> owner(checkpoint);
    ExportImportFilesMetaData* metadata = nullptr;
    return checkpoint->ExportColumnFamily(family, dir + "/exported", &metadata);
  });
  Try("BackupEngine", [&]() -> Status { return BackUp(); });
  Try("BackupEngine, metadata", [&]() -> Status {
    BackupEngine* engine = nullptr;
    const Status opened =
        BackupEngine::Open(Env::Default(), BackupEngineOptions(dir + "/backup"), &engine);
    if (!opened.ok()) return opened;
    const std::unique_ptr<BackupEngine> owner(engine);
    return engine->CreateNewBackupWithMetadata(db, "words");
  });
  Try("BackupEngineOptions::backup_env, any other", [&]() -> Status {
    const std::unique_ptr<Env> memory(NewMemEnv(Env::Default()));
    BackupEngineOptions elsewhere(dir + "/elsewhere");
    elsewhere.backup_env = memory.get();
    BackupEngine* engine = nullptr;
    const Status opened = BackupEngine::Open(Env::Default(), elsewhere, &engine);
    delete engine;
    return opened;
  });
  Try("RestoreOptions::keep_log_files", [&]() -> Status {
    BackupEngine* engine = nullptr;
    const Status opened =
        BackupEngine::Open(Env::Default(), BackupEngineOptions(dir + "/backup"), &engine);
    if (!opened.ok()) return opened;
    const std::unique_ptr<BackupEngine> owner(engine);
    return engine->RestoreDBFromLatestBackup(RestoreOptions(true), dir + "/kept", dir + "/kept");
  });
}

void TryIndexedBatches() {
  ColumnFamilyHandle* const family = db->DefaultColumnFamily();
  Try("WriteBatchWithIndex", [&] {
    WriteBatchWithIndex batch;
    std::string value;
    Status status = batch.Put("wbwi", "1");
    if (status.ok()) status = batch.GetFromBatchAndDB(db, ReadOptions(), "wbwi", &value);
    const std::unique_ptr<Iterator> both(batch.NewIteratorWithBase(db->NewIterator(ReadOptions())));
    both->Seek("wbwi");
    if (status.ok()) status = Expect(both->Valid() && value == "1", "WriteBatchWithIndex");
    const Slice keys[2] = {"b", "wbwi"};
    PinnableSlice values[2];
    Status statuses[2];
    batch.MultiGetFromBatchAndDB(db, ReadOptions(), family, 2, keys, values, statuses, false);
    if (status.ok()) status = Expect(statuses[0].ok() && values[1] == "1", "MultiGetFromBatch");
    return status.ok() ? db->Write(WriteOptions(), batch.GetWriteBatch()) : status;
  });
  Try("WriteBatchWithIndex::Merge", [&] {
    WriteBatchWithIndex batch;
    const Status merged = batch.Merge(family, "wbwi", "2");
    if (!merged.ok()) return merged;
    const Status written = db->Write(WriteOptions(), batch.GetWriteBatch());
    return written.ok() ? Expect(Value("wbwi") == "12", "WriteBatchWithIndex::Merge") : written;
  });
}

void TryOpenings() {
  const Options options = BaseOptions();
  const std::string place = dir + "/other";
  const std::vector<ColumnFamilyDescriptor> families = {
      {kDefaultColumnFamilyName, ColumnFamilyOptions(options)}};
  std::vector<ColumnFamilyHandle*> handles;
  DB* opened = nullptr;
  Try("OpenAsSecondary", [&] { return DB::OpenAsSecondary(options, place, place + "2", &opened); });
  Try("OpenAndTrimHistory", [&] {
    return DB::OpenAndTrimHistory(options, place, families, &handles, &opened, "");
  });
  Try("OpenAndCompact", [&] {
    std::string output;
    return DB::OpenAndCompact(place, place + "2", "", &output, CompactionServiceOptionsOverride());
  });
  Try("RepairDB", [&] { return RepairDB(place, options); });
  Try("TransactionDB", [&] {
    TransactionDB* transactions = nullptr;
    return TransactionDB::Open(options, TransactionDBOptions(), place, &transactions);
  });
  Try("OptimisticTransactionDB", [&] {
    OptimisticTransactionDB* transactions = nullptr;
    return OptimisticTransactionDB::Open(options, place, &transactions);
  });
  Try("DBWithTTL", [&] {
    DBWithTTL* timed = nullptr;
    Status status = DBWithTTL::Open(options, place + "-timed", &timed, 1);
    if (!status.ok()) return status;
    status = timed->Put(WriteOptions(), "k", "v");
    std::string value;
    if (status.ok()) status = timed->Get(ReadOptions(), "k", &value);
    if (status.ok()) status = Expect(value == "v", "DBWithTTL");
    ::sleep(3);
    if (status.ok()) status = timed->CompactRange(CompactRangeOptions(), nullptr, nullptr);
    if (status.ok()) status = Expect(timed->Get(ReadOptions(), "k", &value).IsNotFound(), "TTL");
    delete timed;
    return status;
  });
  Try("UpdateManifestForFilesState", [&] {
    return experimental::UpdateManifestForFilesState(options, place, families);
  });
}

// CompactRange asks the filter about all that is in the range.
Status Filter() {
  static Sorter sorter;
  Options options = BaseOptions();
  options.compaction_filter = &sorter;
  const std::string place = dir + "/filtered";
  DB* opened = nullptr;
  Status status = DB::Open(options, place, &opened);
  for (const char* key : {"change", "new", "old", "older", "z"}) {
    if (status.ok()) status = opened->Put(WriteOptions(), key, "as it was");
  }
  const Slice end("old");
  if (status.ok()) status = opened->CompactRange(CompactRangeOptions(), nullptr, &end);
  std::string told;
  if (status.ok()) {
    const std::unique_ptr<Iterator> iterator(opened->NewIterator(ReadOptions()));
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      told += iterator->key().ToString() + "=" + iterator->value().ToString() + ";";
    }
  }
  delete opened;
  return status.ok() ? Expect(told == "change=changed;new=as it was;older=as it was;z=as it was;",
                              told.c_str())
                     : status;
}

void TryOptions() {
  static Backward backward(0);
  static Backward stamped(8);
  const std::unique_ptr<Env> memory(NewMemEnv(Env::Default()));
  Try("Options::comparator = BytewiseComparator",
      [&] { return OpenWith([](Options* o) { o->comparator = BytewiseComparator(); }); });
  Try("Options::comparator = ReverseBytewiseComparator",
      [&] { return OpenWith([](Options* o) { o->comparator = ReverseBytewiseComparator(); }); });
  Try("Options::comparator, any other",
      [&] { return OpenWith([](Options* o) { o->comparator = &backward; }); });
  Try("Options::compaction_filter", [&] { return Filter(); });
  Try("Options::compaction_style = kCompactionStyleFIFO",
      [&] { return OpenWith([](Options* o) { o->compaction_style = kCompactionStyleFIFO; }); });
  Try("Options::compaction_style = kCompactionStyleUniversal", [&] {
    return OpenWith([](Options* o) { o->compaction_style = kCompactionStyleUniversal; });
  });
  Try("Options::env, any other", [&] { return OpenWith([&](Options* o) { o->env = memory.get(); }); });
  Try("user-defined timestamps", [&] {
    return OpenWith([](Options* o) { o->comparator = &stamped; });
  });
}

// A store of RocksDB's own is told from one of ours, and left alone.
Status ForeignStore() {
  const std::string place = dir + "/foreign";
  ::mkdir(place.c_str(), 0755);
  std::ofstream(place + "/CURRENT") << "MANIFEST-000005\n";
  std::ofstream(place + "/OPTIONS-000007") << "RocksDB writes it";
  DB* opened = nullptr;
  const Status open = DB::Open(BaseOptions(), place, &opened);
  const Status destroy = DestroyDB(place, BaseOptions());
  struct stat found = {};
  const bool is_there = ::stat((place + "/CURRENT").c_str(), &found) == 0;
  const bool says_how = open.ToString().find("heliox import DIR --from rocksdb") != std::string::npos;
  return Expect(open.IsInvalidArgument() && says_how && !destroy.ok() && is_there, "foreign store");
}

// A database that is open is told as one, in RocksDB's words.
Status InUse() {
  DB* first = nullptr;
  DB* second = nullptr;
  Status status = DB::Open(BaseOptions(), dir + "/in use", &first);
  if (!status.ok()) return status;
  for (const Status& refused : {DB::Open(BaseOptions(), dir + "/in use", &second),
                                DestroyDB(dir + "/in use", BaseOptions())}) {
    if (status.ok()) {
      status = Expect(refused.IsIOError() &&
                          refused.ToString().find("/in use/LOCK:") != std::string::npos,
                      refused.ToString().c_str());
    }
  }
  delete first;
  return status;
}

// What the environment says is checked, and told by its name.
Status Environment() {
  for (const char* variable : {"HELIOX_MEMORY", "HELIOX_CAPACITY", "HELIOX_DURABILITY"}) {
    const char* const before = ::getenv(variable);
    const std::string kept = before == nullptr ? "" : before;
    ::setenv(variable, "12x", 1);
    const Status status = OpenWith([](Options*) {});
    ::setenv(variable, kept.c_str(), 1);
    const bool is_named = status.ToString().find(variable) != std::string::npos;
    if (!status.IsInvalidArgument() || !is_named) return Expect(false, variable);
  }
  return Status::OK();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  dir = argv[1];
  Options options = BaseOptions();
  options.statistics = CreateDBStatistics();
  options.statistics->set_stats_level(StatsLevel::kAll);
  Try("Open", [&] { return DB::Open(options, dir + "/db", &db); });
  if (db == nullptr) return 1;
  TryWrites();
  TryReads();
  TryFamilies();
  TryAdministration();
  TryFiles();
  TryFreeFunctions();
  TryIndexedBatches();
  TryOpenings();
  TryOptions();
  Try("Close", [&] { return db->Close(); });
  delete db;
  Try("OpenForReadOnly", [&] {
    const Status opened = DB::OpenForReadOnly(options, dir + "/db", &db);
    if (!opened.ok()) return opened;
    const bool refused = db->Put(WriteOptions(), "a", "b").IsNotSupported();
    const bool kept = Value("m") == "xyz";
    delete db;
    return Expect(refused && kept, "OpenForReadOnly");
  });
  Try("DestroyDB", [&] { return DestroyDB(dir + "/db", options); });
  for (const Status& status : {ForeignStore(), InUse(), Environment()}) {
    if (status.ok()) continue;
    std::printf("FAILED %s\n", status.ToString().c_str());
    failures++;
  }
  return failures > 0 ? 1 : 0;
}
