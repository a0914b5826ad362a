// The same random operations on RocksDB and on Heliox, in one process, every answer compared.
//
//   compare DIR SEED STEPS THREADS [ROUNDS]
//
// Ours is found by its name, RocksDB's own by asking the renamed library for the function that ours
// stands in the place of. Each thread works on keys of its own, so that its answers do not depend
// on the others; between rounds both databases are closed, opened again and compared as a whole.
// A difference is told with seed, thread and step, and ends the program with 1.
#include <dlfcn.h>
#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace rocksdb;

// Joins operands with a comma; associative, so partial merges happen.
class Join : public AssociativeMergeOperator {
 public:
  bool Merge(const Slice&, const Slice* existing, const Slice& value, std::string* result,
             Logger*) const override {
    result->clear();
    if (existing != nullptr) result->assign(existing->data(), existing->size()).append(",");
    result->append(value.data(), value.size());
    return true;
  }
  const char* Name() const override { return "Join"; }
};

// Keeps the oldest and adds the newest: not associative, never partial.
class Newest : public MergeOperator {
 public:
  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    out->new_value = in.existing_value == nullptr ? "-" : in.existing_value->ToString();
    for (const Slice& operand : in.operand_list) {
      if (out->new_value.size() > 40) out->new_value.resize(20);
      out->new_value += "<" + operand.ToString();
    }
    return true;
  }
  bool PartialMergeMulti(const Slice&, const std::deque<Slice>&, std::string*,
                         Logger*) const override {
    return false;
  }
  const char* Name() const override { return "Newest"; }
};

constexpr int kFamilies = 5;
const char* const kNames[kFamilies] = {"default", "joined", "newest", "reversed", "prefixed"};

ColumnFamilyOptions OptionsOf(int family) {
  ColumnFamilyOptions options;
  if (family == 1) options.merge_operator = std::make_shared<Join>();
  if (family == 2) options.merge_operator = std::make_shared<Newest>();
  if (family == 3) options.comparator = ReverseBytewiseComparator();
  if (family == 4) options.prefix_extractor.reset(NewFixedPrefixTransform(2));
  options.write_buffer_size = 256 << 10;
  return options;
}

using OpenFn = Status (*)(const DBOptions&, const std::string&,
                          const std::vector<ColumnFamilyDescriptor>&,
                          std::vector<ColumnFamilyHandle*>*, DB**);

OpenFn RealOpen() {
  void* real = dlopen("librocksdb-real.so.7.8", RTLD_NOW | RTLD_NOLOAD);
  void* found =
      real == nullptr
          ? nullptr
          : dlsym(real,
                  "_ZN7rocksdb2DB4OpenERKNS_9DBOptionsERKNSt7__cxx1112basic_stringIcSt11char_"
                  "traitsIcESaIcEEERKSt6vectorINS_22ColumnFamilyDescriptorESaISD_EEPSC_IPNS_"
                  "18ColumnFamilyHandleESaISJ_EEPPS0_");
  if (found == nullptr) {
    std::fprintf(stderr, "compare: RocksDB's own library is not here: %s\n", dlerror());
    std::exit(2);
  }
  return reinterpret_cast<OpenFn>(found);
}

// One of the two databases.
struct Side {
  Side(std::string dir_, OpenFn open_) : dir(std::move(dir_)), open(open_) {}

  std::string dir;
  OpenFn open;
  DB* db = nullptr;
  std::vector<ColumnFamilyHandle*> families;

  Status Open() {
    DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<ColumnFamilyDescriptor> wanted;
    for (int i = 0; i < kFamilies; i++) wanted.emplace_back(kNames[i], OptionsOf(i));
    return open(options, dir, wanted, &families, &db);
  }
  Status Close() {
    for (ColumnFamilyHandle* handle : families) {
      Status destroyed = db->DestroyColumnFamilyHandle(handle);
      if (!destroyed.ok()) return destroyed;
    }
    families.clear();
    Status closed = db->Close();
    delete db;
    db = nullptr;
    return closed;
  }
};

uint64_t seed = 0;
std::atomic<uint64_t> compared{0};

// Bytes that are no text, as what they are.
std::string Printable(const std::string& bytes) {
  std::string text;
  char last = 0;
  int run = 0;
  for (const char byte : bytes) {
    run = byte == last ? run + 1 : 0;
    last = byte;
    if (run > 8 || text.size() > 600) continue;
    char digits[5];
    std::snprintf(digits, sizeof digits, "\\x%02x", static_cast<unsigned char>(byte));
    text += byte >= ' ' && byte <= '~' ? std::string(1, byte) : std::string(digits);
  }
  return text;
}

