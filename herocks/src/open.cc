// RocksDB's static functions that open, list, destroy and repair databases: ours in their place.
//
// Each is defined with the name and type that RocksDB gives it, and found first by the dynamic
// linker, also by RocksDB's own C interface and tools.
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "database.h"
#include "destroy.h"
#include "exported.h"
#include "registry.h"
#include "settings.h"
#include "version.h"

namespace herocks {

namespace {

enum class Mode { kWrite, kRead };

// What an opening has found out and made, until the database takes it over.
struct Opening {
  DBOptions options;
  std::string dir;
  Mode mode;
  std::unique_ptr<Store> store;
  std::unique_ptr<Catalog> catalog;
  std::shared_ptr<Reaper> reaper;
  std::shared_ptr<Listeners> listeners;
  std::vector<FamilyPtr> families;
};

Status CheckPlace(const DBOptions& options, const std::string& dir, Mode mode) {
  Status ours = CheckNotRocksDB(dir);
  if (!ours.ok()) return ours;
  if (HoldsStore(dir)) {
    if (mode == Mode::kWrite && options.error_if_exists) {
      return Status::InvalidArgument(dir, "exists (error_if_exists is true)");
    }
    return Status::OK();
  }
  if (mode == Mode::kRead) {
    return Status::IOError("No such file or directory: While opening a store of Heliox", dir);
  }
  if (!options.create_if_missing) {
    return Status::InvalidArgument(dir, "does not exist (create_if_missing is false)");
  }
  if (::mkdir(dir.c_str(), 0755) != 0 && errno != EEXIST) {
    return Status::IOError("While mkdir if missing: " + dir, std::strerror(errno));
  }
  return Status::OK();
}

Status CheckOptions(const DBOptions& options, const std::vector<ColumnFamilyDescriptor>& families) {
  Status allowed = CheckVersions();
  if (allowed.ok()) allowed = CheckDatabaseOptions(options);
  for (const ColumnFamilyDescriptor& family : families) {
    if (allowed.ok()) allowed = CheckFamilyOptions(family.name, family.options);
  }
  return allowed;
}

// The comparator that a family was made with must be the one it is opened with.
Status MatchComparator(Opening* opening, const ColumnFamilyDescriptor& wanted,
                       FamilyRecord* record) {
  const char* name = wanted.options.comparator->Name();
  if (record->comparator.empty()) {
    record->comparator = name;
    return opening->catalog->SetComparator(record->id, name);
  }
  if (record->comparator == name) return Status::OK();
  return Status::InvalidArgument(std::string(name),
                                 "does not match existing comparator " + record->comparator);
}

Status OpenFamily(Opening* opening, const ColumnFamilyDescriptor& wanted) {
  FamilyRecord record;
  std::unique_ptr<Space> space;
  Status opened;
  if (opening->catalog->Find(wanted.name, &record)) {
    opened = MatchComparator(opening, wanted, &record);
    if (opened.ok()) opened = opening->store->OpenSpace(record.space, &space);
    if (opened.IsNotFound()) {
      opened = Status::Corruption("the keyspace of the column family " + wanted.name, "is missing");
    }
  } else if (opening->mode == Mode::kWrite && opening->options.create_missing_column_families) {
    opened = opening->catalog->Add(wanted.name, wanted.options.comparator->Name(), &record, &space);
  } else {
    opened = Status::InvalidArgument("Column family not found", wanted.name);
  }
  if (!opened.ok()) return opened;
  opening->families.push_back(
      std::make_shared<Family>(record, *space, wanted.options, opening->reaper,
                                                       opening->listeners));
  return Status::OK();
}

Status OpenFamilies(Opening* opening, const std::vector<ColumnFamilyDescriptor>& wanted) {
  std::set<std::string> names;
  for (const ColumnFamilyDescriptor& family : wanted) {
    if (!names.insert(family.name).second) {
      return Status::InvalidArgument("the column family is given twice", family.name);
    }
  }
  if (names.count(rocksdb::kDefaultColumnFamilyName) == 0) {
    return Status::InvalidArgument("Default column family not specified");
  }
  std::string left_out;
  for (const FamilyRecord& record : opening->catalog->Families()) {
    if (names.count(record.name) > 0) continue;
    left_out += (left_out.empty() ? "" : ", ") + record.name;
  }
  if (!left_out.empty() && opening->mode == Mode::kWrite) {
    return Status::InvalidArgument("Column families not opened: " + left_out);
  }
  for (const ColumnFamilyDescriptor& family : wanted) {
    Status opened = OpenFamily(opening, family);
    if (!opened.ok()) return opened;
  }
  return Status::OK();
}

Status OpenDatabase(const DBOptions& given, const std::string& dir, Mode mode,
                    const std::vector<ColumnFamilyDescriptor>& families,
                    std::vector<ColumnFamilyHandle*>* handles, rocksdb::DB** db) {
  *db = nullptr;
  if (handles != nullptr) handles->clear();
  Opening opening;
  opening.options = Completed(given, dir);
  opening.dir = dir;
  opening.mode = mode;
  Status opened = CheckOptions(opening.options, families);
  if (opened.ok()) opened = CheckPlace(opening.options, dir, mode);
  StoreOptions options;
  if (opened.ok()) opened = MakeStoreOptions(opening.options, families, &options);
  options.read_only = mode == Mode::kRead;
  opening.listeners = std::make_shared<Listeners>(opening.options.listeners, dir);
  if (!opening.listeners->empty()) {
    options.on_event = [listeners = opening.listeners](const StoreEvent& event) {
      listeners->Hear(event);
    };
  }
  if (opened.ok()) opened = Store::Open(dir, options, &opening.store);
  if (opened.ok()) {
    opened = Catalog::Load(opening.store.get(), mode == Mode::kRead, &opening.catalog);
  }
  if (opened.ok()) opened = opening.catalog->Identify(dir);
  if (opened.ok() && mode == Mode::kWrite) opened = opening.catalog->SweepSpaces();
  if (!opened.ok()) return opened;
  opening.reaper = std::make_shared<Reaper>(opening.catalog.get());
  opened = OpenFamilies(&opening, families);
  if (!opened.ok()) return opened;
  const std::vector<FamilyPtr> made = opening.families;
  auto database = std::make_unique<Database>(
      opening.options, dir, mode == Mode::kRead, std::move(opening.store),
      std::move(opening.catalog), opening.reaper, opening.listeners, opening.families);
  Registry::Get().Add(dir, database.get());
  if (mode == Mode::kWrite) opened = database->KeepOptions();
  if (!opened.ok()) return opened;
  for (const FamilyPtr& family : made) {
    if (handles != nullptr) handles->push_back(new FamilyHandle(family));
  }
  *db = database.release();
  return Status::OK();
}

std::vector<ColumnFamilyDescriptor> DefaultAlone(const Options& options) {
  return {ColumnFamilyDescriptor(rocksdb::kDefaultColumnFamilyName, ColumnFamilyOptions(options))};
}

}  // namespace

}  // namespace herocks

