// Files that the database is given (IngestExternalFile): they are read, and become one batch.
#include <rocksdb/file_checksum.h>
#include <rocksdb/listener.h>
#include <rocksdb/table_properties.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "batch.h"
#include "database.h"
#include "table_file.h"

namespace herocks {

using rocksdb::IngestExternalFileArg;

struct Database::Ingested {
  struct File {
    ColumnFamilyHandle* handle;
    const Family* family;
    std::string path;
    TableFile table;
  };
  std::list<File> files;
  // Changes of which all is known already.
  Changes plain;
  uint64_t keys = 0;
  // All changes, if some depend on what is there: merges and ranges.
  bool is_dependent = false;
  rocksdb::WriteBatch dependent;
};

namespace {

// What RocksDB answers before it looks at any file.
Status CheckArguments(const DBOptions& options, const std::vector<IngestExternalFileArg>& given) {
  if (given.empty()) return Status::InvalidArgument("ingestion arg list is empty");
  std::set<ColumnFamilyHandle*> handles;
  for (const auto& each : given) {
    if (each.column_family == nullptr) {
      return Status::InvalidArgument("column family handle is null");
    }
    if (!handles.insert(each.column_family).second) {
      return Status::InvalidArgument("ingestion args have duplicate column families");
    }
  }
  for (size_t i = 0; i < given.size(); i++) {
    if (given[i].external_files.empty()) {
      return Status::InvalidArgument("external_files[" + std::to_string(i) + "] is empty");
    }
  }
  for (const auto& each : given) {
    if (!each.options.ingest_behind) continue;
    if (options.allow_ingest_behind) {
      return Status::NotSupported("Heliox does not support ingest_behind");
    }
    return Status::InvalidArgument(
        "can't ingest_behind file in DB with allow_ingest_behind=false");
  }
  return Status::OK();
}

// The checksum of a whole file, by the database's own function.
Status ChecksumOf(rocksdb::FileChecksumGenFactory* factory, const std::string& path,
                  std::string* function, std::string* checksum) {
  rocksdb::FileChecksumGenContext context;
  context.file_name = path;
  const auto generator = factory->CreateFileChecksumGenerator(context);
  if (generator == nullptr) return Status::InvalidArgument("no checksum function for " + path);
  std::ifstream file(path, std::ios::binary);
  std::string piece(1 << 20, '\0');
  while (file) {
    file.read(&piece[0], static_cast<std::streamsize>(piece.size()));
    generator->Update(piece.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.eof()) return Status::IOError("While reading " + path);
  generator->Finalize();
  *function = generator->Name();
  *checksum = generator->GetChecksum();
  return Status::OK();
}

Status CheckChecksums(const DBOptions& options, const IngestExternalFileArg& arg) {
  rocksdb::FileChecksumGenFactory* const factory = options.file_checksum_gen_factory.get();
  const size_t count = arg.files_checksums.size();
  if (factory == nullptr || (count == 0 && arg.files_checksum_func_names.empty())) {
    return Status::OK();
  }
  if (count != arg.external_files.size() || count != arg.files_checksum_func_names.size()) {
    return Status::InvalidArgument(
        "The checksum information of ingested sst files are nonempty and the size of checksums or "
        "the size of the checksum function names does not match with the number of ingested sst "
        "files");
  }
  for (size_t i = 0; i < count; i++) {
    std::string function;
    std::string checksum;
    Status made = ChecksumOf(factory, arg.external_files[i], &function, &checksum);
    if (!made.ok()) return made;
    if (function != arg.files_checksum_func_names[i]) {
      return Status::InvalidArgument(
          "Checksum function name does not match with the checksum function name of this DB");
    }
    if (arg.options.verify_file_checksum && checksum != arg.files_checksums[i]) {
      return Status::Corruption("Ingested checksum does not match with the generated checksum");
    }
  }
  return Status::OK();
}

}  // namespace

Status Database::OpenFiles(const IngestExternalFileArg& arg, Ingested* ingested) const {
  const uint32_t any_family =
      rocksdb::TablePropertiesCollectorFactory::Context::kUnknownColumnFamily;
  const Family& family = *FamilyOf(arg.column_family);
  Status opened = CheckFamily(family);
  for (const std::string& path : arg.external_files) {
    if (!opened.ok()) return opened;
    ingested->files.emplace_back();
    Ingested::File& file = ingested->files.back();
    file.handle = arg.column_family;
    file.family = &family;
    file.path = path;
    opened = file.table.Open(Options(options_, family.options), path);
    if (!opened.ok()) return opened;
    const rocksdb::TableProperties& properties = file.table.properties();
    const auto id = static_cast<uint32_t>(properties.column_family_id);
    if (id != any_family && id != family.id) {
      return Status::InvalidArgument("External file column family id don't match");
    }
    if (properties.num_merge_operands + properties.num_range_deletions > 0) {
      ingested->is_dependent = true;
    }
  }
  return opened.ok() ? CheckChecksums(options_, arg) : opened;
}

// Whether the family has keys from `first` to `last`, both included.
Status Database::HasKeys(const Family& family, const Slice& first, const Slice& last,
                         bool* found) const {
  std::string from_scratch;
  std::string to_scratch;
  const Slice from = family.keys.Encode(first, &from_scratch);
  const Slice to = family.keys.Encode(last, &to_scratch);
  Scan scan;
  Status started = scan.Start(family.space, nullptr, &from, nullptr);
  if (!started.ok()) return started;
  *found = scan.First();
  if (!*found) return scan.status();
  Slice key;
  Slice value;
  scan.Entry(&key, &value);
  *found = key.compare(to) <= 0;
  return Status::OK();
}

// What the program forbids: that files lie over others, or over what the family has.
Status Database::CheckOverlap(const IngestExternalFileArg& arg, const Ingested& ingested) const {
  const rocksdb::IngestExternalFileOptions& options = arg.options;
  if (options.allow_global_seqno && !options.fail_if_not_bottommost_level) return Status::OK();
  const Family& family = *FamilyOf(arg.column_family);
  const rocksdb::Comparator& order = *family.options.comparator;
  std::vector<const TableFile*> tables;
  bool overlaps = false;
  for (const Ingested::File& file : ingested.files) {
    if (file.family != &family) continue;
    tables.push_back(&file.table);
    bool found = false;
    Status looked = HasKeys(family, file.table.first(), file.table.last(), &found);
    if (!looked.ok()) return looked;
    overlaps = overlaps || found;
  }
  std::sort(tables.begin(), tables.end(), [&](const TableFile* a, const TableFile* b) {
    return order.Compare(a->first(), b->first()) < 0;
  });
  for (size_t i = 1; i < tables.size(); i++) {
    overlaps = overlaps || order.Compare(tables[i - 1]->last(), tables[i]->first()) >= 0;
  }
  if (overlaps && options.fail_if_not_bottommost_level && family.options.num_levels > 1) {
    return Status::TryAgain(
        "Files cannot be ingested to Lmax. Please make sure key range of Lmax does not overlap with "
        "files to ingest.");
  }
  const std::lock_guard<std::mutex> lock(snapshots_mutex_);
  const bool is_above_snapshots = options.snapshot_consistency && !snapshots_.empty();
  if (!options.allow_global_seqno && (overlaps || is_above_snapshots)) {
    return Status::InvalidArgument("Global seqno is required, but disabled");
  }
  return Status::OK();
}

// Collects the changes, of later files over those of earlier ones.
Status Database::ReadFiles(Ingested* ingested) const {
  std::string key_scratch;
  std::string value_scratch;
  for (const Ingested::File& file : ingested->files) {
    const Family& family = *file.family;
    Status read = file.table.Each([&](const TableFile::Entry& entry) {
      ingested->keys++;
      if (!ingested->is_dependent) {
        const Slice key = family.keys.Encode(entry.key, &key_scratch);
        return entry.kind == TableFile::Kind::kPut
                   ? ingested->plain.Put(family.space, key,
                                         values_.EncodePlain(entry.value, &value_scratch))
                   : ingested->plain.Delete(family.space, key);
      }
      switch (entry.kind) {
        case TableFile::Kind::kPut:
          return ingested->dependent.Put(file.handle, entry.key, entry.value);
        case TableFile::Kind::kDelete:
          return ingested->dependent.Delete(file.handle, entry.key);
        case TableFile::Kind::kMerge:
          return ingested->dependent.Merge(file.handle, entry.key, entry.value);
        default:
          return ingested->dependent.DeleteRange(file.handle, entry.key, entry.value);
      }
    });
    if (!read.ok()) return read;
  }
  return Status::OK();
}

Status Database::WriteIngested(Ingested* ingested) {
  if (ingested->is_dependent) {
    WriteOptions options;
    options.sync = true;
    BatchPlan plan(this, options);
    Status collected = ingested->dependent.Iterate(&plan);
    return collected.ok() ? plan.Apply() : collected;
  }
  Status written;
  {
    // Merges that read before must not write after.
    const Gate::Alone alone(&gate_);
    written = store_->Write(ingested->plain, Promise::kSynced);
  }
  if (written.ok()) CountKeys(ingested->keys, 0);
  return written;
}

Status Database::IngestExternalFiles(const std::vector<IngestExternalFileArg>& given) {
  if (read_only_) return Status::NotSupported("Not supported operation in read only mode.");
  Status done = CheckArguments(options_, given);
  Ingested ingested;
  for (const auto& each : given) {
    if (done.ok()) done = OpenFiles(each, &ingested);
  }
  for (const auto& each : given) {
    if (done.ok()) done = CheckOverlap(each, ingested);
  }
  if (done.ok()) done = ReadFiles(&ingested);
  if (done.ok()) done = WriteIngested(&ingested);
  if (!done.ok()) return done;
  for (const auto& each : given) {
    FamilyOf(each.column_family)->Note(Family::kForCompaction);
    if (!each.options.move_files) continue;
    for (const std::string& file : each.external_files) (void)::unlink(file.c_str());
  }
  for (const Ingested::File& file : ingested.files) {
    rocksdb::ExternalFileIngestionInfo info = {};
    info.cf_name = file.family->name;
    info.external_file_path = file.path;
    info.internal_file_path = listeners_->no_file();
    info.global_seqno = catalog_->LastSequence();
    info.table_properties = file.table.properties();
    listeners_->Each([&](rocksdb::EventListener* it) { it->OnExternalFileIngested(this, info); });
  }
  return Status::OK();
}

Status Database::IngestExternalFile(ColumnFamilyHandle* handle,
                                    const std::vector<std::string>& files,
                                    const rocksdb::IngestExternalFileOptions& options) {
  IngestExternalFileArg arg;
  arg.column_family = handle;
  arg.external_files = files;
  arg.options = options;
  return IngestExternalFiles({arg});
}

}  // namespace herocks