// One thread's work on its own keys.
class Worker {
 public:
  Worker(Side* real, Side* ours, int thread, int round)
      : sides_{real, ours}, thread_(thread), random_(seed * 1000003 + thread * 101 + round) {}

  void Run(int steps) {
    for (step_ = 0; step_ < steps; step_++) Step();
    while (!snapshots_.empty()) Release();
  }

 private:
  struct Snapshots {
    const Snapshot* of[2];
  };

  uint64_t Draw(uint64_t below) { return random_() % below; }

  [[noreturn]] void Differ(const char* what, const std::string& real, const std::string& ours) {
    std::fprintf(stderr,
                 "compare: %s differs (seed %llu, thread %d, step %d)\n  RocksDB: %s\n  Heliox:  %s\n",
                 what, static_cast<unsigned long long>(seed), thread_, step_,
                 Printable(real).c_str(), Printable(ours).c_str());
    std::_Exit(1);
  }

  void Same(const char* what, const std::string& real, const std::string& ours) {
    compared.fetch_add(1, std::memory_order_relaxed);
    if (real != ours) Differ(what, real, ours);
  }

  void SameStatus(const char* what, const Status& real, const Status& ours) {
    compared.fetch_add(1, std::memory_order_relaxed);
    if (real.code() != ours.code()) Differ(what, real.ToString(), ours.ToString());
  }

  // The thread's letter, two letters, and sometimes bytes at the ends of what a byte can be.
  std::string Key() {
    std::string key(1, static_cast<char>('a' + thread_));
    key += static_cast<char>('a' + Draw(6));
    if (Draw(10) > 0) key += static_cast<char>('a' + Draw(12));
    const char odd[] = {'\x00', '\xff', '\x01', '\xfe'};
    for (uint64_t n = Draw(8) == 0 ? 1 + Draw(3) : 0; n > 0; n--) key += odd[Draw(4)];
    return key;
  }

  std::string Bytes() {
    const uint64_t kind = Draw(20);
    if (kind == 0) return "";
    if (kind == 1) return std::string(2000 + Draw(6000), static_cast<char>('A' + Draw(26)));
    return "v" + std::to_string(random_());
  }

  std::string Operand() { return std::to_string(Draw(1000)); }

  // A second key that does not come before the first in the family's order.
  std::pair<std::string, std::string> Ordered(int family) {
    std::pair<std::string, std::string> ends(Key(), Key());
    const Comparator* order = sides_[0]->families[family]->GetComparator();
    if (order->Compare(ends.first, ends.second) > 0) std::swap(ends.first, ends.second);
    return ends;
  }

  WriteOptions Writing() {
    WriteOptions options;
    options.sync = Draw(100) == 0;
    return options;
  }

  ReadOptions Reading(int side) {
    ReadOptions options;
    options.total_order_seek = true;
    if (chosen_ >= 0) options.snapshot = snapshots_[chosen_].of[side];
    return options;
  }

  void Choose() {
    chosen_ = snapshots_.empty() || Draw(2) == 0 ? -1 : static_cast<int>(Draw(snapshots_.size()));
  }

  void Step() {
    Choose();
    const uint64_t what = Draw(100);
    if (what < 22) return Put();
    if (what < 30) return Delete();
    if (what < 40) return Merge();
    if (what < 50) return Batch();
    if (what < 53) return DeleteRange();
    if (what < 68) return Get();
    if (what < 76) return MultiGet();
    if (what < 90) return Iterate();
    if (what < 92) return Operands();
    if (what < 96) return Take();
    if (what < 98) return Release();
    if (what < 99) return Flush();
    return MayExist();
  }

  void Put() {
    const int family = static_cast<int>(Draw(kFamilies));
    const std::string key = Key(), value = Bytes();
    const WriteOptions options = Writing();
    Status done[2];
    for (int i = 0; i < 2; i++) done[i] = sides_[i]->db->Put(options, Of(i, family), key, value);
    SameStatus("Put", done[0], done[1]);
  }

