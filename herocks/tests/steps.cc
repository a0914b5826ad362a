// Single steps that answer the same on RocksDB and on HeRocks, line by line.
//
//   steps DIR
//
// What compare.cc cannot do at random: what stops compactions, what can be changed while a database is
// open, what filters are asked, what is counted. Prints each step and its answer.
#include <rocksdb/compaction_filter.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/statistics.h>
#include <rocksdb/utilities/options_util.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

using namespace rocksdb;

std::string dir;

void Say(const std::string& step, const std::string& answer) {
  std::printf("%s: %s\n", step.c_str(), answer.c_str());
  std::fflush(stdout);
}

// The directory's name is left out.
void Say(const std::string& step, const Status& status) {
  const std::string text = status.ToString();
  Say(step, text.substr(0, text.find(dir)));
}

void Say(const std::string& step, uint64_t number) { Say(step, std::to_string(number)); }

// Opens a database of this name, and does something with it.
void With(const std::string& name, Options options, const std::function<void(DB*)>& what) {
  options.create_if_missing = true;
  DB* db = nullptr;
  const Status opened = DB::Open(options, dir + "/" + name, &db);
  Say(name, opened);
  if (!opened.ok()) return;
  what(db);
  delete db;
}

std::string Value(DB* db, const std::string& key, const ReadOptions& options = ReadOptions()) {
  std::string value;
  const Status got = db->Get(options, key, &value);
  return got.ok() ? value : "(" + got.ToString() + ")";
}

// Takes away all it is asked about, and calls the test back.
class Remover : public CompactionFilter {
 public:
  bool Filter(int, const Slice&, const Slice&, std::string*, bool*) const override {
    asked++;
    if (on_ask) on_ask();
    return true;
  }
  const char* Name() const override { return "Remover"; }

  mutable std::atomic<uint64_t> asked{0};
  std::function<void()> on_ask;
};

void PutMany(DB* db) {
  for (int n = 100; n < 200; n++) {
    db->Put(WriteOptions(), "k" + std::to_string(n), "v").PermitUncheckedError();
  }
  Say("puts", db->Flush(FlushOptions()));
}

void StopCompactions(DB* db, Remover* remover) {
  const auto compact = [db](const CompactRangeOptions& options) {
    return db->CompactRange(options, nullptr, nullptr);
  };
  CompactRangeOptions options;
  db->DisableManualCompaction();
  db->DisableManualCompaction();
  Say("compaction while disabled twice", compact(options));
  db->EnableManualCompaction();
  Say("compaction while disabled", compact(options));
  db->EnableManualCompaction();
  std::atomic<bool> canceled{true};
  options.canceled = &canceled;
  Say("compaction that is canceled", compact(options));
  canceled = false;
  remover->on_ask = [&canceled] { canceled = true; };
  Say("compaction that cancels itself", compact(options));
  remover->on_ask = nullptr;
  options.canceled = nullptr;
  options.target_path_id = 7;
  Say("a path that is not there", compact(options));
  const uint64_t asked = remover->asked;
  Say("asked of before", asked > 0 && asked < 100 ? "few" : std::to_string(asked));
  // RocksDB keeps nothing of what was canceled; of ours what was asked about may be gone.
  Say("key", Value(db, "k199"));
}