namespace rocksdb {

using Mode = herocks::Mode;

HEROCKS_EXPORTED Status DB::Open(const Options& options, const std::string& name, DB** dbptr) {
  return herocks::OpenDatabase(options, name, Mode::kWrite, herocks::DefaultAlone(options), nullptr,
                               dbptr);
}

HEROCKS_EXPORTED Status DB::Open(const DBOptions& db_options, const std::string& name,
                                 const std::vector<ColumnFamilyDescriptor>& column_families,
                                 std::vector<ColumnFamilyHandle*>* handles, DB** dbptr) {
  return herocks::OpenDatabase(db_options, name, Mode::kWrite, column_families, handles, dbptr);
}

HEROCKS_EXPORTED Status DB::OpenForReadOnly(const Options& options, const std::string& name,
                                            DB** dbptr, bool) {
  return herocks::OpenDatabase(options, name, Mode::kRead, herocks::DefaultAlone(options), nullptr,
                               dbptr);
}

HEROCKS_EXPORTED Status DB::OpenForReadOnly(
    const DBOptions& db_options, const std::string& name,
    const std::vector<ColumnFamilyDescriptor>& column_families,
    std::vector<ColumnFamilyHandle*>* handles, DB** dbptr, bool) {
  return herocks::OpenDatabase(db_options, name, Mode::kRead, column_families, handles, dbptr);
}

HEROCKS_EXPORTED Status DB::ListColumnFamilies(const DBOptions& db_options, const std::string& name,
                                               std::vector<std::string>* column_families) {
  column_families->clear();
  if (herocks::Registry::Get().Families(name, column_families)) return Status::OK();
  DBOptions options = db_options;
  options.create_if_missing = false;
  Status allowed = herocks::CheckPlace(options, name, Mode::kRead);
  herocks::StoreOptions made;
  if (allowed.ok()) allowed = herocks::MakeStoreOptions(options, {}, &made);
  made.read_only = true;
  std::unique_ptr<herocks::Store> store;
  if (allowed.ok()) allowed = herocks::Store::Open(name, made, &store);
  std::unique_ptr<herocks::Catalog> catalog;
  if (allowed.ok()) allowed = herocks::Catalog::Load(store.get(), true, &catalog);
  if (!allowed.ok()) return allowed;
  for (const herocks::FamilyRecord& family : catalog->Families()) {
    column_families->push_back(family.name);
  }
  return store->Close();
}

HEROCKS_EXPORTED Status DestroyDB(const std::string& name, const Options&,
                                  const std::vector<ColumnFamilyDescriptor>&) {
  return herocks::DestroyStore(name);
}

HEROCKS_EXPORTED void CancelAllBackgroundWork(DB*, bool) {
  // What Heliox does in the background ends with the database.
}

}  // namespace rocksdb