  void Delete() {
    const int family = static_cast<int>(Draw(kFamilies));
    const std::string key = Key();
    const WriteOptions options = Writing();
    Status done[2];
    for (int i = 0; i < 2; i++) done[i] = sides_[i]->db->Delete(options, Of(i, family), key);
    SameStatus("Delete", done[0], done[1]);
  }

  void Merge() {
    const int family = Draw(30) == 0 ? 0 : 1 + static_cast<int>(Draw(2));
    const std::string key = Key(), operand = Operand();
    Status done[2];
    for (int i = 0; i < 2; i++) {
      done[i] = sides_[i]->db->Merge(WriteOptions(), Of(i, family), key, operand);
    }
    SameStatus("Merge", done[0], done[1]);
  }

  void Batch() {
    WriteBatch batch;
    Status added;
    for (uint64_t n = Draw(8); n > 0; n--) {
      const int family = static_cast<int>(Draw(kFamilies));
      ColumnFamilyHandle* handle = Of(0, family);
      const uint64_t kind = Draw(20);
      if (kind < 9) {
        added = batch.Put(handle, Key(), Bytes());
      } else if (kind < 13) {
        added = batch.Delete(handle, Key());
      } else if (kind < 18) {
        const int merged = 1 + static_cast<int>(Draw(2));
        added = batch.Merge(Of(0, merged), Key(), Operand());
      } else if (kind < 19) {
        const int ranged = Ranged();
        const auto ends = Ordered(ranged);
        added = batch.DeleteRange(Of(0, ranged), ends.first, ends.second);
      } else {
        added = batch.PutLogData("words");
      }
      if (!added.ok()) Differ("WriteBatch", added.ToString(), "");
    }
    const WriteOptions options = Writing();
    WriteBatch again(batch);
    SameStatus("Write", sides_[0]->db->Write(options, &batch),
               sides_[1]->db->Write(options, &again));
  }

  // RocksDB's tailing iterators do not see range deletes, so one family goes without.
  int Ranged() { return 1 + static_cast<int>(Draw(kFamilies - 1)); }

  void DeleteRange() {
    const int family = Ranged();
    // Ends in the wrong order would end all writing in RocksDB.
    const auto ends = Ordered(family);
    Status done[2];
    for (int i = 0; i < 2; i++) {
      done[i] = sides_[i]->db->DeleteRange(WriteOptions(), Of(i, family), ends.first, ends.second);
    }
    SameStatus("DeleteRange", done[0], done[1]);
  }

  void Get() {
    const int family = static_cast<int>(Draw(kFamilies));
    const std::string key = Key();
    Status done[2];
    std::string values[2];
    const bool pinned = Draw(2) == 0;
    for (int i = 0; i < 2; i++) {
      if (pinned) {
        PinnableSlice value;
        done[i] = sides_[i]->db->Get(Reading(i), Of(i, family), key, &value);
        if (done[i].ok()) values[i] = value.ToString();
      } else {
        done[i] = sides_[i]->db->Get(Reading(i), Of(i, family), key, &values[i]);
      }
    }
    SameStatus("Get", done[0], done[1]);
    if (done[0].ok()) Same("Get", values[0], values[1]);
  }

  void MultiGet() {
    const size_t count = 1 + Draw(12);
    std::vector<std::string> keys(count);
    std::vector<int> families(count);
    const bool one_family = Draw(2) == 0;
    for (size_t i = 0; i < count; i++) {
      keys[i] = Key();
      families[i] = one_family && i > 0 ? families[0] : static_cast<int>(Draw(kFamilies));
    }
    const std::vector<Slice> slices(keys.begin(), keys.end());
    std::string told[2];
    const uint64_t form = Draw(3);
    for (int i = 0; i < 2; i++) {
      std::vector<ColumnFamilyHandle*> handles;
      for (const int family : families) handles.push_back(Of(i, family));
      std::vector<Status> statuses(count);
      std::vector<std::string> values(count);
      if (form == 0) {
        statuses = sides_[i]->db->MultiGet(Reading(i), handles, slices, &values);
      } else {
        std::vector<PinnableSlice> pinned(count);
        if (form == 1 && one_family) {
          sides_[i]->db->MultiGet(Reading(i), handles[0], count, slices.data(), pinned.data(),
                                  statuses.data());
        } else {
          sides_[i]->db->MultiGet(Reading(i), count, handles.data(), slices.data(), pinned.data(),
                                  statuses.data());
        }
        for (size_t k = 0; k < count; k++) values[k] = pinned[k].ToString();
      }
      for (size_t k = 0; k < count; k++) {
        told[i] += std::to_string(statuses[k].code()) + ":" +
                   (statuses[k].ok() ? values[k] : std::string()) + ";";
      }
    }
    Same("MultiGet", told[0], told[1]);
  }

