// The database's column families, its making and its end. See database.h.
#include <rocksdb/env.h>

#include <algorithm>

#include "database.h"
#include "registry.h"
#include "settings.h"

namespace herocks {

Timed::Timed(rocksdb::Statistics* statistics, uint32_t histogram)
    : statistics_(statistics != nullptr &&
                          statistics->get_stats_level() > rocksdb::StatsLevel::kExceptTimers
                      ? statistics
                      : nullptr),
      histogram_(histogram) {
  if (statistics_ != nullptr) begun_nanos_ = rocksdb::SystemClock::Default()->NowNanos();
}

Timed::~Timed() {
  if (statistics_ == nullptr) return;
  const uint64_t now = rocksdb::SystemClock::Default()->NowNanos();
  statistics_->reportTimeToHistogram(histogram_, (now - begun_nanos_) / 1000);
}

Database::Database(const DBOptions& options, const std::string& name, bool read_only,
                   std::unique_ptr<Store> store, std::unique_ptr<Catalog> catalog,
                   std::shared_ptr<Reaper> reaper, std::shared_ptr<Listeners> listeners,
                   const std::vector<FamilyPtr>& families)
    : options_(options),
      options_now_(options),
      name_(name),
      read_only_(read_only),
      session_id_(options.env->GenerateUniqueId()),
      store_(std::move(store)),
      catalog_(std::move(catalog)),
      reaper_(std::move(reaper)),
      listeners_(std::move(listeners)),
      values_(catalog_->mark()) {
  for (const FamilyPtr& family : families) {
    families_[family->id] = family;
    family->flushed_sequence.store(catalog_->LastSequence());
    listeners_->Made(family->name);
    if (family->id == 0) default_family_ = family;
  }
  default_handle_ = std::make_unique<FamilyHandle>(default_family_);
}

Database::~Database() {
  {
    // Those that were not released are in nobody's way.
    const std::lock_guard<std::mutex> lock(snapshots_mutex_);
    snapshots_.clear();
  }
  // What goes wrong now, Close would have told.
  (void)Close();
}

Status Database::Close() {
  const std::lock_guard<std::mutex> lock(close_mutex_);
  if (closed_) return close_status_;
  {
    const std::lock_guard<std::mutex> snapshots(snapshots_mutex_);
    if (!snapshots_.empty()) return Status::Aborted("Cannot close DB with unreleased snapshot.");
  }
  closed_ = true;
  wal_lock_.reset();
  reaper_->Retire();
  close_status_ = catalog_->Settle();
  Status closed = store_->Close();
  if (close_status_.ok()) close_status_ = closed;
  Registry::Get().Remove(this);
  return close_status_;
}

Status Database::Resume() {
  if (!store_->Failed()) return Status::OK();
  return Status::IOError("the store takes no more writes", "close the database and open it again");
}

FamilyPtr Database::FamilyById(uint32_t id) const {
  if (id == 0) return default_family_;
  const std::shared_lock<std::shared_mutex> lock(families_mutex_);
  const auto found = families_.find(id);
  return found == families_.end() ? nullptr : found->second;
}

// RocksDB allows this in a database that was opened to be read, and its tool ldb needs that: such a
// store is closed, and opened to be written for the time of the change. Reads are told so afterwards.
Status Database::ChangeFamilies(const std::function<Status(Catalog*)>& change) {
  if (!read_only_) return change(catalog_.get());
  std::vector<ColumnFamilyDescriptor> families;
  {
    const std::shared_lock<std::shared_mutex> lock(families_mutex_);
    for (const auto& each : families_) {
      families.emplace_back(each.second->name, each.second->options);
    }
  }
  StoreOptions options;
  Status done = MakeStoreOptions(options_, families, &options);
  options.create = false;
  if (done.ok()) done = store_->Close();
  std::unique_ptr<Store> store;
  std::unique_ptr<Catalog> catalog;
  if (done.ok()) done = Store::Open(name_, options, &store);
  if (done.ok()) done = Catalog::Load(store.get(), false, &catalog);
  if (done.ok()) done = change(catalog.get());
  return done.ok() ? store->Close() : done;
}

Status Database::AddFamily(const ColumnFamilyOptions& options, const std::string& name,
                           ColumnFamilyHandle** handle) {
  *handle = nullptr;
  Status allowed = CheckFamilyOptions(name, options);
  if (!allowed.ok()) return allowed;
  FamilyRecord record;
  std::unique_ptr<Space> space;
  Status added = ChangeFamilies([&](Catalog* catalog) {
    return catalog->Add(name, options.comparator->Name(), &record, &space);
  });
  if (!added.ok()) return added;
  auto family = std::make_shared<Family>(record, *space, options, reaper_, listeners_);
  family->flushed_sequence.store(catalog_->LastSequence());
  listeners_->Made(name);
  {
    const std::unique_lock<std::shared_mutex> lock(families_mutex_);
    families_[record.id] = family;
  }
  *handle = new FamilyHandle(std::move(family));
  return KeepOptions();
}

Status Database::CreateColumnFamily(const ColumnFamilyOptions& options, const std::string& name,
                                    ColumnFamilyHandle** handle) {
  return AddFamily(options, name, handle);
}

Status Database::CreateColumnFamilies(const ColumnFamilyOptions& options,
                                      const std::vector<std::string>& names,
                                      std::vector<ColumnFamilyHandle*>* handles) {
  handles->clear();
  for (const std::string& name : names) {
    ColumnFamilyHandle* handle = nullptr;
    Status added = AddFamily(options, name, &handle);
    if (!added.ok()) return added;
    handles->push_back(handle);
  }
  return Status::OK();
}

Status Database::CreateColumnFamilies(const std::vector<ColumnFamilyDescriptor>& families,
                                      std::vector<ColumnFamilyHandle*>* handles) {
  handles->clear();
  for (const ColumnFamilyDescriptor& family : families) {
    ColumnFamilyHandle* handle = nullptr;
    Status added = AddFamily(family.options, family.name, &handle);
    if (!added.ok()) return added;
    handles->push_back(handle);
  }
  return Status::OK();
}

Status Database::DropColumnFamily(ColumnFamilyHandle* handle) {
  const FamilyPtr family = FamilyOf(handle);
  if (family->id == 0) return Status::InvalidArgument("Can't drop default column family");
  // Whoever writes now finishes first, and sees it dropped from then on.
  {
    const Gate::Alone alone(&gate_);
    if (family->dropped.load()) return Status::InvalidArgument("Column family already dropped!");
    Status removed =
        ChangeFamilies([&](Catalog* catalog) { return catalog->Remove(family->id); });
    if (!removed.ok()) return removed;
    family->dropped.store(true);
    listeners_->Dropped(family->name);
    const std::unique_lock<std::shared_mutex> lock(families_mutex_);
    families_.erase(family->id);
  }
  return KeepOptions();
}

Status Database::DropColumnFamilies(const std::vector<ColumnFamilyHandle*>& handles) {
  for (ColumnFamilyHandle* handle : handles) {
    Status dropped = DropColumnFamily(handle);
    if (!dropped.ok()) return dropped;
  }
  return Status::OK();
}

Status Database::DestroyColumnFamilyHandle(ColumnFamilyHandle* handle) {
  if (handle == default_handle_.get()) {
    return Status::InvalidArgument("Cannot destroy the handle returned by DefaultColumnFamily()");
  }
  delete handle;
  return Status::OK();
}

}  // namespace herocks
