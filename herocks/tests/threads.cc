// What must hold while many threads use one database.
//
//   threads DIR [STEPS]
//
// Counters lose no merge, alone, in batches and beside puts; a batch is seen as a whole by gets of
// many keys, iterators and snapshots, range deletes in it included; families come and go beside all
// of that; a listener that uses the database is told of each end after its beginning; a program that ends
// finds all it wrote, one that dies what was synced, and with HELIOX_DURABILITY=0 all it wrote, and sequence
// numbers that go on.
#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace rocksdb;

constexpr int kThreads = 4;
constexpr int kCounters = 8;

// Adds numbers written as text.
class Add : public AssociativeMergeOperator {
 public:
  bool Merge(const Slice&, const Slice* existing, const Slice& value, std::string* result,
             Logger*) const override {
    const long long before = existing == nullptr ? 0 : std::atoll(existing->ToString().c_str());
    *result = std::to_string(before + std::atoll(value.ToString().c_str()));
    return true;
  }
  const char* Name() const override { return "Add"; }
};

// Counts what begins, what ends and the handles that go, and reads the database meanwhile.
class Witness : public EventListener {
 public:
  void OnFlushBegin(DB* db, const FlushJobInfo&) override { Count(db, &flushes_begun); }
  void OnFlushCompleted(DB* db, const FlushJobInfo&) override { Count(db, &flushes_ended); }
  void OnCompactionBegin(DB* db, const CompactionJobInfo&) override { Count(db, &compactions_begun); }
  void OnCompactionCompleted(DB* db, const CompactionJobInfo&) override {
    Count(db, &compactions_ended);
  }
  void OnColumnFamilyHandleDeletionStarted(ColumnFamilyHandle*) override { handles_gone++; }

  std::atomic<int> flushes_begun{0}, flushes_ended{0}, compactions_begun{0}, compactions_ended{0};
  std::atomic<int> handles_gone{0};

 private:
  static void Count(DB* db, std::atomic<int>* count) {
    count->fetch_add(1);
    std::string value;
    if (db->Get(ReadOptions(), "flushed0", &value).IsNotFound()) std::abort();
  }
};

const auto witness = std::make_shared<Witness>();

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "threads: %s\n", what.c_str());
  std::_Exit(1);
}

void Check(const Status& status, const char* what) {
  if (!status.ok()) Fail(std::string(what) + ": " + status.ToString());
}

Options BaseOptions() {
  Options options;
  options.create_if_missing = true;
  options.merge_operator = std::make_shared<Add>();
  return options;
}

DB* Open(const std::string& dir) {
  DB* db = nullptr;
  Options options = BaseOptions();
  options.listeners.push_back(witness);
  Check(DB::Open(options, dir, &db), "open");
  return db;
}

void Together(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
}

std::string Counter(int n) { return "counter" + std::to_string(n); }

// Every merge counts once, whichever way it came.
void MergesAreKept(DB* db, int steps) {
  Together([&](int t) {
    for (int i = 0; i < steps; i++) {
      if (i % 3 == 0) {
        WriteBatch batch;
        Check(batch.Merge(Counter(i % kCounters), "1"), "merge");
        Check(batch.Merge(Counter((i + 1) % kCounters), "-1"), "merge");
        Check(batch.Merge(Counter((i + 1) % kCounters), "2"), "merge");
        Check(db->Write(WriteOptions(), &batch), "write");
      } else {
        Check(db->Merge(WriteOptions(), Counter(i % kCounters), i % 3 == 1 ? "1" : "2"), "merge");
      }
      if (i % 50 == 0) Check(db->Put(WriteOptions(), "other" + std::to_string(t), "x"), "put");
    }
  });
  long long sum = 0;
  for (int n = 0; n < kCounters; n++) {
    std::string value;
    Check(db->Get(ReadOptions(), Counter(n), &value), "get");
    sum += std::atoll(value.c_str());
  }
  long long expected = 0;
  for (int i = 0; i < steps; i++) expected += i % 3 == 0 ? 2 : i % 3;
  if (sum != expected * kThreads) Fail("merges were lost: " + std::to_string(sum));
}

