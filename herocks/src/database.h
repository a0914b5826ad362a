// The database that DB::Open gives: RocksDB's interface over a store of Heliox.
//
// Reads go straight to the engine; writes pass the gate (gate.h), so that a batch can be kept from
// being seen in part. A family with a merge operator takes a lock of the key besides. Everything is
// in one class, since RocksDB's interface is; its parts are in database_*.cc. Threads: any.
#pragma once

#include <rocksdb/compaction_filter.h>
#include <rocksdb/db.h>
#include <rocksdb/statistics.h>
#include <rocksdb/system_clock.h>

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "catalog.h"
#include "codec.h"
#include "compactions.h"
#include "engine.h"
#include "family.h"
#include "gate.h"
#include "listeners.h"

namespace herocks {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::ColumnFamilyOptions;
using rocksdb::DBOptions;
using rocksdb::Options;
using rocksdb::PinnableSlice;
using rocksdb::ReadOptions;
using rocksdb::SequenceNumber;
using rocksdb::WriteOptions;

// What GetSnapshot gives.
class TakenSnapshot final : public rocksdb::Snapshot {
 public:
  TakenSnapshot(ViewPtr view, SequenceNumber sequence, int64_t unix_time)
      : view_(std::move(view)), sequence_(sequence), unix_time_(unix_time) {}
  ~TakenSnapshot() override = default;

  const ViewPtr& view() const { return view_; }
  SequenceNumber GetSequenceNumber() const override { return sequence_; }
  int64_t GetUnixTime() const override { return unix_time_; }
  uint64_t GetTimestamp() const override { return UINT64_MAX; }

 private:
  const ViewPtr view_;
  const SequenceNumber sequence_;
  const int64_t unix_time_;
};

// Times one operation for the program's statistics, if it wants that.
class Timed {
 public:
  Timed(rocksdb::Statistics* statistics, uint32_t histogram);
  ~Timed();
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  rocksdb::Statistics* const statistics_;
  const uint32_t histogram_;
  uint64_t begun_nanos_ = 0;
};

class Database final : public rocksdb::DB {
 public:
  // `families` hold the default one.
  Database(const DBOptions& options, const std::string& name, bool read_only,
           std::unique_ptr<Store> store, std::unique_ptr<Catalog> catalog,
           std::shared_ptr<Reaper> reaper, std::shared_ptr<Listeners> listeners,
           const std::vector<FamilyPtr>& families);
  ~Database() override;

  // Ours, for the files beside this one.
  Catalog& catalog() { return *catalog_; }
  const ValueCodec& values() const { return values_; }
  Store& store() const { return *store_; }
  rocksdb::Statistics* statistics() const { return options_.statistics.get(); }
  rocksdb::Logger* log() const { return options_.info_log.get(); }
  const std::shared_ptr<rocksdb::Statistics>& shared_statistics() const {
    return options_.statistics;
  }
  FamilyPtr FamilyById(uint32_t id) const;
  // The family of a handle; the default one for none.
  const FamilyPtr& FamilyOf(ColumnFamilyHandle* handle) const {
    return handle == nullptr ? default_family_ : static_cast<FamilyHandle*>(handle)->family();
  }
  // Writes the file of options, as they are now.
  Status KeepOptions();
  // The value that kept bytes stand for; points into them or into `merged`.
  Status Resolve(const Family& family, const Slice& key, const Slice& stored, Slice* plain,
                 std::string* merged) const;
  // The engine's view of a read: of its snapshot, or null for now.
  static const View* ViewOf(const ReadOptions& options) {
    return options.snapshot == nullptr
               ? nullptr
               : static_cast<const TakenSnapshot*>(options.snapshot)->view().get();
  }

  using DB::Close;
  Status Close() override;
  Status Resume() override;

  // Families: database_families.cc.
  using DB::CreateColumnFamilies;
  Status CreateColumnFamily(const ColumnFamilyOptions& options, const std::string& name,
                            ColumnFamilyHandle** handle) override;
  Status CreateColumnFamilies(const ColumnFamilyOptions& options,
                              const std::vector<std::string>& names,
                              std::vector<ColumnFamilyHandle*>* handles) override;
  Status CreateColumnFamilies(const std::vector<ColumnFamilyDescriptor>& families,
                              std::vector<ColumnFamilyHandle*>* handles) override;
  Status DropColumnFamily(ColumnFamilyHandle* handle) override;
  Status DropColumnFamilies(const std::vector<ColumnFamilyHandle*>& handles) override;
  Status DestroyColumnFamilyHandle(ColumnFamilyHandle* handle) override;
  ColumnFamilyHandle* DefaultColumnFamily() const override { return default_handle_.get(); }

