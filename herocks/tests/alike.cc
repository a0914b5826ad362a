// What programs are answered, line by line: the same on RocksDB and on HeRocks.
//
//   alike DIR
//
// Prints steps with their Status and what was read. Batches with an index and merges, batches with marks of
// two-phase commits, iterators that pin, files that are ingested, checkpoints, backups.
#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/utilities/write_batch_with_index.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace rocksdb;

std::string dir;
DB* db = nullptr;
// The default one, one that joins, one that is reversed.
std::vector<ColumnFamilyHandle*> families;

// Not associative: the base is told from what is merged into it. Refuses "bad".
class Newest : public MergeOperator {
 public:
  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    out->new_value = in.existing_value == nullptr ? "-" : in.existing_value->ToString();
    for (const Slice& operand : in.operand_list) {
      if (operand == "bad") return false;
      out->new_value += "<" + operand.ToString();
    }
    return true;
  }
  const char* Name() const override { return "Newest"; }
};

ColumnFamilyOptions OptionsOf(int family) {
  ColumnFamilyOptions options;
  if (family == 1) options.merge_operator = std::make_shared<Newest>();
  if (family == 2) options.comparator = ReverseBytewiseComparator();
  // Keys of files can be pinned then, too.
  BlockBasedTableOptions table;
  table.use_delta_encoding = false;
  options.table_factory.reset(NewBlockBasedTableFactory(table));
  return options;
}

// A Status in one line, without the directory.
std::string Text(const Status& status) {
  std::string text = status.ToString();
  for (size_t at = text.find(dir); at != std::string::npos; at = text.find(dir)) {
    text.replace(at, dir.size(), "DIR");
  }
  return text;
}

void Say(const std::string& what, const Status& status) {
  std::printf("%s: %s\n", what.c_str(), Text(status).c_str());
}

// Only whether and how it failed: HeRocks says why in other words.
void SayCode(const std::string& what, const Status& status) {
  std::printf("%s: %d %d\n", what.c_str(), status.code(), status.subcode());
}

std::string Show(const Status& got, const std::string& value) {
  return got.ok() ? value : "(" + Text(got) + ")";
}

void PrintAll(const char* what, Iterator* raw) {
  const std::unique_ptr<Iterator> iterator(raw);
  std::printf("%s:", what);
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    std::printf(" %s=%s", iterator->key().ToString().c_str(), iterator->value().ToString().c_str());
  }
  std::printf(" | ");
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) {
    std::printf(" %s=%s", iterator->key().ToString().c_str(), iterator->value().ToString().c_str());
  }
  std::printf(" %s\n", Text(iterator->status()).c_str());
}

void PrintFamily(const char* what, ColumnFamilyHandle* family) {
  PrintAll(what, db->NewIterator(ReadOptions(), family));
}

void Open() {
  DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  std::vector<ColumnFamilyDescriptor> wanted;
  const char* const names[] = {"default", "merged", "reversed"};
  for (int i = 0; i < 3; i++) wanted.emplace_back(names[i], OptionsOf(i));
  Say("open", DB::Open(options, dir + "/db", wanted, &families, &db));
}

void IndexedReads(const char* what, WriteBatchWithIndex* batch, ColumnFamilyHandle* family) {
  std::printf("%s\n", what);
  const std::vector<std::string> keys = {"a", "b", "c", "d", "e", "none"};
  std::vector<Slice> slices(keys.begin(), keys.end());
  std::vector<PinnableSlice> values(keys.size());
  std::vector<Status> statuses(keys.size());
  batch->MultiGetFromBatchAndDB(db, ReadOptions(), family, keys.size(), slices.data(),
                                values.data(), statuses.data(), false);
  for (size_t i = 0; i < keys.size(); i++) {
    std::string alone;
    std::string both;
    const Status from_batch = batch->GetFromBatch(family, DBOptions(), keys[i], &alone);
    const Status from_both =
        batch->GetFromBatchAndDB(db, ReadOptions(), family, keys[i], &both);
    std::printf("  %s: %s, %s, %s\n", keys[i].c_str(), Show(from_batch, alone).c_str(),
                Show(from_both, both).c_str(),
                Show(statuses[i], values[i].ToString()).c_str());
  }
  PrintAll("  over the database",
           batch->NewIteratorWithBase(family, db->NewIterator(ReadOptions(), family)));
}

