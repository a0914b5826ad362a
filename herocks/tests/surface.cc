// Tries what a database, a column family, an iterator and a snapshot can be asked besides their data, and
// what listeners are told; says which functions are done and which are refused, as truth.cc does.
//
//   surface DIR
#include <rocksdb/comparator.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/experimental.h>
#include <rocksdb/file_checksum.h>
#include <rocksdb/listener.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/stats_history.h>
#include <rocksdb/trace_reader_writer.h>
#include <rocksdb/utilities/options_util.h>
#include <rocksdb/utilities/replayer.h>
#include <rocksdb/wide_columns.h>
#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "try.h"

namespace {

using namespace rocksdb;

// Counts what it is told, by name; also what HeRocks never tells.
class Counting : public EventListener {
 public:
  void OnFlushBegin(DB*, const FlushJobInfo&) override { Count("OnFlushBegin"); }
  void OnFlushCompleted(DB*, const FlushJobInfo&) override { Count("OnFlushCompleted"); }
  void OnCompactionBegin(DB*, const CompactionJobInfo&) override { Count("OnCompactionBegin"); }
  void OnCompactionCompleted(DB*, const CompactionJobInfo& job) override {
    if (job.status.ok() && job.stats.num_input_records == 4 && job.stats.num_output_records == 3) {
      Count("OnCompactionCompleted");
    }
  }
  void OnExternalFileIngested(DB*, const ExternalFileIngestionInfo&) override {
    Count("OnExternalFileIngested");
  }
  void OnColumnFamilyHandleDeletionStarted(ColumnFamilyHandle*) override {
    Count("OnColumnFamilyHandleDeletionStarted");
  }
  void OnBackgroundError(BackgroundErrorReason, Status* error) override {
    Count(error->IsNoSpace() ? "OnBackgroundError, full" : "OnBackgroundError");
    // Nothing comes of that.
    *error = Status::OK();
  }
  void OnErrorRecoveryBegin(BackgroundErrorReason, Status error, bool*) override {
    if (error.IsNoSpace()) Count("OnErrorRecoveryBegin");
  }
  void OnErrorRecoveryCompleted(Status error) override {
    if (error.IsNoSpace()) Count("OnErrorRecoveryCompleted");
  }
  void OnErrorRecoveryEnd(const BackgroundErrorRecoveryInfo& info) override {
    if (info.old_bg_error.IsNoSpace() && info.new_bg_error.ok()) Count("OnErrorRecoveryEnd");
  }
  void OnStallConditionsChanged(const WriteStallInfo& info) override {
    if (info.cf_name != kDefaultColumnFamilyName) return;
    const bool waits = info.condition.cur == WriteStallCondition::kStopped;
    Count(waits ? "OnStallConditionsChanged" : "OnStallConditionsChanged, ends");
  }
  void OnTableFileDeleted(const TableFileDeletionInfo&) override { Count("OnTableFileDeleted"); }
  void OnTableFileCreated(const TableFileCreationInfo&) override { Count("OnTableFileCreated"); }
  void OnTableFileCreationStarted(const TableFileCreationBriefInfo&) override {
    Count("OnTableFileCreationStarted");
  }
  void OnSubcompactionBegin(const SubcompactionJobInfo&) override { Count("OnSubcompactionBegin"); }
  void OnSubcompactionCompleted(const SubcompactionJobInfo&) override {
    Count("OnSubcompactionCompleted");
  }
  void OnMemTableSealed(const MemTableInfo&) override { Count("OnMemTableSealed"); }
  void OnFileReadFinish(const FileOperationInfo&) override { Count("OnFileReadFinish"); }
  void OnFileWriteFinish(const FileOperationInfo&) override { Count("OnFileWriteFinish"); }
  bool ShouldBeNotifiedOnFileIO() override { return true; }
  void OnIOError(const IOErrorInfo&) override { Count("OnIOError"); }

  int Told(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return counts_[name];
  }
  // Waits until it was told; not for ever.
  Status Wait(const std::string& name) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool was_told = changed_.wait_for(lock, std::chrono::seconds(20),
                                            [&] { return counts_[name] > 0; });
    return was_told ? Status::OK() : Status::Corruption("never told", name);
  }

