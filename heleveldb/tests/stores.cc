// Makes stores of LevelDB and RocksDB as their programs would, and shows what stores hold: for the
// tests of `heliox import` and `heliox export`. One thread.
//
//     stores make KIND DIR SEED COUNT
//     stores dump leveldb|rocksdb DIR
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/write_batch.h>
#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/utilities/db_ttl.h>
#include <rocksdb/utilities/options_util.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

template <typename Status>
void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "stores: %s\n", status.ToString().c_str());
  std::exit(1);
}

std::string Hexadecimal(const char* bytes, size_t length) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t at = 0; at < length; at++) {
    const auto byte = static_cast<unsigned char>(bytes[at]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

template <typename Iterator>
void Dump(const std::string& family, Iterator* it) {
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    std::printf("%s %s %s\n", family.c_str(),
                Hexadecimal(it->key().data(), it->key().size()).c_str(),
                Hexadecimal(it->value().data(), it->value().size()).c_str());
  }
  Check(it->status());
}

// Keys and values of all kinds.
class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {}
  unsigned Below(unsigned end) { return static_cast<unsigned>(random_() % end); }
  std::string Key() {
    if (Below(500) == 0) return std::string(Below(60000), 'k');
    std::string key(Below(20), '\0');
    for (char& byte : key) byte = Below(3) == 0 ? "\x00\x01\xFF"[Below(3)] : char(Below(256));
    return key;
  }
  std::string Value() {
    std::string value(Below(100) == 0 ? Below(300000) : Below(120), '\0');
    for (char& byte : value) byte = static_cast<char>(random_());
    return value;
  }

 private:
  std::mt19937 random_;
};

// The reverse of LevelDB's order, by a name that no library knows.
template <typename Base, typename Slice>
class Backwards : public Base {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return b.compare(a); }
  const char* Name() const override { return "program.Backwards"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

class Concatenation : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice&, const rocksdb::Slice* base, const rocksdb::Slice& operand,
             std::string* value, rocksdb::Logger*) const override {
    *value = (base == nullptr ? "" : base->ToString()) + operand.ToString();
    return true;
  }
  const char* Name() const override { return "program.Concatenation"; }
};

void MakeLevelDB(const std::string& kind, const std::string& dir, unsigned seed, int count) {
  static Backwards<leveldb::Comparator, leveldb::Slice> backwards;
  leveldb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 256 << 10;
  if (kind == "leveldb-comparator") options.comparator = &backwards;
  leveldb::DB* raw = nullptr;
  Check(leveldb::DB::Open(options, dir, &raw));
  Random random(seed);
  for (int at = 0; at < count; at++) {
    leveldb::WriteBatch batch;
    batch.Put(random.Key(), random.Value());
    if (random.Below(4) == 0) batch.Delete(random.Key());
    Check(raw->Write(leveldb::WriteOptions(), &batch));
  }
  Check(raw->Put(leveldb::WriteOptions(), "fruit", "apple"));
  Check(raw->Put(leveldb::WriteOptions(), "gone", "soon"));
  Check(raw->Delete(leveldb::WriteOptions(), "gone"));
  // As a program ends that is killed: the log stays.
  if (kind == "leveldb-killed") std::_Exit(0);
  if (kind == "leveldb-open") ::pause();
  delete raw;
}

std::string Odd() { return std::string("\xFFodd\x01", 5); }

rocksdb::DB* OpenToMake(const std::string& kind, const std::string& dir) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 256 << 10;
  static Backwards<rocksdb::Comparator, rocksdb::Slice> backwards;
  if (kind == "rocksdb-comparator") options.comparator = &backwards;
  if (kind.find("rocksdb-merge") == 0) options.merge_operator = std::make_shared<Concatenation>();
  if (kind == "rocksdb-append") {
    Check(rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend",
                                                   &options.merge_operator));
  }
  if (kind == "rocksdb-ttl") {
    rocksdb::DBWithTTL* ttl = nullptr;
    Check(rocksdb::DBWithTTL::Open(options, dir, &ttl, 3600));
    return ttl;
  }
  rocksdb::DB* raw = nullptr;
  Check(rocksdb::DB::Open(options, dir, &raw));
  return raw;
}