void IndexedBatches() {
  ColumnFamilyHandle* const merged = families[1];
  for (const char* key : {"a", "b", "e"}) {
    Say("put", db->Put(WriteOptions(), merged, key, std::string("db ") + key));
  }
  for (const bool overwrites : {false, true}) {
    WriteBatchWithIndex batch(BytewiseComparator(), 0, overwrites);
    Say("merge", batch.Merge(merged, "a", "1"));
    Say("merge again", batch.Merge(merged, "a", "2"));
    Say("put", batch.Put(merged, "b", "new"));
    Say("merge into a put", batch.Merge(merged, "b", "3"));
    Say("merge into nothing", batch.Merge(merged, "c", "4"));
    Say("delete", batch.Delete(merged, "e"));
    Say("merge into a delete", batch.Merge(merged, "e", "5"));
    IndexedReads("read", &batch, merged);
    batch.SetSavePoint();
    Say("put over merges", batch.Put(merged, "a", "last"));
    Say("merge that is refused", batch.Merge(merged, "d", "bad"));
    IndexedReads("read, with one that is refused", &batch, merged);
    Say("roll back", batch.RollbackToSavePoint());
    IndexedReads("read again", &batch, merged);
    Say("merge where nothing merges", batch.Merge("x", "y"));
    std::string value;
    Say("read that", batch.GetFromBatchAndDB(db, ReadOptions(), "x", &value));
    Say("roll back", batch.RollbackToSavePoint());
    batch.Clear();
    Say("merge", batch.Merge(merged, "a", "1"));
    Say("merge", batch.Merge(merged, "c", "2"));
    Say("write", db->Write(WriteOptions(), batch.GetWriteBatch()));
    PrintFamily("written", merged);
  }
}

// A batch with one put, and with a mark of the transaction "id" behind it.
void MarkedBatches() {
  for (const int mark : {0x9, 0xa, 0xc, 0xd, 0x12, 0x13}) {
    std::string bytes("\0\0\0\0\0\0\0\0\1\0\0\0\1\4mark\1", 19);
    bytes += std::to_string(mark).back();
    bytes += static_cast<char>(mark);
    if (mark == 0xa || mark == 0xc) bytes += std::string("\2id", 3);
    // RocksDB takes no more writes after one that it refused.
    Options options;
    options.create_if_missing = true;
    DB* marked = nullptr;
    Say("open", DB::Open(options, dir + "/marked " + std::to_string(mark), &marked));
    WriteBatch batch(bytes);
    Say("mark " + std::to_string(mark), marked->Write(WriteOptions(), &batch));
    std::string value;
    if (mark < 0x10) Say("read", marked->Get(ReadOptions(), "mark", &value));
    std::printf("  %s\n", value.c_str());
    delete marked;
  }
}

void Pinned() {
  for (int i = 0; i < 50; i++) {
    const std::string n = std::to_string(100 + i);
    const Status put = db->Put(WriteOptions(), "pinned " + n, "value of " + n);
    if (!put.ok()) Say("put", put);
  }
  Say("flush", db->Flush(FlushOptions()));
  for (const bool pins : {false, true}) {
    ReadOptions options;
    options.pin_data = pins;
    const std::unique_ptr<Iterator> iterator(db->NewIterator(options));
    std::string told;
    Say("property nowhere", iterator->GetProperty("rocksdb.iterator.is-key-pinned", &told));
    std::printf("  %s\n", told.c_str());
    std::vector<Slice> keys;
    bool all = true;
    for (iterator->Seek("pinned "); iterator->Valid(); iterator->Next()) {
      const Status asked = iterator->GetProperty("rocksdb.iterator.is-key-pinned", &told);
      all = all && asked.ok() && told == "1";
      keys.push_back(iterator->key());
    }
    for (iterator->SeekForPrev("pinned 110"); iterator->Valid(); iterator->Prev()) {
      keys.push_back(iterator->key());
    }
    std::printf("  all keys pinned: %d\n", all);
    for (const Slice& key : keys) std::printf("%s", pins ? (key.ToString() + ";").c_str() : "");
    std::printf("\n");
    SayCode("no place for it", iterator->GetProperty("rocksdb.iterator.is-key-pinned", nullptr));
    SayCode("another property", iterator->GetProperty("rocksdb.iterator.is-it", &told));
  }
}

