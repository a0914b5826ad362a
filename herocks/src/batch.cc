// A WriteBatch taken apart. See batch.h.
#include "batch.h"

#include <algorithm>
#include <mutex>

#include "merge.h"

namespace herocks {

Status BatchPlan::TwoPhase() {
  return Status::NotSupported("Heliox does not support two-phase commit",
                              "write the changes of the transaction as one batch");
}

Status BatchPlan::PutEntityCF(uint32_t, const Slice&, const Slice&) {
  return Status::NotSupported("Heliox does not support wide columns (PutEntity)");
}

Status BatchPlan::PutBlobIndexCF(uint32_t, const Slice&, const Slice&) {
  return Status::NotSupported("Heliox does not support BlobDB");
}

Status BatchPlan::Find(uint32_t id, const Family** family) {
  *family = nullptr;
  for (const FamilyPtr& known : families_) {
    if (known->id == id) *family = known.get();
  }
  if (*family != nullptr) return Status::OK();
  FamilyPtr found = db_->FamilyById(id);
  if (found == nullptr) {
    if (options_.ignore_missing_column_families) return Status::OK();
    return Status::InvalidArgument("Invalid column family specified in write batch");
  }
  *family = found.get();
  has_merger_ = has_merger_ || found->merger() != nullptr;
  families_.push_back(std::move(found));
  return Status::OK();
}

Status BatchPlan::Add(Kind kind, uint32_t id, const Slice& key, const Slice& value) {
  const Family* family = nullptr;
  Status found = Find(id, &family);
  if (found.ok() && family != nullptr) changes_.push_back({kind, family, key, value});
  return found;
}

Status BatchPlan::DeleteRangeCF(uint32_t id, const Slice& begin, const Slice& end) {
  const Family* family = nullptr;
  Status found = Find(id, &family);
  if (!found.ok() || family == nullptr) return found;
  const int order = family->options.comparator->Compare(begin, end);
  if (order > 0) return Status::InvalidArgument("end key comes before start key");
  if (order == 0) return Status::OK();
  has_range_ = true;
  changes_.push_back({Kind::kRange, family, begin, end});
  return Status::OK();
}

Status BatchPlan::MergeCF(uint32_t id, const Slice& key, const Slice& operand) {
  const Family* family = nullptr;
  Status found = Find(id, &family);
  if (!found.ok() || family == nullptr) return found;
  if (family->merger() == nullptr) {
    return Status::InvalidArgument("Merge requires `ColumnFamilyOptions::merge_operator != nullptr`");
  }
  has_merge_ = true;
  changes_.push_back({Kind::kMerge, family, key, operand});
  return Status::OK();
}

Status BatchPlan::Apply() {
  if (commits_) return TwoPhase();
  if (changes_.size() == 1) return ApplyOne(changes_.front());
  const Promise promise = PromiseOf(options_);
  if (changes_.empty()) {
    return promise == Promise::kSynced ? db_->store_->Sync() : Status::OK();
  }
  Status done;
  if (has_range_) {
    const Gate::Alone alone(&db_->gate_);
    done = ApplyWorkedOut(promise);
  } else {
    const Gate::Pass pass(&db_->gate_);
    done = has_merger_ ? ApplyLocked(promise) : ApplyPlain(promise);
  }
  if (done.ok()) Count();
  return done;
}

Status BatchPlan::ApplyOne(const Change& change) {
  switch (change.kind) {
    case Kind::kPut:
      return db_->WriteOne(options_, *change.family, change.key, &change.value);
    case Kind::kDelete:
      return db_->WriteOne(options_, *change.family, change.key, nullptr);
    case Kind::kMerge:
      return db_->MergeOne(options_, *change.family, change.key, change.value);
    default:
      return db_->DeleteOneRange(options_, *change.family, change.key, change.value);
  }
}

// Puts and deletes, in their order.
Status BatchPlan::ApplyPlain(Promise promise) {
  thread_local Changes out;
  out.Clear();
  std::string key_scratch;
  std::string value_scratch;
  Status added;
  for (const Change& change : changes_) {
    const Slice key = change.family->keys.Encode(change.key, &key_scratch);
    if (change.kind == Kind::kPut) {
      added = out.Put(change.family->space, key,
                      db_->values_.EncodePlain(change.value, &value_scratch));
    } else {
      added = out.Delete(change.family->space, key);
    }
    if (!added.ok()) break;
  }
  Status written = added.ok() ? db_->store_->Write(out, promise) : added;
  out.Clear();
  return written;
}

// As ApplyPlain or ApplyWorkedOut, with the locks of all keys whose values may be merged.
Status BatchPlan::ApplyLocked(Promise promise) {
  std::vector<size_t> places;
  for (const Change& change : changes_) {
    if (change.family->merger() == nullptr) continue;
    places.push_back(StripeOf(change.family->id, change.key));
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<std::unique_lock<std::mutex>> locks;
  locks.reserve(places.size());
  for (const size_t place : places) locks.emplace_back(db_->stripes_.At(place));
  return has_merge_ ? ApplyWorkedOut(promise) : ApplyPlain(promise);
}

// Works out what each key has in the end, and writes that.
Status BatchPlan::ApplyWorkedOut(Promise promise) {
  Outcome outcome;
  for (const Change& change : changes_) {
    Status worked = WorkOut(change, &outcome);
    if (!worked.ok()) return worked;
  }
  Changes out;
  for (const auto& each : outcome) {
    const uint32_t id = each.first.first;
    const auto family = std::find_if(families_.begin(), families_.end(),
                                     [id](const FamilyPtr& f) { return f->id == id; });
    Status added = each.second.has_value()
                       ? out.Put((*family)->space, each.first.second, *each.second)
                       : out.Delete((*family)->space, each.first.second);
    if (!added.ok()) return added;
  }
  return out.empty() ? Status::OK() : db_->store_->Write(out, promise);
}

Status BatchPlan::WorkOut(const Change& change, Outcome* outcome) {
  if (change.kind == Kind::kRange) return WorkOutRange(change, outcome);
  std::string scratch;
  const std::string key = change.family->keys.Encode(change.key, &scratch).ToString();
  if (change.kind == Kind::kMerge) return WorkOutMerge(change, key, outcome);
  std::optional<std::string>& place = (*outcome)[{change.family->id, key}];
  if (change.kind == Kind::kPut) {
    place = db_->values_.EncodePlain(change.value, &scratch).ToString();
  } else {
    place.reset();
  }
  return Status::OK();
}

Status BatchPlan::WorkOutMerge(const Change& change, const std::string& key, Outcome* outcome) {
  const std::pair<uint32_t, std::string> place(change.family->id, key);
  const auto earlier = outcome->find(place);
  Value value;
  Slice stored;
  bool is_there = false;
  if (earlier != outcome->end()) {
    is_there = earlier->second.has_value();
    if (is_there) stored = Slice(*earlier->second);
  } else {
    Status got = change.family->space.Get(key, nullptr, &value);
    if (!got.ok() && !got.IsNotFound()) return got;
    is_there = got.ok();
    stored = value.slice();
  }
  std::string next;
  Status appended =
      AppendOperand(*change.family->merger(), db_->options_.info_log.get(), db_->values_,
                    change.key, is_there ? &stored : nullptr, change.value, &next);
  if (appended.ok()) (*outcome)[place] = std::move(next);
  return appended;
}

Status BatchPlan::WorkOutRange(const Change& change, Outcome* outcome) {
  std::string from_scratch;
  std::string to_scratch;
  const Slice from = change.family->keys.Encode(change.key, &from_scratch);
  const Slice to = change.family->keys.Encode(change.value, &to_scratch);
  const uint32_t id = change.family->id;
  for (auto at = outcome->lower_bound({id, from.ToString()}); at != outcome->end(); ++at) {
    if (at->first.first != id || Slice(at->first.second).compare(to) >= 0) break;
    at->second.reset();
  }
  Scan scan;
  Status scanned = scan.Start(change.family->space, nullptr, &from, &to);
  if (!scanned.ok()) return scanned;
  for (bool more = scan.First(); more; more = scan.Next()) {
    Slice key;
    Slice value;
    scan.Entry(&key, &value);
    (*outcome)[{id, key.ToString()}].reset();
  }
  return scan.status();
}

void BatchPlan::Count() {
  uint64_t bytes = 0;
  for (const Change& change : changes_) bytes += change.key.size() + change.value.size();
  db_->CountKeys(changes_.size(), bytes);
  for (const FamilyPtr& family : families_) {
    family->Note(Family::kForFlush | Family::kForCompaction);
  }
}

}  // namespace herocks