 private:
  void Count(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    counts_[name]++;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> counts_;
};

std::string dir;
DB* db = nullptr;

Status Fill() {
  Status status;
  for (const char* key : {"b", "m", "s"}) {
    if (status.ok()) status = db->Put(WriteOptions(), key, "xyz");
  }
  if (status.ok()) status = db->SetOptions({{"write_buffer_size", "1000000"}});
  return status.ok() ? db->SetDBOptions({{"max_background_jobs", "3"}}) : status;
}

void TryReads() {
  std::string value;
  Try("ReadOptions::ignore_range_deletions", [&] {
    Status status = db->Put(WriteOptions(), "ranged", "1");
    if (status.ok()) {
      status = db->DeleteRange(WriteOptions(), db->DefaultColumnFamily(), "ranged", "rangee");
    }
    ReadOptions options;
    options.ignore_range_deletions = true;
    return status.ok() ? Expect(db->Get(options, "ranged", &value).IsNotFound(), "gone") : status;
  });
  Try("ReadOptions::read_tier = kBlockCacheTier", [&] {
    ReadOptions options;
    options.read_tier = kBlockCacheTier;
    return db->Get(options, "m", &value);
  });
}

void TryFamilies() {
  std::vector<ColumnFamilyHandle*> several;
  Try("CreateColumnFamilies", [&] {
    const Status created = db->CreateColumnFamilies(ColumnFamilyOptions(), {"one", "two"}, &several);
    return created.ok() ? Expect(several.size() == 2, "CreateColumnFamilies") : created;
  });
  Try("DropColumnFamilies", [&] { return db->DropColumnFamilies(several); });
  for (ColumnFamilyHandle* handle : several) db->DestroyColumnFamilyHandle(handle);
}

void TryFigures() {
  Try("VerifyFileChecksums", [&] {
    return Expect(db->VerifyFileChecksums(ReadOptions()).IsInvalidArgument(), "without a factory");
  });
  Try("ResetStats", [&] { return db->ResetStats(); });
  uint64_t number = 0;
  std::map<std::string, std::string> map;
  Try("GetIntProperty", [&] {
    return Expect(db->GetIntProperty("rocksdb.estimate-num-keys", &number) && number == 3,
                  "GetIntProperty");
  });
  Try("GetAggregatedIntProperty", [&] {
    return Expect(db->GetAggregatedIntProperty("rocksdb.estimate-num-keys", &number) && number == 3,
                  "GetAggregatedIntProperty");
  });
  Try("GetMapProperty", [&] {
    return Expect(db->GetMapProperty("rocksdb.cfstats", &map) && !map.empty(), "GetMapProperty");
  });
}

// What RocksDB does by itself in the background, of which Heliox has little.
void TryBackground() {
  ColumnFamilyHandle* const family = db->DefaultColumnFamily();
  const auto compact = [] { return db->CompactRange(CompactRangeOptions(), nullptr, nullptr); };
  Try("DisableManualCompaction", [&] {
    db->DisableManualCompaction();
    return Expect(compact().IsIncomplete(), "DisableManualCompaction");
  });
  Try("EnableManualCompaction", [&] {
    db->EnableManualCompaction();
    return compact();
  });
  Try("PauseBackgroundWork", [&] { return db->PauseBackgroundWork(); });
  Try("ContinueBackgroundWork", [&] {
    const Status continued = db->ContinueBackgroundWork();
    const bool refuses = db->ContinueBackgroundWork().IsInvalidArgument();
    return continued.ok() ? Expect(refuses, "ContinueBackgroundWork") : continued;
  });
  Try("EnableAutoCompaction", [&] {
    Status status = db->SetOptions({{"disable_auto_compactions", "true"}});
    if (status.ok()) status = db->EnableAutoCompaction({family});
    const bool disabled = db->GetOptions().disable_auto_compactions;
    return status.ok() ? Expect(!disabled, "EnableAutoCompaction") : status;
  });
  Try("SuggestCompactRange", [&] { return db->SuggestCompactRange(family, nullptr, nullptr); });
  uint64_t enabled = 7;
  const auto ask = [&] { db->GetIntProperty(DB::Properties::kIsFileDeletionsEnabled, &enabled); };
  Try("DisableFileDeletions", [&] {
    const Status status = db->DisableFileDeletions();
    ask();
    return status.ok() ? Expect(enabled == 0, "DisableFileDeletions") : status;
  });
  Try("EnableFileDeletions", [&] {
    const Status status = db->EnableFileDeletions();
    ask();
    return status.ok() ? Expect(enabled == 1, "EnableFileDeletions") : status;
  });
  Try("Resume", [&] { return db->Resume(); });
  Try("TryCatchUpWithPrimary", [&] { return db->TryCatchUpWithPrimary(); });
  Try("PromoteL0", [&] { return experimental::PromoteL0(db, family); });
}

// What a database and a family say of themselves.
void TryDescriptions() {
  ColumnFamilyHandle* const family = db->DefaultColumnFamily();
  const auto expect = [](const char* name, bool holds) {
    Try(name, [&] { return Expect(holds, name); });
  };
  expect("DefaultColumnFamily", family != nullptr);
  expect("GetName", db->GetName() == dir + "/db" && family->GetName() == kDefaultColumnFamilyName);
  expect("GetID", family->GetID() == 0);
  expect("GetComparator", family->GetComparator() == BytewiseComparator());
  ColumnFamilyDescriptor descriptor;
  expect("GetDescriptor", family->GetDescriptor(&descriptor).ok() &&
                              descriptor.options.write_buffer_size == 1000000);
  expect("GetOptions", db->GetOptions().write_buffer_size == 1000000);
  expect("GetDBOptions", db->GetDBOptions().max_background_jobs == 3);
  expect("GetEnv", db->GetEnv() == Env::Default());
  expect("GetFileSystem", db->GetFileSystem() != nullptr);
  expect("GetRootDB", db->GetRootDB() == db);
  expect("NumberLevels", db->NumberLevels() == 7);
  expect("Level0StopWriteTrigger", db->Level0StopWriteTrigger() == 36);
  expect("MaxMemCompactionLevel", db->MaxMemCompactionLevel() == 0);
  std::string session;
  expect("GetDbSessionId", db->GetDbSessionId(session).ok() && !session.empty());
  expect("IncreaseFullHistoryTsLow",
         db->IncreaseFullHistoryTsLow(family, "12345678").IsInvalidArgument());
  std::string stamp;
  expect("GetFullHistoryTsLow", db->GetFullHistoryTsLow(family, &stamp).IsInvalidArgument());
  DBOptions options;
  std::vector<ColumnFamilyDescriptor> families;
  Try("LoadLatestOptions", [&] {
    const Status loaded = LoadLatestOptions(ConfigOptions(), dir + "/db", &options, &families);
    return loaded.ok() ? Expect(options.max_background_jobs == 3 && families.size() == 1, "options")
                       : loaded;
  });
  Try("GetLatestOptionsFileName", [&] {
    std::string file;
    const Status got = GetLatestOptionsFileName(dir + "/db", Env::Default(), &file);
    return got.ok() ? Expect(file.rfind("OPTIONS-", 0) == 0, file.c_str()) : got;
  });
}

// There are no files to be told of.
void TryNoFiles() {
  ColumnFamilyHandle* const family = db->DefaultColumnFamily();
  Try("GetLiveFilesMetaData", [&] {
    std::vector<LiveFileMetaData> files(1);
    db->GetLiveFilesMetaData(&files);
    return Expect(files.empty(), "GetLiveFilesMetaData");
  });
  TablePropertiesCollection tables;
  Try("GetPropertiesOfAllTables", [&] {
    tables["x"] = nullptr;
    const Status got = db->GetPropertiesOfAllTables(family, &tables);
    return got.ok() ? Expect(tables.empty(), "GetPropertiesOfAllTables") : got;
  });
  Try("GetPropertiesOfTablesInRange", [&] {
    tables["x"] = nullptr;
    const Range range("a", "z");
    const Status got = db->GetPropertiesOfTablesInRange(family, &range, 1, &tables);
    return got.ok() ? Expect(tables.empty(), "GetPropertiesOfTablesInRange") : got;
  });
  Try("GetColumnFamilyMetaData", [&] {
    ColumnFamilyMetaData metadata;
    db->GetColumnFamilyMetaData(family, &metadata);
    return Expect(metadata.size > 0 && metadata.file_count == 0 && metadata.levels.size() == 7,
                  "GetColumnFamilyMetaData");
  });
  Try("GetAllColumnFamilyMetaData", [&] {
    std::vector<ColumnFamilyMetaData> metadata;
    db->GetAllColumnFamilyMetaData(&metadata);
    return Expect(metadata.size() == 1 && metadata[0].size > 0, "GetAllColumnFamilyMetaData");
  });
  Try("GetApproximateMemTableStats", [&] {
    uint64_t count = 7;
    uint64_t size = 7;
    db->GetApproximateMemTableStats(Range("a", "z"), &count, &size);
    return Expect(count == 0 && size == 0, "GetApproximateMemTableStats");
  });
  Try("GetCreationTimeOfOldestFile", [&] {
    uint64_t time = 0;
    return db->GetCreationTimeOfOldestFile(&time);
  });
  Try("GetLiveFilesChecksumInfo", [&] {
    const std::unique_ptr<FileChecksumList> list(NewFileChecksumList());
    return db->GetLiveFilesChecksumInfo(list.get());
  });
  Try("EndTrace", [&] { return db->EndTrace(); });
  Try("StartIOTrace", [&] { return db->StartIOTrace(TraceOptions(), nullptr); });
  Try("EndIOTrace", [&] { return db->EndIOTrace(); });
  Try("StartBlockCacheTrace", [&] {
    const Status other = db->StartBlockCacheTrace(
        BlockCacheTraceOptions(), std::unique_ptr<BlockCacheTraceWriter>());
    return other.IsNotSupported()
               ? db->StartBlockCacheTrace(TraceOptions(), std::unique_ptr<TraceWriter>())
               : other;
  });
  Try("EndBlockCacheTrace", [&] { return db->EndBlockCacheTrace(); });
  Try("NewDefaultReplayer", [&] {
    std::unique_ptr<Replayer> replayer;
    return db->NewDefaultReplayer({family}, nullptr, &replayer);
  });
}

// All that an iterator and a snapshot can be asked.
void TryIterators() {
  const auto expect = [](const char* name, bool holds) {
    Try(name, [&] { return Expect(holds, name); });
  };
  const std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  expect("Iterator::Valid", !it->Valid());
  it->SeekToFirst();
  const std::string first = it->Valid() ? it->key().ToString() : "";
  expect("Iterator::SeekToFirst", !first.empty());
  it->Next();
  expect("Iterator::Next", it->Valid() && it->key().compare(first) > 0);
  it->Prev();
  expect("Iterator::Prev", it->Valid() && it->key() == first);
  it->Seek("m");
  expect("Iterator::Seek", it->Valid() && it->key() == "m");
  it->SeekForPrev("mm");
  expect("Iterator::SeekForPrev", it->Valid() && it->key() == "m");
  expect("Iterator::key", it->key() == "m");
  expect("Iterator::value", it->value() == "xyz");
  expect("Iterator::columns", it->columns().size() == 1 && it->columns()[0].value() == "xyz");
  expect("Iterator::timestamp", it->timestamp().empty());
  std::string property;
  expect("Iterator::GetProperty",
         it->GetProperty("rocksdb.iterator.is-key-pinned", &property).ok() && !property.empty());
  it->SeekToLast();
  it->Next();
  expect("Iterator::SeekToLast", !it->Valid());
  expect("Iterator::status", it->status().ok());
  Try("Iterator::Refresh", [&] {
    Status status = db->Put(WriteOptions(), "refreshed", "1");
    if (status.ok()) status = it->Refresh();
    it->Seek("refreshed");
    return status.ok() ? Expect(it->Valid() && it->key() == "refreshed", "Refresh") : status;
  });
  const Snapshot* const snapshot = db->GetSnapshot();
  expect("Snapshot::GetSequenceNumber", snapshot->GetSequenceNumber() == db->GetLatestSequenceNumber());
  expect("Snapshot::GetUnixTime", snapshot->GetUnixTime() > 0);
  expect("Snapshot::GetTimestamp", snapshot->GetTimestamp() == UINT64_MAX);
  db->ReleaseSnapshot(snapshot);
  uint64_t snapshots = 7;
  expect("ReleaseSnapshot", db->GetIntProperty("rocksdb.num-snapshots", &snapshots) && snapshots == 0);
}

using Listened = std::shared_ptr<Counting>;

// Opens a database with that listener, does what is asked, and closes it.
Status WithListener(const Listened& listener, const std::string& place,
                    const std::function<Status(DB*)>& what) {
  static Sorter sorter;
  Options options = BaseOptions();
  options.compaction_filter = &sorter;
  options.listeners.push_back(listener);
  DB* opened = nullptr;
  Status status = DB::Open(options, dir + place, &opened);
  if (!status.ok()) return status;
  status = what(opened);
  delete opened;
  return status;
}

// One of each that a program asks for.
Status Work(DB* opened) {
  Status status;
  for (const char* key : {"change", "old"}) {
    if (status.ok()) status = opened->Put(WriteOptions(), key, "1");
  }
  if (status.ok()) status = opened->Flush(FlushOptions());
  SstFileWriter writer{EnvOptions(), BaseOptions()};
  if (status.ok()) status = writer.Open(dir + "/3.sst");
  if (status.ok()) status = writer.Put("ingested", "1");
  if (status.ok()) status = writer.Put("ingested too", "2");
  if (status.ok()) status = writer.Finish();
  if (status.ok()) status = opened->IngestExternalFile({dir + "/3.sst"}, IngestExternalFileOptions());
  if (status.ok()) status = opened->CompactRange(CompactRangeOptions(), nullptr, nullptr);
  return status;
}

// Writes more than there is room for, for which it first waits, and takes it away again.
Status FillAndEmpty(DB* opened, Counting* listener) {
  const std::string value(1 << 20, 'v');
  Status status;
  for (int n = 0; n < 1000 && status.ok(); n++) {
    status = opened->Put(WriteOptions(), "k" + std::to_string(n), value);
  }
  if (!status.IsNoSpace()) return Status::Corruption("not full", status.ToString());
  status = listener->Wait("OnErrorRecoveryBegin");
  if (!status.ok()) return status;
  status = opened->DeleteRange(WriteOptions(), opened->DefaultColumnFamily(), "k", "l");
  for (const char* name : {"OnErrorRecoveryEnd", "OnStallConditionsChanged, ends"}) {
    if (status.ok()) status = listener->Wait(name);
  }
  return status;
}

// The device fails for good: nothing can be written to files any more.
Status BreakDevice(DB* opened, Counting* listener) {
  struct rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  struct rlimit none = before;
  none.rlim_cur = 0;
  std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &none);
  WriteOptions synced;
  synced.sync = true;
  const Status first = opened->Put(synced, "a", "1");
  ::setrlimit(RLIMIT_FSIZE, &before);
  Status told = listener->Wait("OnBackgroundError");
  if (!told.ok()) return told;
  const Status second = opened->Put(synced, "a", "2");
  return Expect(!first.ok() && !second.ok() && !opened->Resume().ok() &&
                    listener->Told("OnBackgroundError") == 1,
                "a device that fails");
}

