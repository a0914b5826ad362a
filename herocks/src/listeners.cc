// The program's event listeners. See listeners.h.
#include "listeners.h"

namespace herocks {

using rocksdb::BackgroundErrorReason;
using rocksdb::EventListener;
using rocksdb::WriteStallCondition;

void Listeners::Made(const std::string& family) {
  const std::lock_guard<std::mutex> lock(mutex_);
  families_.insert(family);
}

void Listeners::Dropped(const std::string& family) {
  const std::lock_guard<std::mutex> lock(mutex_);
  families_.erase(family);
}

// A listener may change the status, which in RocksDB changes what comes of it; here nothing does.
void Listeners::Fail(const Status& error) {
  Each([&](EventListener* listener) {
    Status told = error;
    listener->OnBackgroundError(BackgroundErrorReason::kWriteCallback, &told);
    told.PermitUncheckedError();
  });
}

void Listeners::Recover(const Status& now) {
  rocksdb::BackgroundErrorRecoveryInfo info;
  info.old_bg_error = full_;
  info.new_bg_error = now;
  Each([&](EventListener* listener) {
    if (now.ok()) listener->OnErrorRecoveryCompleted(full_);
    listener->OnErrorRecoveryEnd(info);
  });
  full_ = Status::OK();
}

void Listeners::Stall(WriteStallCondition before, WriteStallCondition now) {
  std::set<std::string> families;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    families = families_;
  }
  for (const std::string& family : families) {
    rocksdb::WriteStallInfo info;
    info.cf_name = family;
    info.condition.cur = now;
    info.condition.prev = before;
    Each([&](EventListener* listener) { listener->OnStallConditionsChanged(info); });
  }
}

void Listeners::Hear(const StoreEvent& event) {
  switch (event.kind) {
    case StoreEvent::Kind::kFailed: {
      const Status error(Status::IOError(event.text, "the database can be read, and written when it "
                                                     "is opened again"),
                         Status::kFatalError);
      if (!full_.ok()) Recover(error);
      return Fail(error);
    }
    case StoreEvent::Kind::kFull:
      full_ = Status(Status::NoSpace(event.text), Status::kHardError);
      Fail(full_);
      return Each([&](EventListener* listener) {
        // It recovers by itself, whatever the listener says.
        bool recovers = true;
        listener->OnErrorRecoveryBegin(BackgroundErrorReason::kWriteCallback, full_, &recovers);
      });
    case StoreEvent::Kind::kNotFull:
      return Recover(Status::OK());
    case StoreEvent::Kind::kStallBegan:
      return Stall(WriteStallCondition::kNormal, WriteStallCondition::kStopped);
    case StoreEvent::Kind::kStallEnded:
      return Stall(WriteStallCondition::kStopped, WriteStallCondition::kNormal);
  }
}

}  // namespace herocks
