// LevelDB's functions that open, destroy and repair databases: ours in their place.
//
// Each is defined with the name and type that LevelDB gives it, and found first by the dynamic
// linker, also by LevelDB's own C interface. Threads: all may be called by any.
#include <leveldb/db.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "database.h"
#include "dropin/environment.h"
#include "exported.h"
#include "place.h"
#include "settings.h"

namespace heleveldb {

namespace {

// Keyspaces that tell that the store is not one of LevelDB's kind.
constexpr const char* kHerocksSpace = ".herocks";
constexpr const char* kImportSpace = ".import";

struct Free {
  void operator()(heliox_store* it) const { heliox_store_free(it); }
  void operator()(heliox_keyspace* it) const { heliox_keyspace_free(it); }
  void operator()(heliox_list* it) const { heliox_list_free(it); }
};
template <typename Handle>
using Owned = std::unique_ptr<Handle, Free>;

Status CheckPlace(const leveldb::Options& options, const std::string& dir) {
  Status ours = CheckNotLevelDB(dir);
  if (!ours.ok()) return ours;
  if (HoldsStore(dir)) {
    if (!options.error_if_exists) return Status::OK();
    return Status::InvalidArgument(dir, "exists (error_if_exists is true)");
  }
  if (!options.create_if_missing) {
    return Status::InvalidArgument(dir, "does not exist (create_if_missing is false)");
  }
  if (::mkdir(dir.c_str(), 0755) != 0 && errno != EEXIST) {
    return Status::IOError(dir, std::strerror(errno));
  }
  return Status::OK();
}

// Refuses stores whose keys and values are not what LevelDB's are.
Status CheckKind(const heliox_store* store, const std::string& dir) {
  heliox_list* raw = nullptr;
  heliox_error* error = nullptr;
  Status listed = ToStatus(heliox_store_keyspaces(store, &raw, &error), error);
  const Owned<heliox_list> names(raw);
  for (size_t at = 0; listed.ok() && at < heliox_list_count(names.get()); at++) {
    const std::string name = heliox_list_get(names.get(), at);
    if (name == kHerocksSpace) {
      return Status::InvalidArgument(dir, "is a database of HeRocks, not of LevelDB's kind");
    }
    if (name == kImportSpace) {
      return Status::InvalidArgument(dir, "holds a part of an import: run `heliox import` again");
    }
  }
  return listed;
}

// What the engine found at opening, if the program wants to stop at it.
Status CheckWhole(const heliox_store* store) {
  heliox_list* raw = nullptr;
  heliox_error* error = nullptr;
  Status asked = ToStatus(heliox_store_damage(store, &raw, &error), error);
  const Owned<heliox_list> damage(raw);
  if (!asked.ok() || heliox_list_count(damage.get()) == 0) return asked;
  return Status::Corruption(heliox_list_get(damage.get(), 0));
}

Status OpenDatabase(const leveldb::Options& options, const std::string& dir, leveldb::DB** db) {
  Settings settings;
  Status opened = CheckVersion();
  if (opened.ok()) opened = CheckOptions(options);
  if (opened.ok()) opened = MakeSettings(options, &settings);
  if (opened.ok()) opened = CheckPlace(options, dir);
  if (!opened.ok()) return opened;
  const auto made = dropin::MakeOptions(settings, options.create_if_missing);
  heliox_store* raw_store = nullptr;
  heliox_error* error = nullptr;
  opened = ToStatus(heliox_store_open(dir.c_str(), made.get(), &raw_store, &error), error);
  Owned<heliox_store> store(raw_store);
  if (opened.ok()) opened = CheckKind(store.get(), dir);
  if (opened.ok() && options.paranoid_checks) opened = CheckWhole(store.get());
  if (!opened.ok()) return opened;
  heliox_keyspace* raw_space = nullptr;
  opened = ToStatus(heliox_keyspace_open_or_create(store.get(), kSpace, &raw_space, &error), error);
  Owned<heliox_keyspace> space(raw_space);
  if (!opened.ok()) return opened;
  auto database =
      std::make_unique<Database>(store.get(), space.get(), settings.durability_ms == 0);
  (void)store.release();
  (void)space.release();
  *db = database.release();
  return opened;
}

// A store mends by itself what has a copy, so there is only to tell whether it is whole.
Status CheckStore(const std::string& dir) {
  Status allowed = CheckNotLevelDB(dir);
  if (!allowed.ok()) return allowed;
  if (!HoldsStore(dir)) return Status::IOError(dir, "repair found no store");
  const auto options = dropin::KeyOptions();
  heliox_check_report report = {};
  report.struct_size = sizeof report;
  heliox_list* raw = nullptr;
  heliox_error* error = nullptr;
  Status checked = ToStatus(
      heliox_check(dir.c_str(), options.get(), nullptr, nullptr, &report, &raw, &error), error);
  const Owned<heliox_list> problems(raw);
  if (!checked.ok() || report.problem_count == 0) return checked;
  const char* first = heliox_list_get(problems.get(), 0);
  return Status::Corruption(first == nullptr ? dir : first,
                            "`heliox scrub` mends what can be mended, `heliox restore` gives a backup");
}

}  // namespace

}  // namespace heleveldb

namespace leveldb {

HELEVELDB_EXPORTED Status DB::Open(const Options& options, const std::string& name, DB** dbptr) {
  *dbptr = nullptr;
  return heleveldb::Guarded([&] { return heleveldb::OpenDatabase(options, name, dbptr); });
}

HELEVELDB_EXPORTED Status DestroyDB(const std::string& name, const Options&) {
  return heleveldb::Guarded([&] { return heleveldb::DestroyStore(name); });
}

HELEVELDB_EXPORTED Status RepairDB(const std::string& name, const Options&) {
  return heleveldb::Guarded([&] { return heleveldb::CheckStore(name); });
}

}  // namespace leveldb