void TryListeners() {
  const auto listener = std::make_shared<Counting>();
  Status worked = WithListener(listener, "/listened", Work);
  const char* const capacity = ::getenv("HELIOX_CAPACITY");
  const std::string kept = capacity == nullptr ? "" : capacity;
  ::setenv("HELIOX_CAPACITY", "80M", 1);
  if (worked.ok()) {
    worked = WithListener(listener, "/full",
                          [&](DB* opened) { return FillAndEmpty(opened, listener.get()); });
  }
  ::setenv("HELIOX_CAPACITY", kept.c_str(), 1);
  if (worked.ok()) {
    worked = WithListener(listener, "/broken",
                          [&](DB* opened) { return BreakDevice(opened, listener.get()); });
  }
  for (const char* name :
       {"OnFlushBegin", "OnFlushCompleted", "OnCompactionBegin", "OnCompactionCompleted",
        "OnExternalFileIngested", "OnColumnFamilyHandleDeletionStarted", "OnStallConditionsChanged",
        "OnBackgroundError", "OnErrorRecoveryBegin", "OnErrorRecoveryCompleted",
        "OnErrorRecoveryEnd", "OnTableFileCreationStarted", "OnTableFileCreated",
        "OnTableFileDeleted", "OnSubcompactionBegin", "OnSubcompactionCompleted",
        "OnMemTableSealed", "OnFileReadFinish", "OnFileWriteFinish", "OnIOError"}) {
    Try(("EventListener::" + std::string(name)).c_str(), [&] {
      if (!worked.ok()) return worked;
      return listener->Told(name) > 0 ? Status::OK() : Status::NotSupported("is never told");
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  dir = argv[1];
  Options options;
  options.create_if_missing = true;
  Status begun = DB::Open(options, dir + "/db", &db);
  if (begun.ok()) begun = Fill();
  if (!begun.ok()) {
    std::printf("FAILED %s\n", begun.ToString().c_str());
    return 1;
  }
  TryReads();
  TryFamilies();
  TryFigures();
  TryBackground();
  TryDescriptions();
  TryNoFiles();
  TryIterators();
  delete db;
  TryListeners();
  return failures > 0 ? 1 : 0;
}
