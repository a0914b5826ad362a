// What LevelDB's interface gives at its edges when Heliox stands in its place: options that are
// refused, places that are left alone, programs that die, threads. Says what does not hold.
//
//     edges DIR
#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/write_batch.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#define CHECK(holds)                                                     \
  do {                                                                   \
    if (!(holds)) {                                                      \
      std::fprintf(stderr, "edges.cc:%d: %s\n", __LINE__, #holds);       \
      std::exit(1);                                                      \
    }                                                                    \
  } while (0)

namespace {

namespace fs = std::filesystem;
using leveldb::DB;
using leveldb::Slice;
using leveldb::Status;

leveldb::Options Creating() {
  leveldb::Options options;
  options.create_if_missing = true;
  return options;
}

std::unique_ptr<DB> Open(const std::string& dir) {
  DB* raw = nullptr;
  const Status opened = DB::Open(Creating(), dir, &raw);
  if (!opened.ok()) std::fprintf(stderr, "%s\n", opened.ToString().c_str());
  CHECK(opened.ok());
  CHECK(fs::exists(dir + "/HELIOX") && !fs::exists(dir + "/CURRENT"));
  return std::unique_ptr<DB>(raw);
}

bool Says(const Status& status, const char* words) {
  const bool says = status.ToString().find(words) != std::string::npos;
  if (!says) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return says;
}

Status TryOpen(const leveldb::Options& options, const std::string& dir) {
  DB* raw = reinterpret_cast<DB*>(1);
  const Status opened = DB::Open(options, dir, &raw);
  CHECK(opened.ok() == (raw != nullptr));
  delete raw;
  return opened;
}

class Backwards : public leveldb::Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return b.compare(a); }
  const char* Name() const override { return "test.Backwards"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

void Refusals(const std::string& dir) {
  leveldb::Options options = Creating();
  Backwards backwards;
  options.comparator = &backwards;
  Status refused = TryOpen(options, dir);
  CHECK(refused.IsNotSupportedError() && Says(refused, "test.Backwards"));
  options.comparator = nullptr;
  CHECK(TryOpen(options, dir).IsInvalidArgument());
  options = Creating();
  leveldb::EnvWrapper env(leveldb::Env::Default());
  options.env = &env;
  CHECK(TryOpen(options, dir).IsNotSupportedError());
  CHECK(!fs::exists(dir));
  CHECK(Says(TryOpen(Creating(), dir + "/no/such/parent"), "No such file"));
  CHECK(leveldb::RepairDB(dir, Creating()).IsIOError());
  CHECK(leveldb::DestroyDB(dir, Creating()).ok());
}

// What the engine was given, as its own figures tell it.
uint64_t Budget(const leveldb::Options& options, const std::string& dir) {
  DB* raw = nullptr;
  CHECK(DB::Open(options, dir, &raw).ok());
  const std::unique_ptr<DB> db(raw);
  std::string figures;
  CHECK(db->GetProperty("leveldb.stats", &figures));
  const size_t at = figures.find("memory_budget_bytes: ");
  CHECK(at != std::string::npos);
  return std::strtoull(figures.c_str() + at + 21, nullptr, 10);
}

// A variable for as long as this lives.
class Set {
 public:
  Set(const char* name, const std::string& value) : name_(name) {
    const char* const before = std::getenv(name);
    if (before != nullptr) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Set() {
    if (before_.has_value()) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

void Environment(const std::string& dir) {
  const struct {
    const char* name;
    const char* value;
    const char* words;
  } refused[] = {{"HELIOX_MEMORY", "much", "HELIOX_MEMORY=much"},
                 {"HELIOX_MEMORY", "-1", "bytes are wanted"},
                 {"HELIOX_MEMORY", "2GBB", "bytes are wanted"},
                 {"HELIOX_MEMORY", "99999999999T", "bytes are wanted"},
                 {"HELIOX_DURABILITY", "abc", "milliseconds are wanted"},
                 {"HELIOX_DURABILITY", "1K", "milliseconds are wanted"},
                 {"HELIOX_DURABILITY", "3600001", "3600000"},
                 {"HELIOX_MEMROY", "1G", "HELIOX_MEMROY is not known"},
                 {"HELIOX_KEY_FILE", "/no/such/key", "/no/such/key"}};
  for (const auto& each : refused) {
    const Set set(each.name, each.value);
    CHECK(Says(TryOpen(Creating(), dir), each.words));
    CHECK(!fs::exists(dir + "/HELIOX"));
  }
  const struct {
    const char* text;
    uint64_t bytes;
  } sizes[] = {{"104857600", 100ull << 20}, {"100m", 100ull << 20},   {"100MiB", 100ull << 20},
               {"100MB", 100'000'000},      {"1g", 1ull << 30},       {"0.1G", 0},
               {"102400K", 100ull << 20},   {"104857600B", 100ull << 20}};
  for (const auto& size : sizes) {
    const Set set("HELIOX_MEMORY", size.text);
    if (size.bytes == 0) {
      CHECK(TryOpen(Creating(), dir).IsInvalidArgument());
    } else {
      CHECK(Budget(Creating(), dir) == size.bytes);
    }
  }
  CHECK(leveldb::DestroyDB(dir, Creating()).ok());
}

// With a key a store is encrypted, and opened by nobody without it.
void Encrypted(const std::string& dir) {
  const std::string key = dir + ".key";
  std::ofstream(key) << std::string(64, 'a') << "\n";
  {
    const Set set("HELIOX_KEY_FILE", key);
    CHECK(Open(dir)->Put({}, "fruit", "apple").ok());
    const Set both("HELIOX_KEY_COMMAND", "cat " + key);
    CHECK(Says(TryOpen(Creating(), dir), "set one of them"));
  }
  CHECK(Says(TryOpen(Creating(), dir), "encrypted"));
  {
    const Set set("HELIOX_KEY_COMMAND", "cat " + key);
    CHECK(leveldb::RepairDB(dir, Creating()).ok());
    std::string value;
    CHECK(Open(dir)->Get({}, "fruit", &value).ok() && value == "apple");
  }
  CHECK(leveldb::DestroyDB(dir, Creating()).ok());
  fs::remove(key);
}

void Budgets(const std::string& dir) {
  leveldb::Options options = Creating();
  CHECK(Budget(options, dir) == 64 << 20);
  const std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(100 << 20));
  options.block_cache = cache.get();
  options.write_buffer_size = 10 << 20;
  CHECK(Budget(options, dir) == 120 << 20);
  CHECK(leveldb::DestroyDB(dir, options).ok());
}

// A directory with LevelDB's own files is left as it is.
void Strangers(const std::string& dir) {
  fs::create_directory(dir);
  std::ofstream(dir + "/CURRENT") << "MANIFEST-000002\n";
  const Status refused = TryOpen(Creating(), dir);
  CHECK(refused.IsInvalidArgument() && Says(refused, "heliox import DIR --from leveldb"));
  std::ofstream(dir + "/IDENTITY") << "of RocksDB";
  CHECK(Says(TryOpen(Creating(), dir), "heliox import DIR --from rocksdb"));
  fs::remove(dir + "/IDENTITY");
  CHECK(leveldb::DestroyDB(dir, Creating()).IsInvalidArgument());
  CHECK(leveldb::RepairDB(dir, Creating()).IsInvalidArgument());
  CHECK(std::distance(fs::directory_iterator(dir), fs::directory_iterator()) == 1);
  fs::remove_all(dir);
}

void Destruction(const std::string& dir) {
  std::unique_ptr<DB> db = Open(dir);
  CHECK(db->Put(leveldb::WriteOptions(), "k", "v").ok());
  CHECK(leveldb::DestroyDB(dir, Creating()).IsIOError());
  CHECK(TryOpen(Creating(), dir).IsIOError());
  std::string value;
  CHECK(db->Get(leveldb::ReadOptions(), "k", &value).ok() && value == "v");
  db.reset();
  std::ofstream(dir + "/notes") << "not ours";
  // As a deletion leaves it whose process was killed.
  std::ifstream whole(dir + "/HELIOX");
  std::ofstream(dir + "/HELIOX.new") << whole.rdbuf() << "destroy\n";
  fs::remove(dir + "/HELIOX");
  leveldb::Options existing;
  CHECK(Says(TryOpen(existing, dir), "does not exist"));
  CHECK(leveldb::DestroyDB(dir, Creating()).ok());
  CHECK(std::distance(fs::directory_iterator(dir), fs::directory_iterator()) == 1);
  fs::remove_all(dir);
}

void Limits(const std::string& dir) {
  const std::unique_ptr<DB> db = Open(dir);
  const std::string longest(65535, 'k');
  const std::string too_long(65536, 'k');
  const leveldb::WriteOptions write;
  std::string value;
  CHECK(db->Put(write, longest, "v").ok());
  CHECK(db->Get(leveldb::ReadOptions(), longest, &value).ok());
  CHECK(db->Put(write, too_long, "v").IsInvalidArgument());
  CHECK(db->Get(leveldb::ReadOptions(), too_long, &value).IsNotFound());
  CHECK(db->Delete(write, too_long).ok());
  leveldb::WriteBatch batch;
  batch.Put("beside", "it");
  batch.Put(too_long, "v");
  CHECK(db->Write(write, &batch).IsInvalidArgument());
  CHECK(db->Get(leveldb::ReadOptions(), "beside", &value).IsNotFound());
  CHECK(db->Write(write, nullptr).ok());
  for (const char* level : {"0", "6"}) {
    CHECK(db->GetProperty(std::string("leveldb.num-files-at-level") + level, &value));
  }
  for (const char* level : {"", "7", "x", "1x", "99999999999999999999"}) {
    CHECK(!db->GetProperty(std::string("leveldb.num-files-at-level") + level, &value));
  }
  CHECK(db->GetProperty("leveldb.sstables", &value) && db->GetProperty("leveldb.stats", &value));
  CHECK(db->GetProperty("leveldb.approximate-memory-usage", &value) && value != "0");
}

// What a program wrote with `sync`, or with HELIOX_DURABILITY=0 at all, is there after its death.
void Death(const std::string& dir, bool is_synced) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!is_synced) ::setenv("HELIOX_DURABILITY", "0", 1);
    DB* db = Open(dir).release();
    leveldb::WriteOptions write;
    write.sync = is_synced;
    for (int at = 0; at < 50; at++) CHECK(db->Put(write, std::to_string(at), "v").ok());
    leveldb::WriteBatch batch;
    batch.Put("batch", "v");
    batch.Delete("0");
    CHECK(db->Write(write, &batch).ok());
    CHECK(db->Delete(write, "1").ok());
    ::raise(SIGKILL);
  }
  int how = 0;
  CHECK(::waitpid(child, &how, 0) == child && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
  const std::unique_ptr<DB> db = Open(dir);
  std::string value;
  for (int at = 2; at < 50; at++) {
    CHECK(db->Get(leveldb::ReadOptions(), std::to_string(at), &value).ok());
  }
  CHECK(db->Get(leveldb::ReadOptions(), "batch", &value).ok());
  CHECK(db->Get(leveldb::ReadOptions(), "0", &value).IsNotFound());
  CHECK(db->Get(leveldb::ReadOptions(), "1", &value).IsNotFound());
}

// Nothing is missing of what a program wrote that ended with its database open.
void End(const std::string& dir) {
  const pid_t child = ::fork();
  if (child == 0) {
    DB* db = Open(dir).release();
    for (int at = 0; at < 50; at++) CHECK(db->Put({}, std::to_string(at), "v").ok());
    std::exit(0);
  }
  int how = 0;
  CHECK(::waitpid(child, &how, 0) == child && how == 0);
  const std::unique_ptr<DB> db = Open(dir);
  std::string value;
  for (int at = 0; at < 50; at++) CHECK(db->Get({}, std::to_string(at), &value).ok());
}

// Batches are seen whole: two keys that are written together are always the same.
void Threads(const std::string& dir) {
  const std::unique_ptr<DB> db = Open(dir);
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 2; writer++) {
    threads.emplace_back([&db, writer] {
      for (int at = 0; at < 2000; at++) {
        leveldb::WriteBatch batch;
        const std::string value = std::to_string(writer) + "-" + std::to_string(at);
        batch.Put("left", value);
        batch.Put("right", value);
        CHECK(db->Write(leveldb::WriteOptions(), &batch).ok());
      }
    });
  }
  for (int reader = 0; reader < 2; reader++) {
    threads.emplace_back([&db] {
      for (int at = 0; at < 1000; at++) {
        leveldb::ReadOptions read;
        read.snapshot = db->GetSnapshot();
        std::string left;
        std::string right;
        const Status first = db->Get(read, "left", &left);
        const Status second = db->Get(read, "right", &right);
        CHECK(first.ok() == second.ok() && left == right);
        const std::unique_ptr<leveldb::Iterator> it(db->NewIterator(read));
        it->SeekToFirst();
        CHECK(it->Valid() == first.ok() && it->status().ok());
        db->ReleaseSnapshot(read.snapshot);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string dir = argv[1];
  fs::create_directories(dir);
  Refusals(dir + "/refused");
  Budgets(dir + "/budget");
  Environment(dir + "/environment");
  Encrypted(dir + "/encrypted");
  Strangers(dir + "/stranger");
  Destruction(dir + "/destroyed");
  Limits(dir + "/limits");
  End(dir + "/end");
  Death(dir + "/synced", true);
  Death(dir + "/handed-over", false);
  Threads(dir + "/threads");
  return 0;
}