void MakeRocksDB(const std::string& kind, const std::string& dir, unsigned seed, int count) {
  static Backwards<rocksdb::Comparator, rocksdb::Slice> backwards;
  const std::unique_ptr<rocksdb::DB> db(OpenToMake(kind, dir));
  std::vector<rocksdb::ColumnFamilyHandle*> families = {db->DefaultColumnFamily()};
  const auto add = [&](const std::string& name, const rocksdb::Comparator* comparator) {
    rocksdb::ColumnFamilyOptions options;
    options.comparator = comparator;
    families.emplace_back();
    Check(db->CreateColumnFamily(options, name, &families.back()));
  };
  const bool is_plain = kind == "rocksdb" || kind == "rocksdb-killed" || kind == "rocksdb-odd";
  if (is_plain) add("films", rocksdb::BytewiseComparator());
  if (is_plain) add("empty", rocksdb::BytewiseComparator());
  if (kind == "rocksdb-odd") add("backwards", rocksdb::ReverseBytewiseComparator());
  if (kind == "rocksdb-odd") add(Odd(), rocksdb::BytewiseComparator());
  if (kind == "rocksdb-foreign") add("ordered", &backwards);
  Random random(seed);
  const rocksdb::WriteOptions write;
  for (int at = 0; at < count; at++) {
    auto* family = families[random.Below(static_cast<unsigned>(families.size()))];
    if (family->GetName() == "empty") continue;
    Check(db->Put(write, family, random.Key(), random.Value()));
    if (random.Below(4) == 0) Check(db->Delete(write, family, random.Key()));
    if (is_plain && at == count / 2) Check(db->DeleteRange(write, families[1], "a", "k"));
  }
  Check(db->Put(write, "fruit", "apple"));
  if (kind.find("rocksdb-merge") == 0 || kind == "rocksdb-append") {
    Check(db->Merge(write, "sum", "1"));
    // Held, so that the operands are not merged as they are written out.
    if (kind == "rocksdb-merge-flushed") (void)db->GetSnapshot();
    Check(db->Merge(write, "sum", "2"));
    if (kind == "rocksdb-merge-flushed") Check(db->Flush(rocksdb::FlushOptions()));
    if (kind == "rocksdb-merge-flushed") std::_Exit(0);
  }
  if (kind == "rocksdb-entity") {
    Check(db->PutEntity(write, families[0], "row", rocksdb::WideColumns{{"", "a"}, {"b", "c"}}));
  }
  if (kind == "rocksdb-killed") std::_Exit(0);
  for (size_t at = 1; at < families.size(); at++) {
    Check(db->DestroyColumnFamilyHandle(families[at]));
  }
}

void DumpLevelDB(const std::string& dir) {
  leveldb::DB* raw = nullptr;
  Check(leveldb::DB::Open(leveldb::Options(), dir, &raw));
  const std::unique_ptr<leveldb::DB> db(raw);
  const std::unique_ptr<leveldb::Iterator> it(db->NewIterator(leveldb::ReadOptions()));
  Dump("default", it.get());
}

// Opens for writing too, so that all families must be named and fit.
void DumpRocksDB(const std::string& dir) {
  std::vector<std::string> names;
  Check(rocksdb::DB::ListColumnFamilies(rocksdb::DBOptions(), dir, &names));
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) {
    rocksdb::ColumnFamilyOptions options;
    if (name == "backwards") options.comparator = rocksdb::ReverseBytewiseComparator();
    families.emplace_back(name, options);
  }
  rocksdb::DB* raw = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  Check(rocksdb::DB::Open(rocksdb::DBOptions(), dir, families, &handles, &raw));
  const std::unique_ptr<rocksdb::DB> db(raw);
  // Ids differ between stores that hold the same.
  std::map<std::string, rocksdb::ColumnFamilyHandle*> sorted;
  for (auto* handle : handles) sorted[handle->GetName()] = handle;
  for (const auto& each : sorted) {
    std::printf("family %s\n", Hexadecimal(each.first.data(), each.first.size()).c_str());
    const std::unique_ptr<rocksdb::Iterator> it(
        db->NewIterator(rocksdb::ReadOptions(), each.second));
    Dump(each.first, it.get());
  }
  for (auto* handle : handles) Check(db->DestroyColumnFamilyHandle(handle));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 5 && args[0] == "make") {
    const auto seed = static_cast<unsigned>(std::atoi(args[3].c_str()));
    const bool is_leveldb = args[1].compare(0, 7, "leveldb") == 0;
    (is_leveldb ? MakeLevelDB : MakeRocksDB)(args[1], args[2], seed, std::atoi(args[4].c_str()));
  } else if (args.size() == 3 && args[0] == "dump") {
    (args[1] == "leveldb" ? DumpLevelDB : DumpRocksDB)(args[2]);
  } else {
    return 2;
  }
  return 0;
}