  // Where the iterator stands, if that is among the thread's own keys.
  bool Stands(Iterator* iterator, std::string* told) {
    if (!iterator->Valid() && !iterator->status().ok()) {
      *told += "(" + std::to_string(iterator->status().code()) + ")";
      return false;
    }
    if (!iterator->Valid() || iterator->key().empty() || iterator->key()[0] != 'a' + thread_) {
      *told += "(end)";
      return false;
    }
    const Slice key = iterator->key();
    *told += key.ToString() + "=" + iterator->value().ToString() + ";";
    return true;
  }

  void Iterate() {
    const int family = static_cast<int>(Draw(kFamilies));
    const auto ends = Ordered(family);
    const std::string target = Key();
    const uint64_t bounds = Draw(4), begin = Draw(4), walk = random_();
    const bool same_prefix = family == 4 && Draw(2) == 0;
    const bool tailing = chosen_ < 0 && Draw(4) == 0 && family == 0;
    const auto later = Ordered(family);
    std::string told[2];
    for (int i = 0; i < 2; i++) {
      Slice lower(ends.first), upper(ends.second);
      ReadOptions options = Reading(i);
      if (bounds & 1) options.iterate_lower_bound = &lower;
      if (bounds & 2) options.iterate_upper_bound = &upper;
      options.tailing = tailing;
      if (same_prefix) {
        options.total_order_seek = false;
        options.prefix_same_as_start = true;
      }
      const std::unique_ptr<Iterator> iterator(sides_[i]->db->NewIterator(options, Of(i, family)));
      // A tailing iterator only goes forward, and one with a prefix is only told inside it.
      const bool forward_only = tailing || same_prefix;
      const uint64_t how = forward_only || bounds != 3 ? 2 + (forward_only ? 0 : begin % 2) : begin;
      Walk(iterator.get(), how, target, forward_only ? 0 : walk, &told[i]);
      // Programs change what the bounds point to between two seeks; RocksDB's tailing iterators do
      // not follow.
      if (tailing) continue;
      lower = later.first;
      upper = later.second;
      Walk(iterator.get(), how, target, forward_only ? 0 : walk, &told[i]);
    }
    const std::string what = std::string("Iterator of ") + kNames[family] + ", bounds " +
                             std::to_string(bounds) + " from " + Printable(ends.first) + " to " +
                             Printable(ends.second) + ", target " + Printable(target) + ", begin " +
                             std::to_string(begin) + (same_prefix ? ", same prefix" : "") +
                             (tailing ? ", tailing" : "") + (chosen_ < 0 ? "" : ", at a snapshot");
    Same(what.c_str(), told[0], told[1]);
  }

  // Seeks, and goes on in the directions that the bits of `walk` say.
  void Walk(Iterator* iterator, uint64_t how, const std::string& target, uint64_t walk,
            std::string* told) {
    Seek(iterator, how, target);
    if (!Stands(iterator, told)) return;
    for (uint64_t n = 0; n < 24; n++) {
      if (((walk >> (n / 4)) & 1) != 0) {
        iterator->Prev();
      } else {
        iterator->Next();
      }
      if (!Stands(iterator, told)) return;
    }
  }

  static void Seek(Iterator* iterator, uint64_t how, const std::string& target) {
    switch (how) {
      case 0: return iterator->SeekToFirst();
      case 1: return iterator->SeekToLast();
      case 2: return iterator->Seek(target);
      default: return iterator->SeekForPrev(target);
    }
  }

  // RocksDB merges operands when it likes, so what they make together is compared.
  void Operands() {
    const std::string key = Key();
    std::string told[2];
    Status done[2];
    for (int i = 0; i < 2; i++) {
      PinnableSlice operands[4096];
      GetMergeOperandsOptions wanted;
      wanted.expected_max_number_of_operands = 4096;
      int count = 0;
      done[i] = sides_[i]->db->GetMergeOperands(Reading(i), Of(i, 1), key, operands, &wanted, &count);
      for (int k = 0; k < count; k++) told[i] += (k > 0 ? "," : "") + operands[k].ToString();
    }
    // RocksDB gives up on some keys without a base.
    if (done[0].IsMergeInProgress()) return;
    SameStatus("GetMergeOperands", done[0], done[1]);
    Same("GetMergeOperands", told[0], told[1]);
  }

