// Which compactions may go on: what DisableManualCompaction, PauseBackgroundWork and a program's own
// `canceled` hold back.
//
// CompactRange is all that compacts, so each call of it is a Run. Disabling stops those that go on, and
// waits for their end; pausing waits too, but lets new ones begin, as RocksDB does with those that are
// asked for. Both count. Threads: any.
#pragma once

#include <rocksdb/status.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>

namespace herocks {

using rocksdb::Status;

class Compactions {
 public:
  // A compaction, for its time.
  class Run {
   public:
    // `canceled` is the program's, and may be null.
    Run(Compactions* all, std::atomic<bool>* canceled)
        : all_(all), canceled_(canceled == nullptr ? &own_ : canceled) {
      const std::lock_guard<std::mutex> lock(all_->mutex_);
      if (all_->disabled_ > 0) return;
      is_counted_ = true;
      all_->runs_.insert(this);
    }
    ~Run() {
      const std::lock_guard<std::mutex> lock(all_->mutex_);
      all_->runs_.erase(this);
      all_->changed_.notify_all();
    }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    // OK as long as it may go on.
    Status Allowed() const {
      if (is_counted_ && !canceled_->load(std::memory_order_acquire)) return Status::OK();
      return Status::Incomplete(Status::SubCode::kManualCompactionPaused);
    }

   private:
    friend class Compactions;

    Compactions* const all_;
    std::atomic<bool> own_{false};
    std::atomic<bool>* const canceled_;
    bool is_counted_ = false;
  };

  // Also sets a program's own `canceled`, as RocksDB does.
  void Disable() {
    std::unique_lock<std::mutex> lock(mutex_);
    disabled_++;
    for (Run* run : runs_) run->canceled_->store(true, std::memory_order_release);
    changed_.notify_all();
    changed_.wait(lock, [this] { return runs_.empty(); });
  }
  void Enable() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (disabled_ > 0) disabled_--;
  }

  void Pause() {
    std::unique_lock<std::mutex> lock(mutex_);
    paused_++;
    changed_.wait(lock, [this] { return runs_.empty(); });
  }
  // InvalidArgument if nobody has paused.
  Status Continue() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (paused_ == 0) return Status::InvalidArgument();
    paused_--;
    return Status::OK();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Run*> runs_;
  int disabled_ = 0;
  int paused_ = 0;
};

}  // namespace herocks
