// What event listeners are told, line by line: the same on RocksDB and on HeRocks.
//
//   events DIR
//
// Prints each step and the events that it makes. Steps are those of which RocksDB promises the events;
// after each, every flush and compaction that began has to end. The listener calls the database, also to
// write, which would wait for ever if a lock were held. Ends with 1 if a step fails.
#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/sst_file_writer.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

using namespace rocksdb;

std::string Number(uint64_t number) { return std::to_string(number); }

class Told : public EventListener {
 public:
  void OnFlushBegin(DB* db, const FlushJobInfo& job) override {
    CallBack(db, job.cf_id != 0);
    Note("flush of " + Job(job) + " begins", 1);
  }
  void OnFlushCompleted(DB* db, const FlushJobInfo& job) override {
    CallBack(db, false);
    const bool in_order = job.smallest_seqno > 0 && job.smallest_seqno <= job.largest_seqno &&
                          job.largest_seqno <= db->GetLatestSequenceNumber();
    Note("flush of " + Job(job) + (in_order ? "" : ", out of order") + " ends", -1);
  }
  void OnCompactionBegin(DB* db, const CompactionJobInfo& job) override {
    CallBack(db, false);
    Note("compaction of " + Job(job) + " begins", 1);
  }
  void OnCompactionCompleted(DB* db, const CompactionJobInfo& job) override {
    CallBack(db, false);
    Note("compaction of " + Job(job) + " ends: " + job.status.ToString(), -1);
  }
  void OnExternalFileIngested(DB* db, const ExternalFileIngestionInfo& info) override {
    CallBack(db, false);
    const std::string& path = info.external_file_path;
    Note("ingested into " + info.cf_name + ": " + path.substr(path.rfind('/') + 1) + " with " +
             Number(info.table_properties.num_entries) + " entries, inside " +
             (info.internal_file_path.empty() ? "" : "a file"),
         0);
  }
  void OnColumnFamilyHandleDeletionStarted(ColumnFamilyHandle* handle) override {
    Note("handle of " + handle->GetName() + " goes", 0);
  }
  void OnBackgroundError(BackgroundErrorReason, Status* error) override {
    Note("error: " + error->ToString(), 0);
  }

  // Waits until all that began has ended, and prints what was told.
  void Print(const std::string& step) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
    std::printf("%s\n", step.c_str());
    for (const std::string& line : lines_) std::printf("  %s\n", line.c_str());
    lines_.clear();
  }

 private:
  template <typename Info>
  static std::string Job(const Info& job) {
    return Number(job.cf_id) + " " + job.cf_name + ", " + Reason(job) +
           (job.thread_id == 0 ? ", without a thread" : "");
  }
  static std::string Reason(const FlushJobInfo& job) {
    return "reason " + Number(static_cast<uint64_t>(job.flush_reason)) + ", " +
           (job.file_path.size() > 4 ? job.file_path.substr(job.file_path.size() - 4) : "no file");
  }
  static std::string Reason(const CompactionJobInfo& job) {
    return "reason " + Number(static_cast<uint64_t>(job.compaction_reason)) +
           (job.stats.is_manual_compaction ? ", manual" : "");
  }

  static void CallBack(DB* db, bool writes) {
    std::string stats;
    uint64_t keys = 0;
    if (!db->GetProperty("rocksdb.stats", &stats) ||
        !db->GetIntProperty("rocksdb.estimate-num-keys", &keys)) {
      std::abort();
    }
    // In the default family, of which no flush is going on.
    if (writes && !db->Put(WriteOptions(), "from a listener", stats).ok()) std::abort();
  }

  void Note(const std::string& line, int running) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lines_.push_back(line);
    running_ += running;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  int running_ = 0;
};

const auto told = std::make_shared<Told>();
std::string dir;
DB* db = nullptr;
std::vector<ColumnFamilyHandle*> families;

void Step(const char* name, const Status& done) {
  if (!done.ok()) {
    std::printf("%s: %s\n", name, done.ToString().c_str());
    std::exit(1);
  }
  told->Print(name);
}

Status Open() {
  DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.listeners.push_back(told);
  ColumnFamilyOptions family;
  family.disable_auto_compactions = true;
  const std::vector<ColumnFamilyDescriptor> wanted = {{kDefaultColumnFamilyName, family},
                                                      {"second", family}};
  return DB::Open(options, dir + "/db", wanted, &families, &db);
}

Status PutSome(ColumnFamilyHandle* family, const std::string& value) {
  for (const char* key : {"a", "b", "c"}) {
    const Status put = db->Put(WriteOptions(), family, key, value);
    if (!put.ok()) return put;
  }
  return Status::OK();
}

Status WriteFile(const std::string& path) {
  SstFileWriter writer{EnvOptions(), Options()};
  Status status = writer.Open(path);
  if (status.ok()) status = writer.Put(path + " 1", "1");
  if (status.ok()) status = writer.Put(path + " 2", "2");
  return status.ok() ? writer.Finish() : status;
}

void Flushes() {
  ColumnFamilyHandle* const second = families[1];
  Step("flush of nothing", db->Flush(FlushOptions()));
  Step("puts", PutSome(families[0], "1"));
  Step("flush", db->Flush(FlushOptions()));
  Step("flush again", db->Flush(FlushOptions()));
  Step("delete", db->Delete(WriteOptions(), second, "a"));
  Step("flush of the other", db->Flush(FlushOptions()));
  Step("flush of the family", db->Flush(FlushOptions(), second));
  Step("flush of what the listener wrote", db->Flush(FlushOptions()));
  Step("a range goes", db->DeleteRange(WriteOptions(), second, "x", "y"));
  Step("flush of the range", db->Flush(FlushOptions(), {second}));
  Step("flush of what the listener wrote then", db->Flush(FlushOptions()));
  WriteBatch batch;
  Status added = batch.Put("a", "2");
  if (added.ok()) added = batch.Put("b", "2");
  Step("a batch", added.ok() ? db->Write(WriteOptions(), &batch) : added);
  Step("flush of the batch", db->Flush(FlushOptions(), families[0]));
}

void Compactions() {
  Step("compaction", db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
  Step("more puts", PutSome(families[0], "2"));
  Step("compaction of puts", db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
  const Slice begin("p"), end("q");
  Step("compaction of nothing", db->CompactRange(CompactRangeOptions(), &begin, &end));
}

void Files() {
  Status written = WriteFile(dir + "/1.sst");
  if (written.ok()) written = WriteFile(dir + "/2.sst");
  if (!written.ok()) Step("files", written);
  Step("ingestion", db->IngestExternalFile({dir + "/1.sst", dir + "/2.sst"},
                                           IngestExternalFileOptions()));
  Step("flush after ingestion", db->Flush(FlushOptions()));
}

void Handles() {
  ColumnFamilyHandle* third = nullptr;
  Step("family", db->CreateColumnFamily(ColumnFamilyOptions(), "third", &third));
  Step("drop", db->DropColumnFamily(third));
  Step("handle", db->DestroyColumnFamilyHandle(third));
  std::vector<ColumnFamilyMetaData> metadata;
  db->GetAllColumnFamilyMetaData(&metadata);
  for (ColumnFamilyHandle* family : families) {
    Step("handle", db->DestroyColumnFamilyHandle(family));
  }
  delete db;
  told->Print("the end");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  dir = argv[1];
  Step("open", Open());
  Flushes();
  Compactions();
  Files();
  Handles();
  return 0;
}