// Writers move amounts between accounts; whoever reads them together sees them all there.
void SumIsConstant(DB* db, const ReadOptions& options) {
  // Far from each other, so that much can happen between them.
  std::vector<Slice> keys(301, Slice("none"));
  keys[0] = "account0";
  keys[150] = "account1";
  keys[300] = "account2";
  std::vector<std::string> values;
  const std::vector<Status> statuses = db->MultiGet(options, keys, &values);
  long long sum = 0;
  for (const size_t at : {0, 150, 300}) {
    Check(statuses[at], "multiget");
    sum += std::atoll(values[at].c_str());
  }
  if (sum != 3000) Fail("a batch was seen in part: " + std::to_string(sum));
}

void BatchesAreWhole(DB* db, int steps) {
  for (int n = 0; n < 3; n++) {
    Check(db->Put(WriteOptions(), "account" + std::to_string(n), "1000"), "put");
  }
  Together([&](int t) {
    for (int i = 0; i < steps; i++) {
      if (t < 2) {
        WriteBatch batch;
        const std::string amount = std::to_string(1 + i % 5);
        Check(batch.Merge("account" + std::to_string((i + t) % 3), "-" + amount), "merge");
        Check(batch.Merge("account" + std::to_string((i + t + 1) % 3), amount), "merge");
        Check(db->Write(WriteOptions(), &batch), "write");
      } else if (t == 2) {
        SumIsConstant(db, ReadOptions());
      } else {
        ReadOptions options;
        options.snapshot = db->GetSnapshot();
        SumIsConstant(db, options);
        db->ReleaseSnapshot(options.snapshot);
      }
    }
  });
}

// A batch replaces all keys of a range by one: there is one whenever somebody looks.
void RangesAreWhole(DB* db, int steps) {
  Check(db->Put(WriteOptions(), "range0", "x"), "put");
  Together([&](int t) {
    for (int i = 0; i < steps; i++) {
      if (t < 2) {
        WriteBatch batch;
        Check(batch.DeleteRange("range", "rangf"), "range");
        Check(batch.Put("range" + std::to_string(i * 2 + t), "x"), "put");
        Check(db->Write(WriteOptions(), &batch), "write");
        continue;
      }
      const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
      int found = 0;
      for (iterator->Seek("range"); iterator->Valid() && iterator->key().starts_with("range");
           iterator->Next()) {
        found++;
      }
      Check(iterator->status(), "iterator");
      if (found != 1) Fail("a range delete was seen in part: " + std::to_string(found));
    }
  });
}

void FamiliesComeAndGo(DB* db, int steps) {
  Together([&](int t) {
    for (int i = 0; i < steps / 20; i++) {
      ColumnFamilyHandle* family = nullptr;
      const std::string name = "family" + std::to_string(t);
      Check(db->CreateColumnFamily(ColumnFamilyOptions(), name, &family), "create");
      std::string value;
      if (!db->Get(ReadOptions(), family, "k", &value).IsNotFound()) Fail("a family was not new");
      Check(db->Put(WriteOptions(), family, "k", name), "put");
      Check(db->DropColumnFamily(family), "drop");
      Check(db->Get(ReadOptions(), family, "k", &value), "get from a dropped family");
      if (value != name) Fail("a dropped family has another value");
      if (db->Put(WriteOptions(), family, "k", "v").ok()) Fail("a dropped family was written");
      Check(db->DestroyColumnFamilyHandle(family), "destroy");
    }
  });
}

// Whoever flushes, there are as many ends as beginnings, and something new is told of.
void ListenersAreTold(DB* db, int steps) {
  Check(db->Put(WriteOptions(), "flushed0", "x"), "put");
  Together([&](int t) {
    for (int i = 0; i < steps / 20; i++) {
      Check(db->Put(WriteOptions(), "flushed" + std::to_string(t), "x"), "put");
      Check(db->Flush(FlushOptions()), "flush");
      if (t == 0) Check(db->CompactRange(CompactRangeOptions(), nullptr, nullptr), "compact");
    }
  });
  const int before = witness->flushes_ended;
  Check(db->Put(WriteOptions(), "flushed0", "y"), "put");
  Check(db->Flush(FlushOptions()), "flush");
  if (witness->flushes_ended != before + 1) Fail("a flush was not told of");
  if (witness->flushes_begun != witness->flushes_ended) Fail("a flush was told of in part");
  if (witness->compactions_begun != steps / 20 || witness->compactions_ended != steps / 20) {
    Fail("compactions told of: " + std::to_string(witness->compactions_begun));
  }
}

