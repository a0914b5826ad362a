// What RocksDB keeps in its manifest, kept in a keyspace of the store.
//
// The keyspace .herocks holds the families (id, name, the keyspace each is kept in, its
// comparator), the next id (ids rise and are never used again), the mark that tells envelopes from
// plain values, the identity of the database, and how far sequence numbers may have gone. A store
// without it, as an import makes it, is adopted: each keyspace becomes a family. Changes are
// durable before they are told. Threads: all but Load may be called by any.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine.h"

namespace herocks {

constexpr const char* kCatalogSpace = ".herocks";
// Of an import that has not come to its end.
constexpr const char* kImportSpace = ".import";

struct FamilyRecord {
  uint32_t id = 0;
  std::string name;
  std::string space;
  std::string comparator;
};

class Catalog {
 public:
  // Reads the catalog; makes it in a store that has none, unless `read_only`: then it is adopted
  // in memory alone.
  static Status Load(Store* store, bool read_only, std::unique_ptr<Catalog>* catalog);

  // By id.
  std::vector<FamilyRecord> Families() const;
  bool Find(const std::string& name, FamilyRecord* found) const;
  // Gives a family an id and a keyspace, which is made. InvalidArgument if the name is taken.
  Status Add(const std::string& name, const std::string& comparator, FamilyRecord* added,
             std::unique_ptr<Space>* space);
  // The comparator of a family that was adopted without one being known.
  Status SetComparator(uint32_t id, const std::string& comparator);
  // Takes the family away; its keyspace stays until DropSpace, or the next opening.
  Status Remove(uint32_t id);
  Status DropSpace(const std::string& space);
  // Drops keyspaces of families that were removed; a crash or an open handle left them.
  Status SweepSpaces();

  const std::string& mark() const { return mark_; }
  const std::string& identity() const { return identity_; }
  // Draws another identity if the store in `dir` is a copy of the one that has it.
  Status Identify(const std::string& dir);

  // Sequence numbers: one for each change of a key.
  uint64_t LastSequence() const { return last_.load(std::memory_order_acquire); }
  void Advance(uint64_t count) {
    const uint64_t now = last_.fetch_add(count) + count;
    if (now + kLeaseAhead > leased_.load()) Lease(now);
  }
  // Keeps the last sequence number exactly, until something changes.
  Status Settle();

 private:
  static constexpr uint64_t kLease = 1u << 20;
  static constexpr uint64_t kLeaseAhead = kLease / 2;

  Catalog(Store* store, Space space) : store_(store), space_(std::move(space)) {}

  Status Read();
  Status ReadFamilies();
  Status ReadText(const char* key, std::string* text, bool* found) const;
  Status Make(bool read_only);
  Status Adopt();
  void Lease(uint64_t now);
  Status Keep(const FamilyRecord& record);
  bool IsSpaceTaken(const std::string& space) const;

  Store* const store_;
  const Space space_;
  mutable std::mutex mutex_;
  std::map<uint32_t, FamilyRecord> families_;
  uint32_t next_id_ = 1;
  std::string mark_;
  std::string identity_;
  bool read_only_ = false;
  std::atomic<uint64_t> last_{0};
  // Up to here a crash takes no number back; 0: the next change waits for a lease.
  std::atomic<uint64_t> leased_{0};
  std::mutex lease_mutex_;
};

}  // namespace herocks