void OfNothing() {
  Say("write no batch", db->Write(WriteOptions(), nullptr));
  ColumnFamilyHandle* gone = nullptr;
  Say("create", db->CreateColumnFamily(ColumnFamilyOptions(), "gone", &gone));
  Say("put", db->Put(WriteOptions(), gone, "k", "v"));
  Say("drop", db->DropColumnFamily(gone));
  Say("flush what was dropped", db->Flush(FlushOptions(), gone));
  Say("compact it", db->CompactRange(CompactRangeOptions(), gone, nullptr, nullptr));
  Say("handle", db->DestroyColumnFamilyHandle(gone));
}

// From where an iterator stands, with what was written since.
void SoughtFromItsOwnKey() {
  const std::string key = "sought " + std::string(200, 'k');
  Say("put", db->Put(WriteOptions(), key, "before"));
  ReadOptions options;
  options.tailing = true;
  const std::unique_ptr<Iterator> iterator(db->NewIterator(options));
  iterator->Seek(key);
  for (const char* value : {"first", "second"}) {
    Say("put", db->Put(WriteOptions(), key, value));
    iterator->Seek(iterator->key());
    std::printf("  %s\n", iterator->Valid() ? iterator->value().ToString().c_str() : "nowhere");
  }
  Say("delete", db->Delete(WriteOptions(), key));
}

using Fill = std::function<Status(SstFileWriter*)>;

std::string WriteFile(const std::string& name, int family, const Fill& fill,
                      ColumnFamilyHandle* named = nullptr) {
  const std::string path = dir + "/" + name;
  SstFileWriter writer(EnvOptions(), Options(DBOptions(), OptionsOf(family)), named);
  Status status = writer.Open(path);
  if (status.ok()) status = fill(&writer);
  if (status.ok()) status = writer.Finish();
  if (!status.ok()) Say("write " + name, status);
  return path;
}

Status PutAll(SstFileWriter* writer, const std::vector<std::string>& keys) {
  Status status;
  for (const std::string& key : keys) {
    if (status.ok()) status = writer->Put(key, "of the file");
  }
  return status;
}

void Ingest(const char* what, int family, const std::vector<std::string>& files,
            const IngestExternalFileOptions& options = IngestExternalFileOptions()) {
  Say(what, db->IngestExternalFile(families[family], files, options));
  PrintFamily("  there is", families[family]);
}

void IngestedKinds() {
  for (const char* key : {"m1", "m2", "m3", "m4", "m5", "m6"}) {
    Say("put", db->Put(WriteOptions(), families[1], key, "before"));
  }
  const std::string deletes = WriteFile("1.sst", 1, [](SstFileWriter* it) {
    Status status = it->Delete("m1");
    if (status.ok()) status = it->Delete("m2 none");
    return status.ok() ? it->Put("m3", "file") : status;
  });
  Ingest("deletes", 1, {deletes});
  const std::string merges = WriteFile("2.sst", 1, [](SstFileWriter* it) {
    Status status = it->Merge("m1", "of the file");
    return status.ok() ? it->Merge("m3", "of the file") : status;
  });
  Ingest("merges", 1, {merges});
  const std::string range = WriteFile("3.sst", 1, [](SstFileWriter* it) {
    Status status = it->Put("m4", "beside its range");
    if (status.ok()) status = it->Merge("m5", "beside its range");
    if (status.ok()) status = it->DeleteRange("m3", "m6");
    return status.ok() ? it->DeleteRange("m2", "m4") : status;
  });
  Ingest("a range", 1, {range});
  const std::string after = WriteFile("4.sst", 1, [](SstFileWriter* it) {
    Status status = it->Merge("m4", "after");
    return status.ok() ? it->Delete("m6") : status;
  });
  Ingest("two that overlap", 1, {after, range});
  Ingest("the other way round", 1, {range, after});
  const std::string alone =
      WriteFile("5.sst", 1, [](SstFileWriter* it) { return it->DeleteRange("m", "n"); });
  Ingest("a range alone", 1, {alone});
}

void IngestedInReverse() {
  const std::string first = WriteFile("6.sst", 2, [](SstFileWriter* it) {
    Status status = PutAll(it, {"z", "y", "x", "b"});
    return status.ok() ? it->DeleteRange("c", "a") : status;
  });
  Ingest("in reverse", 2, {first});
  const std::string second = WriteFile("7.sst", 2, [](SstFileWriter* it) {
    Status status = it->Delete("y");
    return status.ok() ? it->DeleteRange("xx", "bb") : status;
  });
  Ingest("in reverse, over that", 2, {second});
}