// A child ends with its database open; nothing of what it wrote is missing, nor of what its parent writes
// while a child of the child ends as well.
void EndKeeps(const std::string& dir) {
  const pid_t child = ::fork();
  if (child == 0) {
    DB* db = Open(dir);
    for (int i = 0; i < 50; i++) Check(db->Put(WriteOptions(), "k" + std::to_string(i), "v"), "put");
    const pid_t grandchild = ::fork();
    if (grandchild == 0) std::exit(0);
    int status = 0;
    if (::waitpid(grandchild, &status, 0) != grandchild || status != 0) Fail("a fork did not end");
    Check(db->Put(WriteOptions(), "k50", "v"), "put");
    std::exit(0);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0) Fail("the child did not end");
  DB* db = Open(dir);
  for (int i = 0; i <= 50; i++) {
    std::string value;
    Check(db->Get(ReadOptions(), "k" + std::to_string(i), &value), "get after an end");
  }
  delete db;
}

// A child dies one write after a checkpoint, which has the number of the moment.
void NumbersGoOn(const std::string& dir) {
  const pid_t child = ::fork();
  if (child == 0) {
    DB* db = Open(dir + "/db");
    WriteOptions options;
    options.sync = true;
    for (int i = 0; i < 50; i++) Check(db->Put(options, "k", "v"), "put");
    Checkpoint* checkpoint = nullptr;
    Check(Checkpoint::Create(db, &checkpoint), "checkpoint");
    Check(checkpoint->CreateCheckpoint(dir + "/copy"), "create a checkpoint");
    Check(db->Put(options, "k", "v"), "put");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) Fail("the child did not die");
  for (const auto& [name, least] : {std::pair("/db", 51), std::pair("/copy", 50)}) {
    DB* db = Open(dir + name);
    if (db->GetLatestSequenceNumber() < static_cast<uint64_t>(least)) {
      Fail(std::string("after a checkpoint, sequence numbers went back: ") + name);
    }
    delete db;
  }
}

// A child writes and dies; what it was promised is there.
void DeathKeeps(const std::string& dir, const char* durability, bool sync) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (durability != nullptr) ::setenv("HELIOX_DURABILITY", durability, 1);
    DB* db = Open(dir);
    WriteOptions options;
    options.sync = sync;
    for (int i = 0; i < 50; i++) Check(db->Put(options, "k" + std::to_string(i), "v"), "put");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) Fail("the child did not die");
  DB* db = Open(dir);
  for (int i = 0; i < 50; i++) {
    std::string value;
    Check(db->Get(ReadOptions(), "k" + std::to_string(i), &value), "get after a death");
  }
  if (db->GetLatestSequenceNumber() < 50) Fail("sequence numbers went back");
  Check(db->Close(), "close");
  delete db;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string dir = argv[1];
  const int steps = argc > 2 ? std::atoi(argv[2]) : 2000;
  // First, since a child of a process with threads may do little.
  EndKeeps(dir + "/ended");
  DeathKeeps(dir + "/handed", "0", false);
  DeathKeeps(dir + "/synced", nullptr, true);
  Check(::mkdir((dir + "/numbers").c_str(), 0755) == 0 ? Status::OK() : Status::IOError(), "mkdir");
  NumbersGoOn(dir + "/numbers");
  DB* db = Open(dir + "/db");
  MergesAreKept(db, steps);
  BatchesAreWhole(db, steps);
  RangesAreWhole(db, steps / 4);
  ListenersAreTold(db, steps);
  const int gone = witness->handles_gone;
  FamiliesComeAndGo(db, steps);
  if (witness->handles_gone != gone + kThreads * (steps / 20)) Fail("handles went unseen");
  Check(db->Close(), "close");
  delete db;
  db = Open(dir + "/db");
  SumIsConstant(db, ReadOptions());
  delete db;
  std::printf("threads: all of it held\n");
  return 0;
}
