// A file of RocksDB's (SST) with all that it holds. See table_file.h.
//
// RocksDB's SstFileReader makes its reader of tables by the table factory of the options: one of ours
// passes that on to the true one, and so comes to know the reader. Readers and their iterators are
// abstract classes that are not in RocksDB's headers; their functions are listed here in the order that
// version 7.8 has them (version.h), and called through them.
#include "table_file.h"

#include <rocksdb/comparator.h>
#include <rocksdb/table.h>

#include <cstring>

namespace herocks {

// Not in the unnamed namespace: there the compiler would conclude that nothing is derived from them.
// RocksDB's InternalIterator; never made here.
class EntriesShape {
 public:
  virtual ~EntriesShape() = default;
  virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  virtual void Seek(const Slice& target) = 0;
  virtual void SeekForPrev(const Slice& target) = 0;
  virtual void Next() = 0;
  virtual bool NextAndGetResult(void* result) = 0;
  virtual void Prev() = 0;
  virtual Slice key() const = 0;
  virtual Slice user_key() const = 0;
  virtual Slice value() const = 0;
  virtual Status status() const = 0;
};

// RocksDB's TableReader; never made here.
class ReaderShape {
 public:
  virtual ~ReaderShape() = default;
  virtual EntriesShape* NewIterator(const rocksdb::ReadOptions& options,
                                    const rocksdb::SliceTransform* prefixes, void* arena,
                                    bool skip_filters, char caller, size_t readahead,
                                    bool allow_unprepared_value) = 0;
  // Null if there are none.
  virtual EntriesShape* NewRangeTombstoneIterator(const rocksdb::ReadOptions& options) = 0;
};

namespace {

constexpr char kVersionProperty[] = "rocksdb.external_sst_file.version";
constexpr size_t kTrailerBytes = 8;

// What the last eight bytes of a key in a file say: a number, and in the lowest byte this.
enum : uint8_t {
  kTypeDeletion = 0x0,
  kTypeValue = 0x1,
  kTypeMerge = 0x2,
  kTypeSingleDeletion = 0x7,
  kTypeRangeDeletion = 0xF,
};

// Who asks, as RocksDB's reader counts it.
constexpr char kCallerIngestion = 7;

// Passes everything on, and keeps where the last reader is.
class Observing final : public rocksdb::TableFactory {
 public:
  Observing(std::shared_ptr<rocksdb::TableFactory> true_one, void** reader)
      : true_one_(std::move(true_one)), reader_(reader) {}

  const char* Name() const override { return true_one_->Name(); }
  const rocksdb::Customizable* Inner() const override { return true_one_.get(); }
  Status NewTableReader(const rocksdb::ReadOptions& read,
                        const rocksdb::TableReaderOptions& options,
                        std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t size,
                        std::unique_ptr<rocksdb::TableReader>* reader,
                        bool prefetch) const override {
    Status made =
        true_one_->NewTableReader(read, options, std::move(file), size, reader, prefetch);
    *reader_ = made.ok() ? reader->get() : nullptr;
    return made;
  }
  rocksdb::TableBuilder* NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                         rocksdb::WritableFileWriter* file) const override {
    return true_one_->NewTableBuilder(options, file);
  }
  bool IsDeleteRangeSupported() const override { return true_one_->IsDeleteRangeSupported(); }

 private:
  const std::shared_ptr<rocksdb::TableFactory> true_one_;
  void** const reader_;
};

// What one key of the file stands for.
Status TakeApart(const Slice& stored, const Slice& value, const std::string& path,
                 TableFile::Entry* entry) {
  if (stored.size() < kTrailerBytes) {
    return Status::Corruption("Corrupted key in external file. ", path);
  }
  entry->key = Slice(stored.data(), stored.size() - kTrailerBytes);
  entry->value = value;
  const char* const trailer = stored.data() + entry->key.size();
  for (size_t i = 1; i < kTrailerBytes; i++) {
    if (trailer[i] != 0) return Status::Corruption("External file has non zero sequence number");
  }
  switch (static_cast<uint8_t>(trailer[0])) {
    case kTypeValue: entry->kind = TableFile::Kind::kPut; break;
    case kTypeDeletion:
    case kTypeSingleDeletion: entry->kind = TableFile::Kind::kDelete; break;
    case kTypeMerge: entry->kind = TableFile::Kind::kMerge; break;
    case kTypeRangeDeletion: entry->kind = TableFile::Kind::kRange; break;
    default:
      return Status::NotSupported("Heliox does not ingest wide columns and blobs",
                                  path + " has such entries");
  }
  return Status::OK();
}

}  // namespace

