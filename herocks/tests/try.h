// What truth.cc and surface.cc share: how a function is tried, and the options of the databases.
#pragma once

#include <rocksdb/compaction_filter.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>
#include <rocksdb/status.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

namespace {

using namespace rocksdb;

int failures = 0;

inline void Try(const char* name, const std::function<Status()>& what) {
  const Status status = what();
  if (status.ok()) {
    std::printf("supported %s\n", name);
  } else if (status.IsNotSupported()) {
    std::printf("refused %s\n", name);
  } else {
    std::printf("FAILED %s: %s\n", name, status.ToString().c_str());
    failures++;
  }
}

inline Status Expect(bool holds, const char* what) {
  return holds ? Status::OK() : Status::Corruption("not as expected", what);
}

class Join : public AssociativeMergeOperator {
 public:
  bool Merge(const Slice&, const Slice* existing, const Slice& value, std::string* result,
             Logger*) const override {
    *result = existing == nullptr ? value.ToString() : existing->ToString() + value.ToString();
    return true;
  }
  const char* Name() const override { return "Join"; }
};

// Drops keys with "old" in front, changes those with "change".
class Sorter : public CompactionFilter {
 public:
  bool Filter(int, const Slice& key, const Slice&, std::string* next, bool* changed) const override {
    *changed = key.starts_with("change");
    if (*changed) *next = "changed";
    return key.starts_with("old");
  }
  const char* Name() const override { return "Sorter"; }
};

inline Options BaseOptions() {
  Options options;
  options.create_if_missing = true;
  options.merge_operator = std::make_shared<Join>();
  return options;
}

}  // namespace
