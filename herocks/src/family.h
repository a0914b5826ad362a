// A column family: its place in the store, its options, its codecs.
//
// A family lives as long as a handle to it, or the database, does; one that was dropped can be
// read through its handles until the last of them is gone, as in RocksDB. Threads: constant after
// it was made, but for `dropped`, what listeners are told from, and the options that can be changed.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "catalog.h"
#include "codec.h"
#include "engine.h"
#include "listeners.h"

namespace herocks {

// Takes keyspaces of dropped families away, as long as the database is open.
class Reaper {
 public:
  explicit Reaper(Catalog* catalog) : catalog_(catalog) {}
  void Reap(const std::string& space) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // The next opening does what fails here.
    if (catalog_ != nullptr) (void)catalog_->DropSpace(space);
  }
  void Retire() {
    const std::lock_guard<std::mutex> lock(mutex_);
    catalog_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Catalog* catalog_;
};

struct Family {
  Family(const FamilyRecord& record, Space space_, const rocksdb::ColumnFamilyOptions& options_,
         std::shared_ptr<Reaper> reaper_, std::shared_ptr<Listeners> listeners_)
      : id(record.id),
        name(record.name),
        space_name(record.space),
        space(std::move(space_)),
        options(options_),
        reaper(std::move(reaper_)),
        listeners(std::move(listeners_)),
        keys(options_.comparator == rocksdb::ReverseBytewiseComparator()),
        now_(options_) {}

  ~Family() {
    if (dropped.load() && reaper != nullptr) reaper->Reap(space_name);
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  const rocksdb::MergeOperator* merger() const { return options.merge_operator.get(); }

  // The options as they are now; what cannot be changed is the same in `options`.
  rocksdb::ColumnFamilyOptions Now() const {
    const std::lock_guard<std::mutex> lock(now_mutex_);
    return now_;
  }
  std::shared_ptr<const rocksdb::SliceTransform> PrefixExtractor() const {
    const std::lock_guard<std::mutex> lock(now_mutex_);
    return now_.prefix_extractor;
  }
  void Change(const rocksdb::ColumnFamilyOptions& changed) {
    const std::lock_guard<std::mutex> lock(now_mutex_);
    now_ = changed;
  }

  // What there is to be told of the next flush and of the next compaction; only listeners ask.
  enum News : unsigned { kForFlush = 1, kForCompaction = 2 };
  // After a change. Costs a look, since all is said already as a rule.
  void Note(unsigned news) const {
    if ((news_.load(std::memory_order_relaxed) & news) != news) news_.fetch_or(news);
  }
  // Whether there was such news, which is none from now on.
  bool Take(News news) const { return (news_.fetch_and(~static_cast<unsigned>(news)) & news) != 0; }

  const uint32_t id;
  const std::string name;
  // The keyspace it is kept in.
  const std::string space_name;
  const Space space;
  // As it was opened.
  const rocksdb::ColumnFamilyOptions options;
  const std::shared_ptr<Reaper> reaper;
  const std::shared_ptr<Listeners> listeners;
  const KeyCodec keys;
  std::atomic<bool> dropped{false};
  // The last change that a flush was told of.
  mutable std::atomic<uint64_t> flushed_sequence{0};

 private:
  mutable std::atomic<unsigned> news_{0};
  mutable std::mutex now_mutex_;
  rocksdb::ColumnFamilyOptions now_;
};

using FamilyPtr = std::shared_ptr<Family>;

// What programs hold. Any number of them for one family.
class FamilyHandle final : public rocksdb::ColumnFamilyHandle {
 public:
  explicit FamilyHandle(FamilyPtr family) : family_(std::move(family)) {}
  ~FamilyHandle() override {
    family_->listeners->Each([this](rocksdb::EventListener* listener) {
      listener->OnColumnFamilyHandleDeletionStarted(this);
    });
  }

  const FamilyPtr& family() const { return family_; }
  const std::string& GetName() const override { return family_->name; }
  uint32_t GetID() const override { return family_->id; }
  Status GetDescriptor(rocksdb::ColumnFamilyDescriptor* desc) override {
    *desc = rocksdb::ColumnFamilyDescriptor(family_->name, family_->Now());
    return Status::OK();
  }
  const rocksdb::Comparator* GetComparator() const override {
    return family_->options.comparator;
  }

 private:
  const FamilyPtr family_;
};

}  // namespace herocks
