// RocksDB's iterator over a family.
//
// It reads at one view: its snapshot's, or one taken when it was made; a tailing iterator takes a
// new one with every seek, and at the end of what it saw if anything was written since. Bounds are
// read with every seek, since programs change what they point to; values with operands are merged
// when the iterator comes to stand on them. With pin_data it keeps a copy of every key and value that
// it stood on, until it goes. Threads: one at a time, as RocksDB's.
#pragma once

#include <rocksdb/iterator.h>

#include <deque>
#include <string>

#include "database.h"

namespace herocks {

class FamilyIterator final : public rocksdb::Iterator {
 public:
  // Null `view`: taken with the first seek.
  FamilyIterator(const Database* db, FamilyPtr family, const ReadOptions& options, ViewPtr view);
  ~FamilyIterator() override;

  bool Valid() const override { return valid_; }
  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(const Slice& given) override;
  void SeekForPrev(const Slice& given) override;
  void Next() override;
  void Prev() override;
  Slice key() const override { return key_; }
  Slice value() const override { return value_; }
  const rocksdb::WideColumns& columns() const override;
  // There are none.
  Slice timestamp() const override { return Slice(); }
  Status status() const override { return status_; }
  Status Refresh() override;
  Status GetProperty(std::string name, std::string* property) override;

 private:
  bool Begin();
  bool Look();
  bool Restart(const Slice* from, const Slice* to);
  bool Advance();
  void Stand(bool found, uint32_t ticker, uint32_t ticker_found);
  Slice Keep(const Slice& target);
  void KeepPrefix(const Slice& target);
  bool IsWithin(const Slice& key) const;
  Slice Pin(const Slice& bytes);

  const Database* const db_;
  // Outlives the database, as the iterator may.
  const std::shared_ptr<rocksdb::Statistics> statistics_;
  const FamilyPtr family_;
  const ReadOptions options_;
  // As it was when the iterator was made.
  const std::shared_ptr<const rocksdb::SliceTransform> extractor_ =
      options_.prefix_same_as_start ? family_->PrefixExtractor() : nullptr;
  // The iterator was not made for a snapshot of the program's.
  const bool own_view_;
  ViewPtr view_;
  // The last change before the view was taken, of a tailing iterator.
  SequenceNumber seen_sequence_ = 0;
  Scan scan_;
  // The bounds that `scan_` has, as the engine has them.
  std::string from_;
  std::string to_;
  bool has_from_ = false;
  bool has_to_ = false;
  // What keys must start with (prefix_same_as_start).
  std::string prefix_;
  bool has_prefix_ = false;

  bool valid_ = false;
  Status status_;
  Slice key_;
  Slice value_;
  std::string key_scratch_;
  std::string merged_;
  std::string bound_scratch_;
  std::string target_;
  // What was promised to stay (pin_data). Strings in a deque do not move.
  std::deque<std::string> pinned_;
  mutable rocksdb::WideColumns columns_;
};

}  // namespace herocks