  // Writing: database_write.cc.
  using DB::Delete;
  using DB::Merge;
  using DB::Put;
  using DB::SingleDelete;
  Status Put(const WriteOptions& options, ColumnFamilyHandle* handle, const Slice& key,
             const Slice& value) override;
  Status Put(const WriteOptions& options, ColumnFamilyHandle* handle, const Slice& key,
             const Slice& ts, const Slice& value) override;
  Status PutEntity(const WriteOptions& options, ColumnFamilyHandle* handle, const Slice& key,
                   const rocksdb::WideColumns& columns) override;
  Status Delete(const WriteOptions& options, ColumnFamilyHandle* handle,
                const Slice& key) override;
  Status Delete(const WriteOptions& options, ColumnFamilyHandle* handle, const Slice& key,
                const Slice& ts) override;
  Status SingleDelete(const WriteOptions& options, ColumnFamilyHandle* handle,
                      const Slice& key) override;
  Status SingleDelete(const WriteOptions& options, ColumnFamilyHandle* handle, const Slice& key,
                      const Slice& ts) override;
  Status DeleteRange(const WriteOptions& options, ColumnFamilyHandle* handle, const Slice& begin,
                     const Slice& end) override;
  Status DeleteRange(const WriteOptions& options, ColumnFamilyHandle* handle, const Slice& begin,
                     const Slice& end, const Slice& ts) override;
  Status Merge(const WriteOptions& options, ColumnFamilyHandle* handle, const Slice& key,
               const Slice& value) override;
  Status Merge(const WriteOptions& options, ColumnFamilyHandle* handle, const Slice& key,
               const Slice& ts, const Slice& value) override;
  Status Write(const WriteOptions& options, rocksdb::WriteBatch* updates) override;

