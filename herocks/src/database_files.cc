// What RocksDB does when it rewrites its files: compaction filters.
//
// Heliox rewrites nothing that a filter could be asked about, so filters are asked by CompactRange
// alone, about each key of the range; what they decide is done only if the key still has the value
// that they saw.
#include <rocksdb/compaction_filter.h>
#include <rocksdb/table_properties.h>

#include <algorithm>
#include <list>

#include "database.h"
#include "merge.h"

namespace herocks {

namespace {

using rocksdb::CompactionFilter;

// The filter of a family, or one that its factory makes.
const CompactionFilter* FilterOf(const Family& family, std::unique_ptr<CompactionFilter>* made) {
  if (family.options.compaction_filter != nullptr) return family.options.compaction_filter;
  const auto& factory = family.options.compaction_filter_factory;
  if (factory == nullptr) return nullptr;
  if (!factory->ShouldFilterTableFileCreation(rocksdb::TableFileCreationReason::kCompaction)) {
    return nullptr;
  }
  CompactionFilter::Context context;
  context.is_full_compaction = true;
  context.is_manual_compaction = true;
  context.column_family_id = family.id;
  context.reason = rocksdb::TableFileCreationReason::kCompaction;
  *made = factory->CreateCompactionFilter(context);
  return made->get();
}

}  // namespace

Status Database::CompactRange(const rocksdb::CompactRangeOptions& options,
                              ColumnFamilyHandle* handle, const Slice* begin, const Slice* end) {
  if (read_only_) return Status::NotSupported("Not supported operation in read only mode.");
  const FamilyPtr family = FamilyOf(handle);
  const Compactions::Run run(&compactions_, options.canceled);
  Status done = CheckCompaction(options, *family, run);
  if (!done.ok()) return done;
  if (listeners_->empty()) {
    Asked asked;
    done = Compact(*family, begin, end, run, &asked);
  } else {
    done = CompactAndTell(family, begin, end, run);
  }
  if (done.ok() && options.change_level && options.target_level >= family->options.num_levels) {
    done = Status::InvalidArgument("Target level exceeds number of levels");
  }
  return done;
}

// What RocksDB looks at before it compacts.
Status Database::CheckCompaction(const rocksdb::CompactRangeOptions& options, const Family& family,
                                 const Compactions::Run& run) const {
  Status allowed = run.Allowed();
  if (!allowed.ok()) return allowed;
  if (family.dropped.load()) return Status::ColumnFamilyDropped();
  const auto& paths = family.options.cf_paths.empty() ? options_.db_paths : family.options.cf_paths;
  if (options.target_path_id >= paths.size()) {
    return Status::InvalidArgument("Invalid target path ID");
  }
  if (options.full_history_ts_low != nullptr && !options.full_history_ts_low->empty()) {
    return Status::InvalidArgument("Timestamp is not enabled in this column family");
  }
  return Status::OK();
}

// Space comes back by itself; what is left to do is to ask the filter, and to make all durable.
Status Database::Compact(const Family& family, const Slice* begin, const Slice* end,
                         const Compactions::Run& run, Asked* asked) {
  std::unique_ptr<CompactionFilter> made;
  const CompactionFilter* filter = FilterOf(family, &made);
  if (filter != nullptr) {
    Status filtered = FilterRange(family, *filter, begin, end, run, asked);
    if (!filtered.ok()) return filtered;
  }
  return store_->Sync();
}

// As RocksDB, flushes first, and compacts if there is anything.
Status Database::CompactAndTell(const FamilyPtr& family, const Slice* begin, const Slice* end,
                                const Compactions::Run& run) {
  Status done = FlushFamilies({family}, rocksdb::FlushReason::kManualCompaction);
  if (!done.ok()) return done;
  if (!family->Take(Family::kForCompaction)) {
    Scan scan;
    done = StartRange(*family, begin, end, &scan);
    if (!done.ok() || !scan.First()) return done.ok() ? scan.status() : done;
  }
  rocksdb::CompactionJobInfo job = {};
  job.cf_id = family->id;
  job.cf_name = family->name;
  job.thread_id = options_.env->GetThreadID();
  job.job_id = listeners_->NextJob();
  job.output_level = std::max(family->options.num_levels - 1, 0);
  job.compaction_reason = rocksdb::CompactionReason::kManualCompaction;
  job.stats.Reset();
  job.stats.is_manual_compaction = true;
  job.stats.is_full_compaction = begin == nullptr && end == nullptr;
  listeners_->Each([&](rocksdb::EventListener* it) { it->OnCompactionBegin(this, job); });
  const uint64_t begun_micros = options_.env->NowMicros();
  Asked asked;
  done = Compact(*family, begin, end, run, &asked);
  job.stats.elapsed_micros = options_.env->NowMicros() - begun_micros;
  job.stats.num_input_records = asked.entries;
  job.stats.num_output_records = asked.entries - asked.removed;
  job.status = done;
  listeners_->Each([&](rocksdb::EventListener* it) { it->OnCompactionCompleted(this, job); });
  return done;
}

// A scan of the keys from `begin` to `end`, both included.
Status Database::StartRange(const Family& family, const Slice* begin, const Slice* end,
                            Scan* scan) {
  std::string scratch;
  std::string from;
  std::string to;
  if (begin != nullptr) from = family.keys.Encode(*begin, &scratch).ToString();
  // The first key that is not in the range.
  if (end != nullptr) to = family.keys.Encode(*end, &scratch).ToString() + '\0';
  const Slice from_slice(from);
  const Slice to_slice(to);
  return scan->Start(family.space, nullptr, begin == nullptr ? nullptr : &from_slice,
                     end == nullptr ? nullptr : &to_slice);
}

Status Database::FilterRange(const Family& family, const CompactionFilter& filter,
                             const Slice* begin, const Slice* end, const Compactions::Run& run,
                             Asked* asked) {
  Scan scan;
  Status status = StartRange(family, begin, end, &scan);
  std::string skip_until;
  for (bool more = status.ok() && scan.First(); more && status.ok(); more = scan.Next()) {
    status = run.Allowed();
    if (status.ok()) status = FilterEntry(family, filter, scan, &skip_until, asked);
  }
  return status.ok() ? scan.status() : status;
}

namespace {

// Asks about one value or operand. A skip that goes nowhere keeps, as in RocksDB.
CompactionFilter::Decision Ask(const Family& family, const CompactionFilter& filter,
                               const Slice& key, CompactionFilter::ValueType type,
                               const Slice& value, std::string* next, std::string* skip_until) {
  using Decision = CompactionFilter::Decision;
  next->clear();
  skip_until->clear();
  Decision decision = filter.FilterV2(0, key, type, value, next, skip_until);
  const bool skips = decision == Decision::kRemoveAndSkipUntil &&
                     family.options.comparator->Compare(*skip_until, key) > 0;
  if (decision == Decision::kRemoveAndSkipUntil && !skips) decision = Decision::kKeep;
  if (!skips) skip_until->clear();
  return decision == Decision::kPurge ? Decision::kRemove : decision;
}

}  // namespace

// Asks about the operands that wait, the youngest first, and about the base if none of them stays; then
// merges what stays, as RocksDB's compactions do.
Status Database::FilterStack(const Family& family, const CompactionFilter& filter,
                             const Slice& key, const Stack& stack, std::string* next,
                             std::string* skip_until, CompactionFilter::Decision* decision) const {
  using Decision = CompactionFilter::Decision;
  if (family.merger() == nullptr) {
    return Status::InvalidArgument("merge_operator is not properly initialized.");
  }
  Stack kept;
  kept.has_base = stack.has_base;
  kept.base = stack.base;
  std::list<std::string> changed;
  for (size_t at = stack.operands.size(); at > 0; at--) {
    const Slice operand = stack.operands[at - 1];
    std::string other;
    *decision = Ask(family, filter, key, CompactionFilter::ValueType::kMergeOperand, operand,
                    &other, skip_until);
    if (*decision == Decision::kRemoveAndSkipUntil) return Status::OK();
    if (*decision == Decision::kRemove) continue;
    if (*decision == Decision::kChangeValue) changed.push_back(std::move(other));
    kept.operands.push_back(*decision == Decision::kChangeValue ? Slice(changed.back()) : operand);
  }
  std::reverse(kept.operands.begin(), kept.operands.end());
  if (!kept.operands.empty()) {
    *decision = Decision::kChangeValue;
    return MergeFully(*family.merger(), options_.info_log.get(), key, kept, next);
  }
  *decision = Decision::kRemove;
  if (!kept.has_base) return Status::OK();
  *decision = Ask(family, filter, key, CompactionFilter::ValueType::kValue, kept.base, next,
                  skip_until);
  if (*decision == Decision::kKeep) {
    // Without the operands.
    *decision = Decision::kChangeValue;
    *next = kept.base.ToString();
  }
  return Status::OK();
}

// Asks about the entry that the scan stands at. Keys before `skip_until` go without being asked for.
Status Database::FilterEntry(const Family& family, const CompactionFilter& filter,
                             const Scan& scan, std::string* skip_until, Asked* asked) {
  using Decision = CompactionFilter::Decision;
  Slice stored_key;
  Slice stored;
  scan.Entry(&stored_key, &stored);
  std::string key_scratch;
  const Slice key = family.keys.Decode(stored_key, &key_scratch);
  Decision decision = Decision::kRemove;
  std::string next;
  if (skip_until->empty() || family.options.comparator->Compare(key, *skip_until) >= 0) {
    Slice plain;
    Stack stack;
    Status done;
    switch (values_.Decode(stored, &plain, &stack)) {
      case Shape::kPlain:
        decision = Ask(family, filter, key, CompactionFilter::ValueType::kValue, plain, &next,
                       skip_until);
        break;
      case Shape::kStack:
        done = FilterStack(family, filter, key, stack, &next, skip_until, &decision);
        break;
      case Shape::kDamaged:
        return Status::Corruption("a value with merge operands cannot be taken apart");
    }
    if (!done.ok()) return done;
  }
  asked->entries++;
  if (decision == Decision::kKeep) return Status::OK();
  const bool removes =
      decision == Decision::kRemove || decision == Decision::kRemoveAndSkipUntil;
  if (!removes && decision != Decision::kChangeValue) {
    return Status::NotSupported("a compaction filter gave a decision that is BlobDB's own");
  }
  if (removes) asked->removed++;
  std::string scratch;
  const Slice changed = values_.EncodePlain(next, &scratch);
  const Gate::Pass pass(&gate_);
  std::unique_lock<std::mutex> lock;
  if (family.merger() != nullptr) {
    lock = std::unique_lock<std::mutex>(stripes_.At(StripeOf(family.id, key)));
  }
  // Who wrote meanwhile is asked about another time.
  return family.space.CompareAndSet(stored_key, stored, removes ? nullptr : &changed);
}

}  // namespace herocks
