// Random operations on a database of LevelDB's interface, every answer printed: run on LevelDB and
// on Heliox with the same seed, the output is the same. One thread.
//
//     compare DIR SEED STEPS
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using leveldb::Slice;
using leveldb::Status;

std::string Shown(const Slice& bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size() && at < 40; at++) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(bytes[at]));
    text += digits;
  }
  return text + "/" + std::to_string(bytes.size());
}

const char* Kind(const Status& status) {
  if (status.ok()) return "ok";
  if (status.IsNotFound()) return "not found";
  if (status.IsCorruption()) return "corruption";
  if (status.IsIOError()) return "io error";
  if (status.IsNotSupportedError()) return "not supported";
  return "invalid argument";
}

class Run {
 public:
  Run(std::string dir, unsigned seed) : dir_(std::move(dir)), random_(seed) { Open(); }
  ~Run() { Close(); }

  void Step(int number) {
    std::printf("%d ", number);
    const unsigned dice = Below(100);
    if (dice < 30) {
      Put();
    } else if (dice < 42) {
      const std::string key = Key();
      std::printf("delete %s: %s\n", Shown(key).c_str(), Kind(db_->Delete(Write(), key)));
    } else if (dice < 54) {
      Batch();
    } else if (dice < 74) {
      Get();
    } else if (dice < 90) {
      Walk();
    } else if (dice < 97) {
      Moments();
    } else if (dice < 98) {
      db_->CompactRange(nullptr, nullptr);
      std::printf("compact\n");
    } else {
      Reopen();
    }
  }

  // Everything there is, in both directions.
  void All() {
    const std::unique_ptr<leveldb::Iterator> it(db_->NewIterator(leveldb::ReadOptions()));
    for (it->SeekToFirst(); it->Valid(); it->Next()) Entry(*it);
    for (it->SeekToLast(); it->Valid(); it->Prev()) std::printf("%s\n", Shown(it->key()).c_str());
    std::printf("end: %s\n", Kind(it->status()));
  }

 private:
  unsigned Below(unsigned end) { return static_cast<unsigned>(random_() % end); }

  // Few keys, so that they meet again; some empty, with zeros, or a prefix of others.
  std::string Key() {
    static const char kBytes[] = {'\0', 'a', 'b', '\x7F', '\x80', '\xFF'};
    std::string key;
    for (unsigned length = Below(5); length > 0; length--) key += kBytes[Below(sizeof kBytes)];
    if (Below(200) == 0) key += std::string(60000, 'k');
    return key;
  }
  std::string Value() {
    std::string value(Below(10) == 0 ? Below(200000) : Below(60), '\0');
    for (char& byte : value) byte = static_cast<char>(random_());
    return value;
  }
  leveldb::WriteOptions Write() {
    leveldb::WriteOptions options;
    options.sync = Below(20) == 0;
    return options;
  }
  leveldb::ReadOptions Read() {
    leveldb::ReadOptions options;
    options.verify_checksums = Below(2) == 0;
    options.fill_cache = Below(2) == 0;
    if (!moments_.empty() && Below(2) == 0) options.snapshot = moments_[Below(moments_.size())];
    return options;
  }

  void Put() {
    const std::string key = Key();
    const std::string value = Value();
    std::printf("put %s %s: %s\n", Shown(key).c_str(), Shown(value).c_str(),
                Kind(db_->Put(Write(), key, value)));
  }

  void Batch() {
    leveldb::WriteBatch batch;
    const unsigned count = Below(12);
    for (unsigned at = 0; at < count; at++) {
      const std::string key = Key();
      if (Below(3) == 0) {
        batch.Delete(key);
      } else {
        batch.Put(key, Value());
      }
      if (Below(40) == 0) batch.Clear();
      leveldb::WriteBatch more;
      more.Put(Key(), "appended");
      if (Below(10) == 0) batch.Append(more);
    }
    std::printf("batch of %u: %s\n", count, Kind(db_->Write(Write(), &batch)));
  }

  void Get() {
    const std::string key = Key();
    std::string value = "as it was";
    const Status got = db_->Get(Read(), key, &value);
    std::printf("get %s: %s %s\n", Shown(key).c_str(), Kind(got), Shown(value).c_str());
  }

  static void Entry(const leveldb::Iterator& it) {
    std::printf("%s = %s\n", Shown(it.key()).c_str(), Shown(it.value()).c_str());
  }

  void Walk() {
    const std::unique_ptr<leveldb::Iterator> it(db_->NewIterator(Read()));
    // What is written now the iterator does not see.
    if (Below(3) == 0) (void)db_->Put(leveldb::WriteOptions(), Key(), "written meanwhile");
    std::printf("walk from %d\n", it->Valid());
    for (unsigned steps = Below(30); steps > 0; steps--) {
      const unsigned dice = Below(12);
      if (dice == 0) {
        it->SeekToFirst();
      } else if (dice == 1) {
        it->SeekToLast();
      } else if (dice < 4 || !it->Valid()) {
        it->Seek(Key());
      } else if (dice < 8) {
        it->Next();
      } else {
        it->Prev();
      }
      std::printf("  %u: ", dice);
      if (it->Valid()) {
        Entry(*it);
      } else {
        std::printf("nowhere, %s\n", Kind(it->status()));
      }
    }
  }

  void Moments() {
    if (moments_.size() < 6 && Below(3) > 0) {
      moments_.push_back(db_->GetSnapshot());
      std::printf("snapshot\n");
    } else if (!moments_.empty()) {
      const unsigned at = Below(moments_.size());
      db_->ReleaseSnapshot(moments_[at]);
      moments_.erase(moments_.begin() + at);
      std::printf("release %u\n", at);
    } else {
      std::printf("no snapshots\n");
    }
  }

  void Open() {
    leveldb::Options options;
    options.create_if_missing = true;
    options.block_cache = cache_.get();
    options.filter_policy = filter_.get();
    leveldb::DB* raw = nullptr;
    const Status opened = leveldb::DB::Open(options, dir_, &raw);
    std::printf("open: %s\n", Kind(opened));
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.ToString().c_str());
      std::exit(1);
    }
    db_.reset(raw);
  }

  void Close() {
    for (const leveldb::Snapshot* moment : moments_) db_->ReleaseSnapshot(moment);
    moments_.clear();
    db_.reset();
  }

  void Reopen() {
    Close();
    if (Below(12) == 0) {
      std::printf("destroy: %s\n", Kind(leveldb::DestroyDB(dir_, leveldb::Options())));
    }
    leveldb::Options options;
    options.error_if_exists = Below(2) == 0;
    options.create_if_missing = options.error_if_exists;
    leveldb::DB* raw = nullptr;
    const Status opened = leveldb::DB::Open(options, dir_, &raw);
    std::printf("open with %d: %s %d\n", options.error_if_exists, Kind(opened), raw != nullptr);
    delete raw;
    Open();
  }

  const std::string dir_;
  std::mt19937 random_;
  const std::unique_ptr<leveldb::Cache> cache_{leveldb::NewLRUCache(1 << 20)};
  const std::unique_ptr<const leveldb::FilterPolicy> filter_{leveldb::NewBloomFilterPolicy(10)};
  std::unique_ptr<leveldb::DB> db_;
  std::vector<const leveldb::Snapshot*> moments_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "compare DIR SEED STEPS\n");
    return 2;
  }
  Run run(argv[1], static_cast<unsigned>(std::atoi(argv[2])));
  const int steps = std::atoi(argv[3]);
  for (int step = 0; step < steps; step++) {
    run.Step(step);
    if (step % 500 == 499) run.All();
  }
  run.All();
  return 0;
}