  // Reading: database_read.cc.
  using DB::Get;
  using DB::KeyMayExist;
  using DB::MultiGet;
  using DB::NewIterator;
  Status Get(const ReadOptions& options, ColumnFamilyHandle* handle, const Slice& key,
             PinnableSlice* value) override;
  Status Get(const ReadOptions& options, ColumnFamilyHandle* handle, const Slice& key,
             PinnableSlice* value, std::string* timestamp) override;
  Status GetEntity(const ReadOptions& options, ColumnFamilyHandle* handle, const Slice& key,
                   rocksdb::PinnableWideColumns* columns) override;
  Status GetMergeOperands(const ReadOptions& options, ColumnFamilyHandle* handle, const Slice& key,
                          PinnableSlice* operands, rocksdb::GetMergeOperandsOptions* wanted,
                          int* count) override;
  std::vector<Status> MultiGet(const ReadOptions& options,
                               const std::vector<ColumnFamilyHandle*>& handles,
                               const std::vector<Slice>& keys,
                               std::vector<std::string>* values) override;
  std::vector<Status> MultiGet(const ReadOptions& options,
                               const std::vector<ColumnFamilyHandle*>& handles,
                               const std::vector<Slice>& keys, std::vector<std::string>* values,
                               std::vector<std::string>* timestamps) override;
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* handle, const size_t count,
                const Slice* keys, PinnableSlice* values, Status* statuses,
                const bool sorted) override;
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* handle, const size_t count,
                const Slice* keys, PinnableSlice* values, std::string* timestamps,
                Status* statuses, const bool sorted) override;
  void MultiGet(const ReadOptions& options, const size_t count, ColumnFamilyHandle** handles,
                const Slice* keys, PinnableSlice* values, Status* statuses,
                const bool sorted) override;
  void MultiGet(const ReadOptions& options, const size_t count, ColumnFamilyHandle** handles,
                const Slice* keys, PinnableSlice* values, std::string* timestamps,
                Status* statuses, const bool sorted) override;
  bool KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* handle, const Slice& key,
                   std::string* value, std::string* timestamp, bool* value_found) override;
  rocksdb::Iterator* NewIterator(const ReadOptions& options, ColumnFamilyHandle* handle) override;
  Status NewIterators(const ReadOptions& options, const std::vector<ColumnFamilyHandle*>& handles,
                      std::vector<rocksdb::Iterator*>* iterators) override;
  const rocksdb::Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const rocksdb::Snapshot* snapshot) override;

  // Figures: database_figures.cc.
  using DB::GetApproximateMemTableStats;
  using DB::GetApproximateSizes;
  using DB::GetIntProperty;
  using DB::GetMapProperty;
  using DB::GetProperty;
  bool GetProperty(ColumnFamilyHandle* handle, const Slice& property, std::string* value) override;
  bool GetMapProperty(ColumnFamilyHandle* handle, const Slice& property,
                      std::map<std::string, std::string>* value) override;
  bool GetIntProperty(ColumnFamilyHandle* handle, const Slice& property, uint64_t* value) override;
  bool GetAggregatedIntProperty(const Slice& property, uint64_t* value) override;
  Status ResetStats() override { return Status::OK(); }
  Status GetApproximateSizes(const rocksdb::SizeApproximationOptions& options,
                             ColumnFamilyHandle* handle, const rocksdb::Range* ranges, int count,
                             uint64_t* sizes) override;
  void GetApproximateMemTableStats(ColumnFamilyHandle* handle, const rocksdb::Range& range,
                                   uint64_t* const count, uint64_t* const size) override;
  void GetLiveFilesMetaData(std::vector<rocksdb::LiveFileMetaData>* metadata) override;
  void GetColumnFamilyMetaData(ColumnFamilyHandle* handle,
                               rocksdb::ColumnFamilyMetaData* metadata) override;
  void GetAllColumnFamilyMetaData(std::vector<rocksdb::ColumnFamilyMetaData>* metadata) override;
  SequenceNumber GetLatestSequenceNumber() const override { return catalog_->LastSequence(); }

  // Options: database_options.cc.
  using DB::GetOptions;
  using DB::Level0StopWriteTrigger;
  using DB::NumberLevels;
  using DB::SetOptions;
  Status SetOptions(ColumnFamilyHandle* handle,
                    const std::unordered_map<std::string, std::string>& changes) override;
  Status SetDBOptions(const std::unordered_map<std::string, std::string>& changes) override;
  Status EnableAutoCompaction(const std::vector<ColumnFamilyHandle*>& handles) override;
  Options GetOptions(ColumnFamilyHandle* handle) const override;
  DBOptions GetDBOptions() const override;
  int NumberLevels(ColumnFamilyHandle* handle) override;
  int Level0StopWriteTrigger(ColumnFamilyHandle* handle) override;

  // The rest: database_admin.cc, and what deals with files: database_files.cc.
  using DB::CompactFiles;
  using DB::CompactRange;
  using DB::Flush;
  using DB::GetPropertiesOfAllTables;
  using DB::IngestExternalFile;
  using DB::MaxMemCompactionLevel;
  using DB::VerifyChecksum;
  Status CompactRange(const rocksdb::CompactRangeOptions& options, ColumnFamilyHandle* handle,
                      const Slice* begin, const Slice* end) override;
  Status CompactFiles(const rocksdb::CompactionOptions& options, ColumnFamilyHandle* handle,
                      const std::vector<std::string>& files, const int output_level,
                      const int output_path_id, std::vector<std::string>* const output_files,
                      rocksdb::CompactionJobInfo* info) override;
  Status PauseBackgroundWork() override {
    compactions_.Pause();
    return Status::OK();
  }
  Status ContinueBackgroundWork() override { return compactions_.Continue(); }
  void DisableManualCompaction() override { compactions_.Disable(); }
  void EnableManualCompaction() override { compactions_.Enable(); }
  int MaxMemCompactionLevel(ColumnFamilyHandle*) override { return 0; }
  const std::string& GetName() const override { return name_; }
  rocksdb::Env* GetEnv() const override { return options_.env; }
  rocksdb::FileSystem* GetFileSystem() const override;
  Status Flush(const rocksdb::FlushOptions& options, ColumnFamilyHandle* handle) override;
  Status Flush(const rocksdb::FlushOptions& options,
               const std::vector<ColumnFamilyHandle*>& handles) override;
  Status FlushWAL(bool sync) override;
  Status SyncWAL() override;
  Status LockWAL() override;
  Status UnlockWAL() override;
  Status DisableFileDeletions() override;
  Status EnableFileDeletions(bool force) override;
  Status IncreaseFullHistoryTsLow(ColumnFamilyHandle*, std::string) override;
  Status GetFullHistoryTsLow(ColumnFamilyHandle*, std::string*) override;
  Status GetCreationTimeOfOldestFile(uint64_t* creation_time) override;
  Status GetUpdatesSince(SequenceNumber sequence,
                         std::unique_ptr<rocksdb::TransactionLogIterator>* iterator,
                         const rocksdb::TransactionLogIterator::ReadOptions& options) override;
  Status DeleteFile(std::string name) override;
  Status GetLiveFilesChecksumInfo(rocksdb::FileChecksumList* list) override;
  Status GetLiveFilesStorageInfo(const rocksdb::LiveFilesStorageInfoOptions& options,
                                 std::vector<rocksdb::LiveFileStorageInfo>* files) override;
  Status GetLiveFiles(std::vector<std::string>&, uint64_t* manifest_file_size, bool) override;
  Status GetSortedWalFiles(rocksdb::VectorLogPtr& files) override;
  Status GetCurrentWalFile(std::unique_ptr<rocksdb::LogFile>* file) override;
  Status IngestExternalFile(ColumnFamilyHandle* handle, const std::vector<std::string>& files,
                            const rocksdb::IngestExternalFileOptions& options) override;
  Status IngestExternalFiles(const std::vector<rocksdb::IngestExternalFileArg>& files) override;
  Status CreateColumnFamilyWithImport(const ColumnFamilyOptions& options, const std::string& name,
                                      const rocksdb::ImportColumnFamilyOptions& import_options,
                                      const rocksdb::ExportImportFilesMetaData& metadata,
                                      ColumnFamilyHandle** handle) override;
  Status VerifyFileChecksums(const ReadOptions& options) override;
  Status VerifyChecksum(const ReadOptions& options) override;
  Status GetDbIdentity(std::string& identity) const override;
  Status GetDbSessionId(std::string& session_id) const override;
  Status GetPropertiesOfAllTables(ColumnFamilyHandle* handle,
                                  rocksdb::TablePropertiesCollection* properties) override;
  Status GetPropertiesOfTablesInRange(ColumnFamilyHandle* handle, const rocksdb::Range* range,
                                      std::size_t count,
                                      rocksdb::TablePropertiesCollection* properties) override;
  Status SuggestCompactRange(ColumnFamilyHandle*, const Slice*, const Slice*) override {
    return Status::OK();
  }
  Status TryCatchUpWithPrimary() override;
  Status PromoteL0(ColumnFamilyHandle* handle, int target_level) override;
  Status StartTrace(const rocksdb::TraceOptions& options,
                    std::unique_ptr<rocksdb::TraceWriter>&& writer) override;
  Status EndTrace() override;
  Status StartIOTrace(const rocksdb::TraceOptions& options,
                      std::unique_ptr<rocksdb::TraceWriter>&& writer) override;
  Status EndIOTrace() override;
  Status StartBlockCacheTrace(const rocksdb::TraceOptions& options,
                              std::unique_ptr<rocksdb::TraceWriter>&& writer) override;
  Status StartBlockCacheTrace(
      const rocksdb::BlockCacheTraceOptions& options,
      std::unique_ptr<rocksdb::BlockCacheTraceWriter>&& writer) override;
  Status EndBlockCacheTrace() override;
  Status NewDefaultReplayer(const std::vector<ColumnFamilyHandle*>& handles,
                            std::unique_ptr<rocksdb::TraceReader>&& reader,
                            std::unique_ptr<rocksdb::Replayer>* replayer) override;
  Status GetStatsHistory(uint64_t begin, uint64_t end,
                         std::unique_ptr<rocksdb::StatsHistoryIterator>* history) override;

 private:
  friend class BatchPlan;

  // How many entries a compaction filter was asked about, and how many it took away.
  struct Asked {
    uint64_t entries = 0;
    uint64_t removed = 0;
  };
  // What is read of files that are ingested.
  struct Ingested;

  Status CheckWrite(const WriteOptions& options) const;
  Status CheckRead(const ReadOptions& options) const;
  Status WriteOne(const WriteOptions& options, const Family& family, const Slice& key,
                  const Slice* value);
  Status MergeOne(const WriteOptions& options, const Family& family, const Slice& key,
                  const Slice& operand);
  Status DeleteOneRange(const WriteOptions& options, const Family& family, const Slice& begin,
                        const Slice& end);
  Status CheckFamily(const Family& family) const;
  Status GetStored(const ReadOptions& options, const Family& family, const Slice& key,
                   Value* value) const;
  Status GetAt(const Family& family, const Slice& key, const View* view,
               PinnableSlice* value) const;
  Status MultiGetFamily(const Family& family, const std::vector<size_t>& places, const Slice* keys,
                        const View* view, PinnableSlice* values, Status* statuses) const;
  bool MultiGetFamilies(const std::vector<const Family*>& families, const Slice* keys,
                        const View* view, PinnableSlice* values, Status* statuses) const;
  void MultiGetMany(const ReadOptions& options, size_t count, ColumnFamilyHandle* const* handles,
                    const Slice* keys, PinnableSlice* values, Status* statuses) const;
  bool TryMultiGetLatest(const std::vector<const Family*>& families, const Slice* keys,
                         PinnableSlice* values, Status* statuses) const;
  void ReadMany(const ReadOptions& options, const std::vector<const Family*>& families,
                const Slice* keys, PinnableSlice* values, Status* statuses) const;
  void CountMany(size_t count, const PinnableSlice* values, const Status* statuses) const;
  void CountLog(const WriteOptions& options, uint64_t bytes) const;
  void CountWrite(const Family& family, uint64_t bytes);
  void CountKeys(uint64_t keys, uint64_t bytes);
  Status FlushFamilies(const std::vector<FamilyPtr>& families, rocksdb::FlushReason reason);
  rocksdb::FlushJobInfo DescribeFlush(const Family& family, rocksdb::FlushReason reason) const;
  Status CheckCompaction(const rocksdb::CompactRangeOptions& options, const Family& family,
                         const Compactions::Run& run) const;
  Status CompactAndTell(const FamilyPtr& family, const Slice* begin, const Slice* end,
                        const Compactions::Run& run);
  Status Compact(const Family& family, const Slice* begin, const Slice* end,
                 const Compactions::Run& run, Asked* asked);
  static Status StartRange(const Family& family, const Slice* begin, const Slice* end, Scan* scan);
  Status FilterRange(const Family& family, const rocksdb::CompactionFilter& filter,
                     const Slice* begin, const Slice* end, const Compactions::Run& run,
                     Asked* asked);
  Status FilterEntry(const Family& family, const rocksdb::CompactionFilter& filter,
                     const Scan& scan, std::string* skip_until, Asked* asked);
  Status FilterStack(const Family& family, const rocksdb::CompactionFilter& filter,
                     const Slice& key, const Stack& stack, std::string* next,
                     std::string* skip_until,
                     rocksdb::CompactionFilter::Decision* decision) const;
  Status OpenFiles(const rocksdb::IngestExternalFileArg& arg, Ingested* ingested) const;
  Status CheckOverlap(const rocksdb::IngestExternalFileArg& arg, const Ingested& ingested) const;
  Status HasKeys(const Family& family, const Slice& first, const Slice& last, bool* found) const;
  Status ReadFiles(Ingested* ingested) const;
  Status WriteIngested(Ingested* ingested);
  void Describe(const Family& family, rocksdb::ColumnFamilyMetaData* metadata) const;
  Status ChangeFamilies(const std::function<Status(Catalog*)>& change);
  Status AddFamily(const ColumnFamilyOptions& options, const std::string& name,
                   ColumnFamilyHandle** handle);
  bool Number(const Family& family, const std::string& property, uint64_t* value) const;
  std::vector<FamilyPtr> Families() const;
  Status KeepOptionsLocked() const;

  // As the database was opened; what can be changed meanwhile is in `options_now_`, with its lock.
  const DBOptions options_;
  mutable std::mutex options_mutex_;
  DBOptions options_now_;
  const std::string name_;
  const bool read_only_;
  const std::string session_id_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Catalog> catalog_;
  const std::shared_ptr<Reaper> reaper_;
  const std::shared_ptr<Listeners> listeners_;
  const ValueCodec values_;
  mutable Gate gate_;
  mutable Stripes stripes_;
  Compactions compactions_;
  std::atomic<int> file_deletions_disabled_{0};
  // Guards the families by id.
  mutable std::shared_mutex families_mutex_;
  std::map<uint32_t, FamilyPtr> families_;
  FamilyPtr default_family_;
  std::unique_ptr<FamilyHandle> default_handle_;
  mutable std::mutex snapshots_mutex_;
  // The oldest first.
  std::set<std::pair<SequenceNumber, TakenSnapshot*>> snapshots_;
  std::mutex wal_mutex_;
  std::unique_ptr<Gate::Alone> wal_lock_;
  std::mutex close_mutex_;
  bool closed_ = false;
  Status close_status_;
};

// When a write of these options counts as done.
inline Promise PromiseOf(const WriteOptions& options) {
  if (options.sync) return Promise::kSynced;
  return options.disableWAL ? Promise::kWeak : Promise::kBounded;
}

}  // namespace herocks