std::string FileOf(const std::string& name, const std::vector<std::string>& keys) {
  return WriteFile(name, 0, [&](SstFileWriter* it) { return PutAll(it, keys); });
}

// What overlaps, and whether that is allowed.
void IngestedOver() {
  const std::string file = FileOf("11.sst", {"f", "h"});
  const std::string beside = FileOf("12.sst", {"g"});
  const std::string apart = FileOf("13.sst", {"i", "j"});
  IngestExternalFileOptions old;
  old.allow_global_seqno = false;
  IngestExternalFileOptions bottom;
  bottom.fail_if_not_bottommost_level = true;
  Say("delete", db->DeleteRange(WriteOptions(), families[0], "a", "z"));
  Say("compact", db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
  Ingest("over one another", 0, {file, beside}, old);
  Ingest("over one another, at the bottom", 0, {file, beside}, bottom);
  const Snapshot* snapshot = db->GetSnapshot();
  Ingest("above a snapshot", 0, {file}, old);
  db->ReleaseSnapshot(snapshot);
  Ingest("apart", 0, {file, apart}, old);
  Ingest("once more", 0, {file}, old);
  Ingest("once more, at the bottom", 0, {file}, bottom);
  Ingest("between", 0, {beside}, old);
  const auto delete_range = [](SstFileWriter* it) { return it->DeleteRange("e", "f"); };
  Ingest("over it all", 0, {WriteFile("15.sst", 0, delete_range)}, old);
}

// What is refused for other reasons, and several families.
void IngestedOrNot() {
  const std::string file = FileOf("16.sst", {"f", "h"});
  const std::string moved = FileOf("17.sst", {"i", "j"});
  const std::string of_family =
      WriteFile("14.sst", 1, [](SstFileWriter* it) { return PutAll(it, {"k"}); }, families[1]);
  Ingest("of another family", 0, {of_family});
  Ingest("of its family", 1, {of_family});
  IngestExternalFileOptions behind;
  behind.ingest_behind = true;
  Ingest("behind", 0, {file}, behind);
  Ingest("none", 0, {});
  SayCode("a file that is not there", db->IngestExternalFile({dir + "/none.sst"}, {}));
  std::FILE* const bad = std::fopen((dir + "/bad.sst").c_str(), "w");
  std::fputs(std::string(200, 'x').c_str(), bad);
  std::fclose(bad);
  SayCode("a file that is none", db->IngestExternalFile({dir + "/bad.sst"}, {}));
  IngestExternalFileArg arg;
  arg.column_family = families[0];
  arg.external_files = {file};
  Say("twice a family", db->IngestExternalFiles({arg, arg}));
  IngestExternalFileArg second = arg;
  second.column_family = families[1];
  Say("two families", db->IngestExternalFiles({arg, second}));
  arg.column_family = nullptr;
  Say("no family", db->IngestExternalFiles({arg}));
  IngestExternalFileOptions moves;
  moves.move_files = true;
  Ingest("moved", 0, {moved}, moves);
  std::printf("still there: %d\n", ::access(moved.c_str(), F_OK) == 0);
}

std::string Identity(DB* of) {
  std::string identity;
  const Status got = of->GetDbIdentity(identity);
  return Show(got, identity);
}

// Opens a copy of the database, twice, and says what is in it.
void OpenCopy(const std::string& name) {
  std::string identity;
  for (int i = 0; i < 2; i++) {
    std::vector<ColumnFamilyDescriptor> wanted;
    for (int f = 0; f < 3; f++) wanted.emplace_back(families[f]->GetName(), OptionsOf(f));
    std::vector<ColumnFamilyHandle*> handles;
    DB* copy = nullptr;
    const Status opened = DB::Open(DBOptions(), dir + "/" + name, wanted, &handles, &copy);
    Say("  open " + name, opened);
    if (!opened.ok()) return;
    PrintAll("  there is", copy->NewIterator(ReadOptions()));
    std::printf("  identity: %s\n", Identity(copy) == Identity(db)   ? "of the database"
                                     : Identity(copy) == identity ? "as before"
                                                                  : "another");
    identity = Identity(copy);
    for (ColumnFamilyHandle* handle : handles) {
      const Status gone = copy->DestroyColumnFamilyHandle(handle);
      if (!gone.ok()) Say("handle", gone);
    }
    delete copy;
  }
}

bool IsThere(const std::string& name) { return ::access((dir + "/" + name).c_str(), F_OK) == 0; }

void Checkpoints() {
  Checkpoint* made = nullptr;
  Say("checkpoints", Checkpoint::Create(db, &made));
  const std::unique_ptr<Checkpoint> checkpoint(made);
  uint64_t sequence = 1;
  Say("checkpoint nowhere", checkpoint->CreateCheckpoint("", 0, &sequence));
  std::printf("  sequence %d\n", sequence == 1);
  Say("checkpoint of slashes", checkpoint->CreateCheckpoint("///"));
  Say("checkpoint without a parent", checkpoint->CreateCheckpoint(dir + "/no/such"));
  std::printf("  %d\n", IsThere("no"));
  Say("checkpoint over the database", checkpoint->CreateCheckpoint(dir + "/db"));
  for (const char* name : {"copy", "slashed//"}) {
    Say("checkpoint", checkpoint->CreateCheckpoint(dir + "/" + name, 0, &sequence));
    std::printf("  sequence %d, left %d\n", sequence == db->GetLatestSequenceNumber(),
                IsThere("copy.tmp") || IsThere("slashed.tmp"));
    OpenCopy(name);
  }
  Say("checkpoint again", checkpoint->CreateCheckpoint(dir + "/copy"));
}

void PrintBackups(BackupEngineReadOnly* backups) {
  std::vector<BackupInfo> infos;
  backups->GetBackupInfo(&infos);
  std::printf("  backups:");
  for (const BackupInfo& info : infos) std::printf(" %u", info.backup_id);
  std::printf("\n");
}

void ReadBackups(const BackupEngineOptions& options) {
  BackupEngineReadOnly* opened = nullptr;
  Say("read backups", BackupEngineReadOnly::Open(Env::Default(), options, &opened));
  const std::unique_ptr<BackupEngineReadOnly> backups(opened);
  if (backups != nullptr) PrintBackups(opened);
}

void Backups() {
  BackupEngineOptions options(dir + "/backups");
  ReadBackups(options);
  BackupEngineOptions destroys(dir + "/backups");
  destroys.destroy_old_data = true;
  ReadBackups(destroys);
  BackupEngine* opened = nullptr;
  Say("backups without a parent",
      BackupEngine::Open(Env::Default(), BackupEngineOptions(dir + "/no/such"), &opened));
  Say("backups", BackupEngine::Open(Env::Default(), options, &opened));
  const std::unique_ptr<BackupEngine> backups(opened);
  ReadBackups(options);
  SayCode("restore none", backups->RestoreDBFromLatestBackup(dir + "/back", dir + "/back"));
  Say("backup", backups->CreateNewBackup(db));
  Say("put", db->Put(WriteOptions(), "after", "the first"));
  Say("backup", backups->CreateNewBackup(db));
  Say("verify", backups->VerifyBackup(2));
  Say("verify another", backups->VerifyBackup(9));
  Say("restore another", backups->RestoreDBFromBackup(9, dir + "/none", dir + "/none"));
  Say("restore deep", backups->RestoreDBFromBackup(1, dir + "/no/such", dir + "/no/such"));
  std::printf("  %d %d\n", IsThere("no"), IsThere("none/CURRENT") || IsThere("none/HELIOX"));
  for (const BackupID id : {2, 1}) {
    Say("restore", backups->RestoreDBFromBackup(id, dir + "/back/", dir + "/back/"));
    std::printf("  left %d\n", IsThere("back.restoring") || IsThere("back/.restoring"));
    OpenCopy("back");
  }
  backups->StopBackup();
  Say("backup after all stopped", backups->CreateNewBackup(db));
  Say("delete another", backups->DeleteBackup(9));
  ReadBackups(options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  dir = argv[1];
  Open();
  IndexedBatches();
  MarkedBatches();
  Pinned();
  SoughtFromItsOwnKey();
  OfNothing();
  IngestedKinds();
  IngestedInReverse();
  IngestedOver();
  IngestedOrNot();
  Checkpoints();
  Backups();
  for (ColumnFamilyHandle* family : families) {
    Say("handle", db->DestroyColumnFamilyHandle(family));
  }
  Say("close", db->Close());
  delete db;
  return 0;
}
