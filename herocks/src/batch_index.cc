// RocksDB's WriteBatchWithIndex over our databases: what of it takes a database or a handle for one of
// RocksDB's own.
//
// All of it merges by one function, which asks the handle for the merge operator: ours stands in its
// place. That function and what it is given are not in RocksDB's headers, so both are described here as
// version 7.8 has them (version.h); they hold nothing but pointers, of which we read.
#include <rocksdb/utilities/write_batch_with_index.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "database.h"
#include "exported.h"
#include "merge.h"

namespace rocksdb {

// The operands that a batch has for a key.
class MergeContext {
 public:
  // Oldest first.
  std::vector<Slice> Operands() const {
    std::vector<Slice> operands;
    if (operand_list_ != nullptr) operands = *operand_list_;
    if (operands_reversed_) std::reverse(operands.begin(), operands.end());
    return operands;
  }

 private:
  std::unique_ptr<std::vector<Slice>> operand_list_;
  std::unique_ptr<std::vector<std::unique_ptr<std::string>>> copied_operands_;
  bool operands_reversed_ = true;
};

class WriteBatchWithIndexInternal {
 public:
  // Merges the operands into `value`, or into nothing if that is null.
  Status MergeKey(const Slice& key, const Slice* value, const MergeContext& context,
                  std::string* result) const;

 private:
  // One of the two, or none.
  DB* db_;
  const DBOptions* db_options_;
  ColumnFamilyHandle* column_family_;
};

HEROCKS_EXPORTED Status WriteBatchWithIndexInternal::MergeKey(const Slice& key, const Slice* value,
                                                              const MergeContext& context,
                                                              std::string* result) const {
  if (column_family_ == nullptr) return Status::InvalidArgument("Must provide a column_family");
  const auto* const handle = static_cast<const herocks::FamilyHandle*>(column_family_);
  const MergeOperator* const merger = handle->family()->merger();
  if (merger == nullptr) {
    return Status::InvalidArgument("Merge_operator must be set for column_family");
  }
  Logger* log = nullptr;
  if (db_ != nullptr) log = static_cast<herocks::Database*>(db_->GetRootDB())->log();
  if (db_ == nullptr && db_options_ != nullptr) log = db_options_->info_log.get();
  herocks::Stack stack;
  stack.has_base = value != nullptr;
  if (value != nullptr) stack.base = *value;
  stack.operands = context.Operands();
  // `value` may lie in `result`.
  std::string merged;
  Status done = herocks::MergeFully(*merger, log, key, stack, &merged);
  // Also what an operator that refuses has written by then.
  *result = std::move(merged);
  return done;
}

HEROCKS_EXPORTED void WriteBatchWithIndex::MultiGetFromBatchAndDB(
    DB* db, const ReadOptions& options, ColumnFamilyHandle* family, const size_t count,
    const Slice* keys, PinnableSlice* values, Status* statuses, bool) {
  for (size_t i = 0; i < count; i++) {
    statuses[i] = GetFromBatchAndDB(db, options, family, keys[i], &values[i]);
  }
}

}  // namespace rocksdb