Status TableFile::Open(const rocksdb::Options& options, const std::string& path) {
  path_ = path;
  rocksdb::Options observed = options;
  observed.table_factory = std::make_shared<Observing>(options.table_factory, &reader_);
  file_ = std::make_unique<rocksdb::SstFileReader>(observed);
  Status opened = file_->Open(path);
  if (!opened.ok()) return opened;
  properties_ = file_->GetTableProperties();
  opened = CheckKind();
  // Read in another order, a part of its keys would not be found again.
  const std::string& order = properties_->comparator_name;
  if (opened.ok() && !order.empty() && order != options.comparator->Name()) {
    opened = Status::InvalidArgument(
        path + " was written with the comparator " + order,
        std::string("the column family has ") + options.comparator->Name());
  }
  return opened.ok() ? FindEnds(*options.comparator) : opened;
}

// Only files that were written to be ingested are.
Status TableFile::CheckKind() const {
  const auto& notes = properties_->user_collected_properties;
  const auto found = notes.find(kVersionProperty);
  if (found == notes.end()) return Status::Corruption("External file version not found");
  const bool is_known = found->second == std::string("\2\0\0\0", 4);
  return is_known ? Status::OK()
                  : Status::InvalidArgument("External file version is not supported");
}

Status TableFile::FindEnds(const rocksdb::Comparator& order) {
  bool has_any = false;
  const auto widen = [&](const Slice& first, const Slice& last) {
    if (!has_any || order.Compare(first, first_) < 0) first_ = first.ToString();
    if (!has_any || order.Compare(last, last_) > 0) last_ = last.ToString();
    has_any = true;
    return Status::OK();
  };
  Status walked =
      Walk(true, [&](const Entry& entry) { return widen(entry.key, entry.value); });
  if (!walked.ok()) return walked;
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  const std::unique_ptr<EntriesShape> entries(static_cast<ReaderShape*>(reader_)->NewIterator(
      read, nullptr, nullptr, false, kCallerIngestion, 0, false));
  for (const bool is_last : {false, true}) {
    is_last ? entries->SeekToLast() : entries->SeekToFirst();
    Entry entry;
    if (entries->Valid()) walked = TakeApart(entries->key(), Slice(), path_, &entry);
    if (walked.ok()) walked = entries->status();
    if (walked.ok() && entries->Valid()) walked = widen(entry.key, entry.key);
    if (!walked.ok()) return walked;
  }
  return has_any ? Status::OK() : Status::InvalidArgument("File contain no entries");
}

Status TableFile::Walk(bool ranges, const OnEntry& on_entry) const {
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  auto* const reader = static_cast<ReaderShape*>(reader_);
  const std::unique_ptr<EntriesShape> entries(
      ranges ? reader->NewRangeTombstoneIterator(read)
             : reader->NewIterator(read, nullptr, nullptr, false, kCallerIngestion, 0, false));
  if (entries == nullptr) return Status::OK();
  Status walked;
  for (entries->SeekToFirst(); walked.ok() && entries->Valid(); entries->Next()) {
    Entry entry;
    walked = TakeApart(entries->key(), entries->value(), path_, &entry);
    if (walked.ok()) walked = on_entry(entry);
  }
  return walked.ok() ? entries->status() : walked;
}

Status TableFile::Each(const OnEntry& on_entry) const {
  Status walked = Walk(true, on_entry);
  return walked.ok() ? Walk(false, on_entry) : walked;
}

}  // namespace herocks