  void Take() {
    if (snapshots_.size() > 6) Release();
    snapshots_.push_back({{sides_[0]->db->GetSnapshot(), sides_[1]->db->GetSnapshot()}});
  }

  void Release() {
    if (snapshots_.empty()) return;
    const size_t at = Draw(snapshots_.size());
    for (int i = 0; i < 2; i++) sides_[i]->db->ReleaseSnapshot(snapshots_[at].of[i]);
    snapshots_.erase(snapshots_.begin() + static_cast<long>(at));
  }

  void Flush() {
    const int family = static_cast<int>(Draw(kFamilies));
    for (int i = 0; i < 2; i++) {
      Status flushed = sides_[i]->db->Flush(FlushOptions(), Of(i, family));
      if (!flushed.ok()) Differ("Flush", flushed.ToString(), "");
    }
  }

  // Ours may only deny what is not there.
  void MayExist() {
    const int family = static_cast<int>(Draw(kFamilies));
    const std::string key = Key();
    std::string value;
    const Status got = sides_[0]->db->Get(Reading(0), Of(0, family), key, &value);
    if (got.ok() && !sides_[1]->db->KeyMayExist(Reading(1), Of(1, family), key, &value)) {
      Differ("KeyMayExist", key, "false");
    }
  }

  ColumnFamilyHandle* Of(int side, int family) { return sides_[side]->families[family]; }

  Side* const sides_[2];
  const int thread_;
  std::mt19937_64 random_;
  int step_ = 0;
  int chosen_ = -1;
  std::vector<Snapshots> snapshots_;
};

void Check(const Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "compare: %s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}

// Everything in both, family by family, forward on one and checked backward on the other.
void CompareAll(Side* real, Side* ours) {
  for (int family = 0; family < kFamilies; family++) {
    ReadOptions options;
    options.total_order_seek = true;
    std::string told[2];
    for (int i = 0; i < 2; i++) {
      Side* side = i == 0 ? real : ours;
      const std::unique_ptr<Iterator> iterator(
          side->db->NewIterator(options, side->families[family]));
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        told[i] += iterator->key().ToString() + "=" + iterator->value().ToString() + ";";
      }
      told[i] += "(" + std::to_string(iterator->status().code()) + ")";
    }
    if (told[0] == told[1]) continue;
    std::fprintf(stderr, "compare: family %s differs as a whole (seed %llu)\n", kNames[family],
                 static_cast<unsigned long long>(seed));
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: compare DIR SEED STEPS THREADS [ROUNDS]\n");
    return 2;
  }
  const std::string dir = argv[1];
  seed = std::strtoull(argv[2], nullptr, 10);
  const int steps = std::atoi(argv[3]);
  const int threads = std::atoi(argv[4]);
  const int rounds = argc > 5 ? std::atoi(argv[5]) : 3;
  Side real(dir + "/real", RealOpen());
  Side ours(dir + "/ours", static_cast<OpenFn>(&DB::Open));
  if (real.open == ours.open) {
    std::fprintf(stderr, "compare: DB::Open is RocksDB's own: the drop-in was not found first\n");
    return 2;
  }
  for (int round = 0; round < rounds; round++) {
    Check(real.Open(), "opening RocksDB");
    Check(ours.Open(), "opening Heliox");
    for (int i = 0; i < kFamilies; i++) {
      if (real.families[i]->GetID() == ours.families[i]->GetID()) continue;
      std::fprintf(stderr, "compare: %s has id %u, and %u in Heliox\n", kNames[i],
                   real.families[i]->GetID(), ours.families[i]->GetID());
      return 1;
    }
    CompareAll(&real, &ours);
    std::vector<std::thread> running;
    for (int t = 0; t < threads; t++) {
      running.emplace_back([&, t] { Worker(&real, &ours, t, round).Run(steps); });
    }
    for (std::thread& thread : running) thread.join();
    CompareAll(&real, &ours);
    Check(real.Close(), "closing RocksDB");
    Check(ours.Close(), "closing Heliox");
  }
  std::printf("compare: seed %llu: %llu answers are the same\n",
              static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(compared.load()));
  return 0;
}
