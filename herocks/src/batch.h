// A WriteBatch taken apart: its changes in order, ready to be made in one step.
//
// Puts and deletes go into one batch of the engine's. If some merge, the present values of those
// keys are read first, with their locks held. If some delete a range beside others, what is in the
// range is read with all other writers kept out, and deleted key by key in the same batch; a batch
// that is nothing but one range takes constant time. Memory: a range in a batch costs its keys.
#pragma once

#include <rocksdb/write_batch.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "database.h"

namespace herocks {

class BatchPlan final : public rocksdb::WriteBatch::Handler {
 public:
  BatchPlan(Database* db, const WriteOptions& options) : db_(db), options_(options) {}

  // Makes the changes, which `batch` must outlive.
  Status Apply();

  Status PutCF(uint32_t id, const Slice& key, const Slice& value) override {
    return Add(Kind::kPut, id, key, value);
  }
  Status DeleteCF(uint32_t id, const Slice& key) override {
    return Add(Kind::kDelete, id, key, Slice());
  }
  Status SingleDeleteCF(uint32_t id, const Slice& key) override {
    return Add(Kind::kDelete, id, key, Slice());
  }
  Status DeleteRangeCF(uint32_t id, const Slice& begin, const Slice& end) override;
  Status MergeCF(uint32_t id, const Slice& key, const Slice& operand) override;
  Status PutEntityCF(uint32_t, const Slice&, const Slice&) override;
  Status PutBlobIndexCF(uint32_t, const Slice&, const Slice&) override;
  void LogData(const Slice&) override {}
  // Marks of two-phase commits: RocksDB ignores those of a batch that nobody prepared, and its
  // Iterate takes nothing but OK for an answer. A commit, which it would not survive, is refused later.
  Status MarkBeginPrepare(bool) override { return Status::OK(); }
  Status MarkEndPrepare(const Slice&) override { return Status::OK(); }
  Status MarkNoop(bool) override { return Status::OK(); }
  Status MarkRollback(const Slice&) override { return Status::OK(); }
  Status MarkCommit(const Slice&) override {
    commits_ = true;
    return Status::OK();
  }
  Status MarkCommitWithTimestamp(const Slice&, const Slice&) override { return TwoPhase(); }
  // As of a database without transactions: marks of the other policies are refused by Iterate.
  OptionState WriteAfterCommit() const override { return OptionState::kEnabled; }
  OptionState WriteBeforePrepare() const override { return OptionState::kDisabled; }

 private:
  enum class Kind { kPut, kDelete, kRange, kMerge };
  struct Change {
    Kind kind;
    const Family* family;
    Slice key;
    // The value, the operand, or the end of the range.
    Slice value;
  };
  // By family and the engine's key: the bytes to keep, or none for a delete.
  using Outcome = std::map<std::pair<uint32_t, std::string>, std::optional<std::string>>;

  static Status TwoPhase();
  Status Add(Kind kind, uint32_t id, const Slice& key, const Slice& value);
  Status Find(uint32_t id, const Family** family);
  Status ApplyOne(const Change& change);
  Status ApplyPlain(Promise promise);
  Status ApplyLocked(Promise promise);
  Status ApplyWorkedOut(Promise promise);
  Status WorkOut(const Change& change, Outcome* outcome);
  Status WorkOutMerge(const Change& change, const std::string& key, Outcome* outcome);
  Status WorkOutRange(const Change& change, Outcome* outcome);
  void Count();

  Database* const db_;
  const WriteOptions& options_;
  std::vector<Change> changes_;
  std::vector<FamilyPtr> families_;
  bool has_range_ = false;
  bool has_merge_ = false;
  bool has_merger_ = false;
  bool commits_ = false;
};

}  // namespace herocks