// A pause holds back what RocksDB does by itself, and not what is asked for.
void PauseCompactions(DB* db, Remover* remover) {
  Say("continue of nothing", db->ContinueBackgroundWork());
  Say("pause", db->PauseBackgroundWork());
  Say("pause again", db->PauseBackgroundWork());
  Say("continue", db->ContinueBackgroundWork());
  Say("compaction while paused", db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
  Say("asked", remover->asked > 0 ? "yes" : "no");
  Say("key", Value(db, "k199"));
  Say("continue again", db->ContinueBackgroundWork());
  Say("continue once more", db->ContinueBackgroundWork());
}

// Disabling ends a compaction that goes on, and returns when it has ended.
void DisableMeanwhile(DB* db, Remover* remover) {
  PutMany(db);
  std::atomic<bool> begun{false};
  std::atomic<bool> canceled{false};
  remover->on_ask = [&] {
    begun = true;
    while (!canceled) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  CompactRangeOptions options;
  options.canceled = &canceled;
  Status stopped;
  std::thread other([&] { stopped = db->CompactRange(options, nullptr, nullptr); });
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  db->DisableManualCompaction();
  const uint64_t asked = remover->asked;
  Say("key after the end", Value(db, "k199"));
  other.join();
  Say("compaction that was disabled", stopped);
  Say("asked after the end", remover->asked - asked);
  remover->on_ask = nullptr;
  db->EnableManualCompaction();
}

void TryCompactions() {
  Remover remover;
  Options options;
  options.compaction_filter = &remover;
  options.disable_auto_compactions = true;
  With("compactions", options, [&](DB* db) {
    PutMany(db);
    StopCompactions(db, &remover);
    PauseCompactions(db, &remover);
    DisableMeanwhile(db, &remover);
    CompactRangeOptions levels;
    levels.change_level = true;
    levels.target_level = 99;
    Say("a level that is not there", db->CompactRange(levels, nullptr, nullptr));
  });
}

// Keys of the prefix that "a1" has, as an iterator that is made now sees them.
std::string KeysFromA1(DB* db) {
  ReadOptions options;
  options.prefix_same_as_start = true;
  const std::unique_ptr<Iterator> iterator(db->NewIterator(options));
  std::string keys;
  for (iterator->Seek("a1"); iterator->Valid(); iterator->Next()) {
    keys += iterator->key().ToString() + " ";
  }
  return keys + iterator->status().ToString();
}

// What is told of an option, by its name.
std::string Told(const Options& options, const std::string& name) {
  std::string text;
  std::string all;
  if (!GetStringFromColumnFamilyOptions(&text, options, ";").ok()) return "none";
  all = text;
  if (!GetStringFromDBOptions(&text, options, ";").ok()) return "none";
  all = ";" + all + text;
  const size_t at = all.find(";" + name + "=");
  return at == std::string::npos ? "none" : all.substr(at + 1, all.find(';', at + 1) - at - 1);
}

using Changes = std::unordered_map<std::string, std::string>;

void ChangeFamily(DB* db) {
  const auto change = [db](const Changes& changes) {
    const std::string& name = changes.begin()->first;
    const Status done = db->SetOptions(changes);
    Say("SetOptions " + name + "=" + changes.begin()->second, done);
    Say("  now", Told(db->GetOptions(), name));
  };
  change({{"write_buffer_size", "1048576"}});
  change({{"disable_auto_compactions", "true"}});
  change({{"level0_stop_writes_trigger", "77"}});
  Say("Level0StopWriteTrigger", static_cast<uint64_t>(db->Level0StopWriteTrigger()));
  change({{"ttl", "77"}});
  change({{"num_levels", "3"}});
  change({{"merge_operator", "put"}});
  change({{"comparator", "rocksdb.ReverseBytewiseComparator"}});
  change({{"compaction_style", "kCompactionStyleFIFO"}});
  change({{"write_buffer_size", "many"}});
  change({{"no_such_option", "1"}});
  change({{"block_based_table_factory", "{block_size=8192}"}});
  Say("SetOptions of nothing", db->SetOptions(Changes()));
  Say("good and bad", db->SetOptions({{"ttl", "99"}, {"num_levels", "3"}}));
  Say("  now", Told(db->GetOptions(), "ttl"));
  Say("EnableAutoCompaction", db->EnableAutoCompaction({db->DefaultColumnFamily()}));
  Say("  now", Told(db->GetOptions(), "disable_auto_compactions"));
  ColumnFamilyDescriptor descriptor;
  Say("GetDescriptor", db->DefaultColumnFamily()->GetDescriptor(&descriptor));
  Say("  of the handle", static_cast<uint64_t>(descriptor.options.ttl));
}

void ChangeDatabase(DB* db) {
  const auto change = [db](const Changes& changes) {
    const std::string& name = changes.begin()->first;
    const Status done = db->SetDBOptions(changes);
    Say("SetDBOptions " + name + "=" + changes.begin()->second, done);
    Say("  now", Told(db->GetOptions(), name));
  };
  change({{"max_background_jobs", "3"}});
  change({{"max_open_files", "77"}});
  change({{"max_open_files", "many"}});
  change({{"stats_dump_period_sec", "10"}});
  change({{"create_if_missing", "false"}});
  change({{"no_such_option", "1"}});
  Say("bytes_per_sync", db->GetDBOptions().bytes_per_sync);
  Say("SetDBOptions of nothing", db->SetDBOptions(Changes()));
}

void ChangePrefix(DB* db) {
  for (const char* key : {"a1", "a2", "a3", "b1"}) {
    Say("put", db->Put(WriteOptions(), key, "v"));
  }
  Say("prefix of one", KeysFromA1(db));
  for (const char* changed : {"fixed:2", "capped:1", "nullptr"}) {
    Say(std::string("prefix ") + changed, db->SetOptions({{"prefix_extractor", changed}}));
    Say("  keys", KeysFromA1(db));
  }
}

// What LoadLatestOptions finds.
void LoadOptions(const std::string& name) {
  DBOptions database;
  std::vector<ColumnFamilyDescriptor> families;
  Say("LoadLatestOptions", LoadLatestOptions(ConfigOptions(), dir + "/" + name, &database, &families));
  for (const ColumnFamilyDescriptor& family : families) {
    const Options options(database, family.options);
    Say("  " + family.name, Told(options, "ttl") + ", " + Told(options, "write_buffer_size") + ", " +
                                Told(options, "max_open_files"));
  }
}

void TryOptions() {
  Options options;
  options.prefix_extractor.reset(NewFixedPrefixTransform(1));
  options.ttl = 55;
  With("options", options, [](DB* db) {
    LoadOptions("options");
    ChangeFamily(db);
    ChangeDatabase(db);
    ChangePrefix(db);
    LoadOptions("options");
    ColumnFamilyHandle* second = nullptr;
    ColumnFamilyOptions another;
    another.ttl = 33;
    Say("family", db->CreateColumnFamily(another, "second", &second));
    LoadOptions("options");
    Say("drop", db->DropColumnFamily(second));
    LoadOptions("options");
    Say("handle", db->DestroyColumnFamilyHandle(second));
  });
  LoadOptions("options");
  Say("destroy", DestroyDB(dir + "/options", options));
  LoadOptions("options");
  Say("directory", Env::Default()->FileExists(dir + "/options").IsNotFound() ? "gone" : "is there");
}

class Join : public AssociativeMergeOperator {
 public:
  bool Merge(const Slice&, const Slice* existing, const Slice& value, std::string* result,
             Logger*) const override {
    if (value == "refuse") return false;
    *result = existing == nullptr ? value.ToString() : existing->ToString() + value.ToString();
    return true;
  }
  const char* Name() const override { return "Join"; }
};

// Does what the value says, and notes what it is asked.
class Obedient : public CompactionFilter {
 public:
  Decision FilterV2(int, const Slice& key, ValueType type, const Slice& value, std::string* next,
                    std::string* skip_until) const override {
    asked += key.ToString() + (type == ValueType::kMergeOperand ? " operand " : " value ") +
             value.ToString() + "; ";
    // Of no meaning where nothing is skipped.
    *skip_until = "zz";
    if (value == "drop") return Decision::kRemove;
    if (value == "skip") {
      *skip_until = "d";
      return Decision::kRemoveAndSkipUntil;
    }
    if (value == "back") {
      *skip_until = "a";
      return Decision::kRemoveAndSkipUntil;
    }
    if (value != "change") return Decision::kKeep;
    *next = "changed";
    return Decision::kChangeValue;
  }
  const char* Name() const override { return "Obedient"; }

  mutable std::string asked;
};

// Operands are asked about one by one, and stay with RocksDB as with HeRocks until they are merged.
void TryOperands() {
  Obedient filter;
  Options options;
  options.compaction_filter = &filter;
  options.merge_operator = std::make_shared<Join>();
  options.disable_auto_compactions = true;
  With("operands", options, [&](DB* db) {
    const auto compact = [&](const char* step) {
      filter.asked.clear();
      Say(step, db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
      // RocksDB asks again as it goes down the levels.
      const std::string last = "n value 3; ";
      const size_t end = filter.asked.find(last);
      Say("  asked", end == std::string::npos ? filter.asked : filter.asked.substr(0, end + last.size()));
    };
    // What is flushed is not merged with what comes later.
    const auto merge = [db](const char* key, const char* operand) {
      Status done = db->Merge(WriteOptions(), key, operand);
      if (done.ok()) done = db->Flush(FlushOptions());
      if (!done.ok()) Say("merge", done);
    };
    for (const char* key : {"a", "b", "c", "e"}) {
      Say("put", db->Put(WriteOptions(), key, key));
    }
    Say("flush", db->Flush(FlushOptions()));
    for (const char* operand : {"1", "drop", "2", "change"}) merge("a", operand);
    merge("b", "drop");
    merge("c", "back");
    merge("m", "drop");
    merge("n", "drop");
    merge("n", "3");
    compact("operands");
    for (const char* key : {"a", "b", "c", "e", "m", "n"}) Say(key, Value(db, key));
    compact("merged");
    merge("b", "1");
    merge("b", "skip");
    merge("b", "2");
    compact("skip");
    for (const char* key : {"a", "b", "c", "e"}) Say(key, Value(db, key));
  });
}

// What is counted of writes and of reads of many keys.
void TryTickers() {
  Options options;
  options.statistics = CreateDBStatistics();
  options.merge_operator = std::make_shared<Join>();
  With("tickers", options, [&](DB* db) {
    ColumnFamilyHandle* second = nullptr;
    Say("family", db->CreateColumnFamily(ColumnFamilyOptions(), "second", &second));
    Say("reset", options.statistics->Reset());
    const std::string longer(300, 'l');
    WriteOptions weak;
    weak.disableWAL = true;
    WriteOptions synced;
    synced.sync = true;
    Say("put", db->Put(WriteOptions(), "a", "value"));
    Say("put of the family", db->Put(synced, second, longer, longer + longer));
    Say("put without WAL", db->Put(weak, "b", "value"));
    Say("delete", db->Delete(WriteOptions(), "none"));
    Say("single delete", db->SingleDelete(WriteOptions(), second, "none"));
    Say("merge", db->Merge(WriteOptions(), "m", longer));
    Say("range", db->DeleteRange(WriteOptions(), second, "x", "y"));
    WriteBatch batch;
    Say("batch of a put", batch.Put("c", "1"));
    Say("and a merge", batch.Merge("m", "2"));
    Say("is written", db->Write(WriteOptions(), &batch));
    std::vector<std::string> values;
    db->MultiGet(ReadOptions(), {"a", "none", "m", "b"}, &values);
    PinnableSlice found[2];
    Status statuses[2];
    const Slice keys[2] = {"a", "none"};
    db->MultiGet(ReadOptions(), db->DefaultColumnFamily(), 2, keys, found, statuses);
    Say("get", Value(db, "a"));
    Say("get of nothing", Value(db, "none"));
    for (const auto& ticker : TickersNameMap) {
      switch (ticker.first) {
        case WAL_FILE_BYTES: case WAL_FILE_SYNCED: case WRITE_WITH_WAL: case NUMBER_MULTIGET_CALLS:
        case NUMBER_MULTIGET_KEYS_READ: case NUMBER_MULTIGET_KEYS_FOUND:
        case NUMBER_MULTIGET_BYTES_READ: case NUMBER_KEYS_READ: case BYTES_READ:
        case NUMBER_KEYS_WRITTEN:
          Say("  " + ticker.second, options.statistics->getTickerCount(ticker.first));
          break;
        default: break;
      }
    }
    Say("handle", db->DestroyColumnFamilyHandle(second));
  });
}

// Which properties there are, in which form. Of RocksDB's block cache nothing is told.
void TryProperties() {
  using Names = DB::Properties;
  With("properties", Options(), [](DB* db) {
    Say("disable", db->DisableFileDeletions());
    Say("disable again", db->DisableFileDeletions());
    uint64_t enabled = 7;
    const auto ask = [&] { db->GetIntProperty(Names::kIsFileDeletionsEnabled, &enabled); };
    Say("enable", db->EnableFileDeletions(false));
    ask();
    Say("deletions", enabled);
    Say("enable all", db->EnableFileDeletions(true));
    ask();
    Say("deletions", enabled);
    for (const std::string& name : {
      Names::kNumFilesAtLevelPrefix, Names::kCompressionRatioAtLevelPrefix, Names::kStats,
      Names::kSSTables, Names::kCFStats, Names::kCFStatsNoFileHistogram, Names::kCFFileHistogram,
      Names::kDBStats, Names::kLevelStats,
      Names::kNumImmutableMemTable,
      Names::kNumImmutableMemTableFlushed, Names::kMemTableFlushPending, Names::kNumRunningFlushes,
      Names::kCompactionPending, Names::kNumRunningCompactions, Names::kBackgroundErrors,
      Names::kCurSizeActiveMemTable, Names::kCurSizeAllMemTables, Names::kSizeAllMemTables,
      Names::kNumEntriesActiveMemTable, Names::kNumEntriesImmMemTables,
      Names::kNumDeletesActiveMemTable, Names::kNumDeletesImmMemTables, Names::kEstimateNumKeys,
      Names::kEstimateTableReadersMem, Names::kIsFileDeletionsEnabled, Names::kNumSnapshots,
      Names::kOldestSnapshotTime, Names::kOldestSnapshotSequence, Names::kNumLiveVersions,
      Names::kCurrentSuperVersionNumber, Names::kEstimateLiveDataSize, Names::kMinLogNumberToKeep,
      Names::kMinObsoleteSstNumberToKeep, Names::kTotalSstFilesSize, Names::kLiveSstFilesSize,
      Names::kLiveSstFilesSizeAtTemperature, Names::kBaseLevel,
      Names::kEstimatePendingCompactionBytes, Names::kAggregatedTableProperties,
      Names::kAggregatedTablePropertiesAtLevel, Names::kActualDelayedWriteRate,
      Names::kIsWriteStopped, Names::kEstimateOldestKeyTime, Names::kBlockCacheCapacity,
      Names::kBlockCacheUsage, Names::kBlockCachePinnedUsage, Names::kOptionsStatistics,
      Names::kNumBlobFiles, Names::kBlobStats, Names::kTotalBlobFileSize, Names::kLiveBlobFileSize,
      Names::kLiveBlobFileGarbageSize, Names::kBlobCacheCapacity, Names::kBlobCacheUsage,
      Names::kBlobCachePinnedUsage,
         }) {
      std::string text;
      std::map<std::string, std::string> map;
      uint64_t number = 0;
      std::string forms;
      if (db->GetProperty(name, &text) || db->GetProperty(name + "0", &text)) forms += " text";
      if (db->GetIntProperty(name, &number)) forms += " number";
      if (db->GetMapProperty(name, &map)) forms += " map";
      Say("  " + name, forms);
    }
    for (const std::string& name : {Names::kAggregatedTableProperties,
                                    Names::kAggregatedTablePropertiesAtLevel + "1"}) {
      std::string text;
      std::map<std::string, std::string> map;
      db->GetProperty(name, &text);
      Say(name, text);
      db->GetMapProperty(name, &map);
      for (const auto& each : map) Say("  " + each.first, each.second);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  dir = argv[1];
  TryCompactions();
  TryOptions();
  TryOperands();
  TryTickers();
  TryProperties();
  return 0;
}
