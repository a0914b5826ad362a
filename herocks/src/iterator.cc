// RocksDB's iterator over a family. See iterator.h.
#include "iterator.h"

#include <rocksdb/slice_transform.h>

namespace herocks {

FamilyIterator::FamilyIterator(const Database* db, FamilyPtr family, const ReadOptions& options,
                               ViewPtr view)
    : db_(db),
      statistics_(db->shared_statistics()),
      family_(std::move(family)),
      options_(options),
      own_view_(options.snapshot == nullptr),
      view_(std::move(view)) {
  if (statistics_ != nullptr) {
    statistics_->recordTick(rocksdb::NO_ITERATOR_CREATED, 1);
  }
}

FamilyIterator::~FamilyIterator() {
  if (statistics_ != nullptr) {
    statistics_->recordTick(rocksdb::NO_ITERATOR_DELETED, 1);
  }
}

// Makes ready for a seek: the view, and the bounds as they are now.
bool FamilyIterator::Begin() {
  valid_ = false;
  status_ = Status::OK();
  has_prefix_ = false;
  bool is_new = !scan_.started();
  if (own_view_ && (view_ == nullptr || options_.tailing)) {
    if (!Look()) return false;
    is_new = true;
  }
  const Slice* lower = options_.iterate_lower_bound;
  const Slice* upper = options_.iterate_upper_bound;
  Slice from;
  Slice to;
  std::string to_scratch;
  if (lower != nullptr) from = family_->keys.Encode(*lower, &bound_scratch_);
  if (upper != nullptr) to = family_->keys.Encode(*upper, &to_scratch);
  const bool same = has_from_ == (lower != nullptr) && has_to_ == (upper != nullptr) &&
                    (lower == nullptr || from == Slice(from_)) &&
                    (upper == nullptr || to == Slice(to_));
  if (!is_new && same) return true;
  return Restart(lower == nullptr ? nullptr : &from, upper == nullptr ? nullptr : &to);
}

// Takes a new view.
bool FamilyIterator::Look() {
  // In this order, no change is missed.
  seen_sequence_ = db_->GetLatestSequenceNumber();
  status_ = db_->store().Snapshot(&view_);
  return status_.ok();
}

bool FamilyIterator::Restart(const Slice* from, const Slice* to) {
  has_from_ = from != nullptr;
  has_to_ = to != nullptr;
  from_ = has_from_ ? from->ToString() : std::string();
  to_ = has_to_ ? to->ToString() : std::string();
  const Slice first(from_);
  const Slice end(to_);
  status_ = scan_.Start(family_->space, view_.get(), has_from_ ? &first : nullptr,
                        has_to_ ? &end : nullptr);
  return status_.ok();
}

// Takes over what the scan found.
void FamilyIterator::Stand(bool found, uint32_t ticker, uint32_t ticker_found) {
  valid_ = false;
  rocksdb::Statistics* const statistics = statistics_.get();
  if (statistics != nullptr) statistics->recordTick(ticker, 1);
  if (!found) {
    if (status_.ok()) status_ = scan_.status();
    return;
  }
  Slice stored_key;
  Slice stored;
  scan_.Entry(&stored_key, &stored);
  key_ = family_->keys.Decode(stored_key, &key_scratch_);
  if (has_prefix_ && !IsWithin(key_)) return;
  status_ = db_->Resolve(*family_, key_, stored, &value_, &merged_);
  valid_ = status_.ok();
  if (valid_ && options_.pin_data) {
    key_ = Pin(key_);
    value_ = Pin(value_);
  }
  if (valid_ && statistics != nullptr) {
    statistics->recordTick(ticker_found, 1);
    statistics->recordTick(rocksdb::ITER_BYTES_READ, key_.size() + value_.size());
  }
}

Slice FamilyIterator::Pin(const Slice& bytes) {
  return pinned_.emplace_back(bytes.data(), bytes.size());
}

void FamilyIterator::KeepPrefix(const Slice& target) {
  if (extractor_ == nullptr || !extractor_->InDomain(target)) return;
  prefix_ = extractor_->Transform(target).ToString();
  has_prefix_ = true;
}

bool FamilyIterator::IsWithin(const Slice& key) const {
  return extractor_->InDomain(key) && extractor_->Transform(key) == Slice(prefix_);
}

// The target of a seek, which may be the key that the iterator stands on: that goes with the scan.
Slice FamilyIterator::Keep(const Slice& target) {
  target_.assign(target.data(), target.size());
  return Slice(target_);
}

void FamilyIterator::SeekToFirst() {
  const Timed timed(statistics_.get(), rocksdb::DB_SEEK);
  if (!Begin()) return;
  Stand(scan_.First(), rocksdb::NUMBER_DB_SEEK, rocksdb::NUMBER_DB_SEEK_FOUND);
  if (valid_) KeepPrefix(key_);
}

void FamilyIterator::SeekToLast() {
  const Timed timed(statistics_.get(), rocksdb::DB_SEEK);
  if (!Begin()) return;
  Stand(scan_.Last(), rocksdb::NUMBER_DB_SEEK, rocksdb::NUMBER_DB_SEEK_FOUND);
  if (valid_) KeepPrefix(key_);
}

void FamilyIterator::Seek(const Slice& given) {
  const Timed timed(statistics_.get(), rocksdb::DB_SEEK);
  const Slice target = Keep(given);
  if (!Begin()) return;
  KeepPrefix(target);
  Stand(scan_.At(family_->keys.Encode(target, &bound_scratch_)), rocksdb::NUMBER_DB_SEEK,
        rocksdb::NUMBER_DB_SEEK_FOUND);
}

void FamilyIterator::SeekForPrev(const Slice& given) {
  const Timed timed(statistics_.get(), rocksdb::DB_SEEK);
  const Slice target = Keep(given);
  if (!Begin()) return;
  KeepPrefix(target);
  Stand(scan_.AtOrBefore(family_->keys.Encode(target, &bound_scratch_)), rocksdb::NUMBER_DB_SEEK,
        rocksdb::NUMBER_DB_SEEK_FOUND);
}

void FamilyIterator::Next() {
  if (!valid_) return;
  Stand(Advance(), rocksdb::NUMBER_DB_NEXT, rocksdb::NUMBER_DB_NEXT_FOUND);
}

// A step, for a tailing iterator also beyond what there was when it looked.
bool FamilyIterator::Advance() {
  const bool follows = options_.tailing && own_view_;
  std::string after;
  if (follows) after = family_->keys.Encode(key_, &bound_scratch_).ToString() + '\0';
  if (scan_.Next()) return true;
  if (!follows || !scan_.status().ok()) return false;
  if (db_->GetLatestSequenceNumber() == seen_sequence_ || !Look()) return false;
  const Slice from(from_);
  const Slice to(to_);
  return Restart(has_from_ ? &from : nullptr, has_to_ ? &to : nullptr) && scan_.At(after);
}

void FamilyIterator::Prev() {
  if (!valid_) return;
  Stand(scan_.Prev(), rocksdb::NUMBER_DB_PREV, rocksdb::NUMBER_DB_PREV_FOUND);
}

const rocksdb::WideColumns& FamilyIterator::columns() const {
  columns_.clear();
  if (valid_) columns_.emplace_back(rocksdb::kDefaultWideColumnName, value_);
  return columns_;
}

Status FamilyIterator::Refresh() {
  valid_ = false;
  if (!own_view_) return Status::NotSupported("the iterator reads at a snapshot");
  if (!Look()) return status_;
  const Slice from(from_);
  const Slice to(to_);
  Restart(has_from_ ? &from : nullptr, has_to_ ? &to : nullptr);
  return status_;
}

Status FamilyIterator::GetProperty(std::string name, std::string* property) {
  if (property == nullptr) return Status::InvalidArgument("prop is nullptr");
  if (name == "rocksdb.iterator.super-version-number") {
    *property = "0";
  } else if (name == "rocksdb.iterator.is-key-pinned") {
    *property = !valid_ ? "Iterator is not valid." : options_.pin_data ? "1" : "0";
  } else if (name == "rocksdb.iterator.internal-key") {
    *property = valid_ ? key_.ToString() : std::string();
  } else {
    return Status::InvalidArgument("Unidentified property.");
  }
  return Status::OK();
}

}  // namespace herocks
