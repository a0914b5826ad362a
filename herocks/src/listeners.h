// The program's event listeners (Options::listeners), and what they are told.
//
// What a program asks for (flushes, compactions, ingestion, handles that go) is told by the thread that
// asks, before and after the work and with none of our locks held; what the engine says (its health,
// stalls) by the engine's own thread for events. A listener may therefore call the database, but for
// Close in what the engine says. It may wait: only what it is told of waits with it. There are no files,
// so where one is named it is one that is not there, and its number is 0. Threads: any.
#pragma once

#include <rocksdb/listener.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine.h"

namespace herocks {

class Listeners {
 public:
  using List = std::vector<std::shared_ptr<rocksdb::EventListener>>;

  // `dir` is the database's.
  Listeners(List listeners, const std::string& dir)
      : listeners_(std::move(listeners)), no_file_(dir + "/000000.sst") {}

  bool empty() const { return listeners_.empty(); }
  // The path that stands for a file where there is none.
  const std::string& no_file() const { return no_file_; }
  int NextJob() { return next_job_.fetch_add(1); }

  // Tells each listener, in their order.
  template <typename Call>
  void Each(const Call& call) const {
    for (const auto& listener : listeners_) call(listener.get());
  }

  // Which families there are: a stall is one of each.
  void Made(const std::string& family);
  void Dropped(const std::string& family);
  // What the engine says. One call at a time.
  void Hear(const StoreEvent& event);

 private:
  void Fail(const Status& error);
  void Recover(const Status& now);
  void Stall(rocksdb::WriteStallCondition before, rocksdb::WriteStallCondition now);

  const List listeners_;
  const std::string no_file_;
  std::atomic<int> next_job_{1};
  std::mutex mutex_;
  std::set<std::string> families_;
  // Why there is no room, as long as there is none. Of the thread that calls Hear.
  Status full_;
};

}  // namespace herocks
