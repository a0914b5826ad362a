// Reads a store of LevelDB, or makes one, for `heliox import` and `heliox export`: the program
// heliox-migrate-leveldb. A store that is read is not changed. One thread.
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/write_batch.h>

#include <memory>
#include <string>

#include "frozen_env.h"
#include "stream.h"

namespace {

using leveldb::Slice;
using leveldb::Status;
using migrate::Failure;
using migrate::Sum;

constexpr size_t kBatchBytes = 1 << 20;
constexpr char kFamily[] = "default";
constexpr char kComparator[] = "leveldb.BytewiseComparator";

void Check(const Status& status, const std::string& what) {
  if (!status.ok()) throw Failure(what + ": " + status.ToString());
}

leveldb::DB* OpenFrozen(const std::string& dir) {
  leveldb::Options options;
  options.env = new migrate::FrozenEnv;
  // A log with damage in it is an error instead of being cut off there.
  options.paranoid_checks = true;
  options.reuse_logs = false;
  leveldb::DB* db = nullptr;
  const Status opened = leveldb::DB::Open(options, dir, &db);
  if (opened.ToString().find("comparator") != std::string::npos) {
    throw Failure("the keys of " + dir + " are ordered by a comparator of its program: " +
                  opened.ToString() + "; Heliox orders keys by their bytes");
  }
  Check(opened, "LevelDB cannot open " + dir);
  return db;
}

template <typename Visit>
void ForEach(leveldb::DB* db, Visit visit) {
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  const std::unique_ptr<leveldb::Iterator> it(db->NewIterator(options));
  for (it->SeekToFirst(); it->Valid(); it->Next()) visit(it->key(), it->value());
  Check(it->status(), "LevelDB stops reading");
}

void Read(const std::string& dir) {
  migrate::LockForReading(dir);
  leveldb::DB* const db = OpenFrozen(dir);
  migrate::SendNumber(migrate::kTotal, migrate::BytesOf(dir));
  migrate::Send(migrate::kListed, kFamily, kComparator);
  migrate::Send(migrate::kFamily, kFamily, kComparator);
  Sum sum;
  ForEach(db, [&](const Slice& key, const Slice& value) {
    sum.Add(key.data(), key.size(), value.data(), value.size());
    migrate::Send(migrate::kRecord, key.data(), key.size(), value.data(), value.size());
  });
  migrate::SendSum(sum);
}

std::unique_ptr<leveldb::DB> Make(const std::string& dir) {
  leveldb::Options options;
  options.create_if_missing = true;
  options.error_if_exists = true;
  leveldb::DB* db = nullptr;
  Check(leveldb::DB::Open(options, dir, &db), "LevelDB cannot make a store");
  return std::unique_ptr<leveldb::DB>(db);
}

void Write(const std::string& dir) {
  const std::string partial = dir + ".partial";
  std::unique_ptr<leveldb::DB> db = Make(partial);
  leveldb::WriteBatch batch;
  migrate::Frame frame;
  Sum expected;
  for (migrate::Receive(&frame); frame.kind != migrate::kEnd; migrate::Receive(&frame)) {
    if (frame.kind == migrate::kSum) expected = migrate::SumOf(frame);
    if (frame.kind != migrate::kRecord) continue;
    batch.Put(frame.first, frame.second);
    if (batch.ApproximateSize() < kBatchBytes) continue;
    Check(db->Write(leveldb::WriteOptions(), &batch), "LevelDB cannot write");
    batch.Clear();
  }
  leveldb::WriteOptions synced;
  synced.sync = true;
  Check(db->Write(synced, &batch), "LevelDB cannot write");
  // Read from what a program will open.
  db.reset();
  leveldb::DB* const again = OpenFrozen(partial);
  Sum found;
  ForEach(again, [&](const Slice& key, const Slice& value) {
    found.Add(key.data(), key.size(), value.data(), value.size());
  });
  if (!(found == expected)) {
    throw Failure("what LevelDB gives back is not what was written: " +
                  std::to_string(found.count) + " keys of " + std::to_string(expected.count));
  }
  migrate::Publish(partial, dir);
}

}  // namespace

int main(int argc, char** argv) { return migrate::Main(argc, argv, Read, Write); }
