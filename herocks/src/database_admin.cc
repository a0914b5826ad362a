// The rest of the database: flushing, checking, files that do not exist. See database.h.
#include <rocksdb/env.h>
#include <rocksdb/file_checksum.h>
#include <rocksdb/stats_history.h>
#include <rocksdb/trace_reader_writer.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/utilities/replayer.h>

#include <algorithm>

#include "database.h"

namespace herocks {

namespace {

Status NoFiles(const char* what) {
  return Status::NotSupported(std::string("Heliox does not support ") + what,
                              "its data is not in RocksDB's files");
}

Status NoTraces(const char* what) {
  return Status::NotSupported(std::string("Heliox does not support ") + what,
                              "it writes and replays no traces of RocksDB's");
}

}  // namespace

Status Database::CompactFiles(const rocksdb::CompactionOptions&, ColumnFamilyHandle*,
                              const std::vector<std::string>&, const int, const int,
                              std::vector<std::string>* const, rocksdb::CompactionJobInfo*) {
  return NoFiles("CompactFiles");
}

rocksdb::FileSystem* Database::GetFileSystem() const { return options_.env->GetFileSystem().get(); }

Status Database::Flush(const rocksdb::FlushOptions& options, ColumnFamilyHandle* handle) {
  return Flush(options, std::vector<ColumnFamilyHandle*>{handle});
}

Status Database::Flush(const rocksdb::FlushOptions&,
                       const std::vector<ColumnFamilyHandle*>& handles) {
  if (read_only_) return Status::NotSupported("Not supported operation in read only mode.");
  std::vector<FamilyPtr> families;
  for (ColumnFamilyHandle* handle : handles) {
    families.push_back(FamilyOf(handle));
    if (families.back()->dropped.load()) return Status::ColumnFamilyDropped();
  }
  return FlushFamilies(families, rocksdb::FlushReason::kManualFlush);
}

// What listeners are told of a flush that begins now.
rocksdb::FlushJobInfo Database::DescribeFlush(const Family& family,
                                              rocksdb::FlushReason reason) const {
  rocksdb::FlushJobInfo job = {};
  job.cf_id = family.id;
  job.cf_name = family.name;
  job.file_path = listeners_->no_file();
  job.thread_id = options_.env->GetThreadID();
  job.job_id = listeners_->NextJob();
  job.largest_seqno = catalog_->LastSequence();
  // Never goes back, also where two flush at once.
  uint64_t before = family.flushed_sequence.load();
  while (before < job.largest_seqno &&
         !family.flushed_sequence.compare_exchange_weak(before, job.largest_seqno)) {
  }
  job.smallest_seqno = std::min(before + 1, job.largest_seqno);
  job.table_properties.column_family_id = family.id;
  job.table_properties.column_family_name = family.name;
  job.flush_reason = reason;
  return job;
}

// Makes everything durable. Listeners are told of those families that were changed since they were told
// last, as RocksDB flushes no others.
Status Database::FlushFamilies(const std::vector<FamilyPtr>& families,
                               rocksdb::FlushReason reason) {
  if (listeners_->empty()) return store_->Sync();
  std::vector<std::pair<FamilyPtr, rocksdb::FlushJobInfo>> jobs;
  for (const FamilyPtr& family : families) {
    if (!family->Take(Family::kForFlush)) continue;
    jobs.emplace_back(family, DescribeFlush(*family, reason));
  }
  for (const auto& job : jobs) {
    listeners_->Each([&](rocksdb::EventListener* it) { it->OnFlushBegin(this, job.second); });
  }
  Status flushed = store_->Sync();
  for (const auto& job : jobs) {
    if (!flushed.ok()) {
      job.first->Note(Family::kForFlush);
      continue;
    }
    listeners_->Each([&](rocksdb::EventListener* it) { it->OnFlushCompleted(this, job.second); });
  }
  return flushed;
}

Status Database::FlushWAL(bool sync) {
  if (read_only_) return Status::NotSupported("Not supported operation in read only mode.");
  return sync ? store_->Sync() : store_->Flush();
}

Status Database::SyncWAL() { return FlushWAL(true); }

Status Database::LockWAL() {
  const std::lock_guard<std::mutex> lock(wal_mutex_);
  if (wal_lock_ != nullptr) return Status::Busy("the WAL is locked already");
  wal_lock_ = std::make_unique<Gate::Alone>(&gate_);
  return read_only_ ? Status::OK() : store_->Sync();
}

Status Database::UnlockWAL() {
  const std::lock_guard<std::mutex> lock(wal_mutex_);
  wal_lock_.reset();
  return Status::OK();
}

Status Database::IncreaseFullHistoryTsLow(ColumnFamilyHandle*, std::string) {
  return Status::InvalidArgument("Timestamp is not enabled in this column family");
}

Status Database::GetFullHistoryTsLow(ColumnFamilyHandle*, std::string*) {
  return Status::InvalidArgument("Timestamp is not enabled in this column family");
}

Status Database::GetCreationTimeOfOldestFile(uint64_t*) {
  return NoFiles("GetCreationTimeOfOldestFile");
}

Status Database::GetUpdatesSince(SequenceNumber,
                                 std::unique_ptr<rocksdb::TransactionLogIterator>*,
                                 const rocksdb::TransactionLogIterator::ReadOptions&) {
  return NoFiles("GetUpdatesSince");
}

Status Database::DisableFileDeletions() {
  file_deletions_disabled_.fetch_add(1);
  return Status::OK();
}

Status Database::EnableFileDeletions(bool force) {
  int disabled = file_deletions_disabled_.load();
  while (disabled > 0 && !file_deletions_disabled_.compare_exchange_weak(
                             disabled, force ? 0 : disabled - 1)) {
  }
  return Status::OK();
}

Status Database::TryCatchUpWithPrimary() {
  return Status::NotSupported("Supported only by secondary instance");
}

Status Database::PromoteL0(ColumnFamilyHandle*, int) { return NoFiles("PromoteL0"); }

Status Database::DeleteFile(std::string) { return NoFiles("DeleteFile"); }

Status Database::GetLiveFilesChecksumInfo(rocksdb::FileChecksumList*) {
  return NoFiles("GetLiveFilesChecksumInfo");
}

Status Database::GetLiveFilesStorageInfo(const rocksdb::LiveFilesStorageInfoOptions&,
                                         std::vector<rocksdb::LiveFileStorageInfo>*) {
  return NoFiles("GetLiveFilesStorageInfo: use heliox backup");
}

Status Database::GetLiveFiles(std::vector<std::string>&, uint64_t*, bool) {
  return NoFiles("GetLiveFiles: use heliox backup");
}

Status Database::GetSortedWalFiles(rocksdb::VectorLogPtr&) { return NoFiles("GetSortedWalFiles"); }

Status Database::GetCurrentWalFile(std::unique_ptr<rocksdb::LogFile>*) {
  return NoFiles("GetCurrentWalFile");
}

Status Database::CreateColumnFamilyWithImport(const ColumnFamilyOptions&, const std::string&,
                                              const rocksdb::ImportColumnFamilyOptions&,
                                              const rocksdb::ExportImportFilesMetaData&,
                                              ColumnFamilyHandle** handle) {
  *handle = nullptr;
  return NoFiles("CreateColumnFamilyWithImport");
}

// Every byte that is read is verified anyway, so reading everything verifies all that is alive.
Status Database::VerifyChecksum(const ReadOptions&) {
  for (const FamilyPtr& family : Families()) {
    Scan scan;
    Status read = scan.Start(family->space, nullptr, nullptr, nullptr);
    if (!read.ok()) return read;
    for (bool more = scan.First(); more; more = scan.Next()) {
    }
    read = scan.status();
    if (!read.ok()) return read;
  }
  return Status::OK();
}

Status Database::VerifyFileChecksums(const ReadOptions& options) {
  if (options_.file_checksum_gen_factory == nullptr) {
    return Status::InvalidArgument(
        "Cannot verify file checksum if options.file_checksum_gen_factory is null");
  }
  return VerifyChecksum(options);
}

Status Database::StartTrace(const rocksdb::TraceOptions&,
                            std::unique_ptr<rocksdb::TraceWriter>&&) {
  return NoTraces("StartTrace");
}

Status Database::EndTrace() { return NoTraces("EndTrace"); }

Status Database::StartIOTrace(const rocksdb::TraceOptions&,
                              std::unique_ptr<rocksdb::TraceWriter>&&) {
  return NoTraces("StartIOTrace");
}

Status Database::EndIOTrace() { return NoTraces("EndIOTrace"); }

Status Database::StartBlockCacheTrace(const rocksdb::TraceOptions&,
                                      std::unique_ptr<rocksdb::TraceWriter>&&) {
  return NoTraces("StartBlockCacheTrace");
}

Status Database::StartBlockCacheTrace(const rocksdb::BlockCacheTraceOptions&,
                                      std::unique_ptr<rocksdb::BlockCacheTraceWriter>&&) {
  return NoTraces("StartBlockCacheTrace");
}

Status Database::EndBlockCacheTrace() { return NoTraces("EndBlockCacheTrace"); }

Status Database::NewDefaultReplayer(const std::vector<ColumnFamilyHandle*>&,
                                    std::unique_ptr<rocksdb::TraceReader>&&,
                                    std::unique_ptr<rocksdb::Replayer>*) {
  return NoTraces("NewDefaultReplayer");
}

Status Database::GetStatsHistory(uint64_t, uint64_t,
                                 std::unique_ptr<rocksdb::StatsHistoryIterator>*) {
  return Status::NotSupported("Heliox does not support GetStatsHistory",
                              "it keeps no history: ask the statistics from time to time");
}

Status Database::GetDbIdentity(std::string& identity) const {
  identity = catalog_->identity();
  return Status::OK();
}

Status Database::GetDbSessionId(std::string& session_id) const {
  session_id = session_id_;
  return Status::OK();
}

Status Database::GetPropertiesOfAllTables(ColumnFamilyHandle*,
                                          rocksdb::TablePropertiesCollection* properties) {
  properties->clear();
  return Status::OK();
}

Status Database::GetPropertiesOfTablesInRange(ColumnFamilyHandle*, const rocksdb::Range*,
                                              std::size_t,
                                              rocksdb::TablePropertiesCollection* properties) {
  properties->clear();
  return Status::OK();
}

}  // namespace herocks
