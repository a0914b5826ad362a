// Stores that are still open when their program ends, for the drop-ins: what was written to them is handed
// over to their files, as programs know it from libraries that leave it to the kernel at once.
//
// A process that was forked has its parent's stores too, and leaves them alone: what it held of them would
// be written over what the parent wrote since. Threads: any.
#pragma once

#include <heliox.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

namespace dropin {

class OpenStores {
 public:
  static OpenStores& Get() {
    // Never taken down: it is asked when all else is.
    static OpenStores* const stores = new OpenStores;
    return *stores;
  }

  void Add(heliox_store* store) {
    const std::lock_guard<std::mutex> lock(mutex_);
    stores_[store] = ::getpid();
    last_opener_.store(::getpid());
  }
  // Before it is freed.
  void Remove(heliox_store* store) {
    const std::lock_guard<std::mutex> lock(mutex_);
    stores_.erase(store);
  }

  // To be called by the library's destructor.
  void HandOver() noexcept {
    // In a forked process, the lock may be held by a thread that it does not have.
    if (last_opener_.load() != ::getpid()) return;
    try {
      // What the engine keeps for each thread is gone by now in the one that ends the program.
      std::thread([this] {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const auto& each : stores_) {
          if (each.second == ::getpid()) heliox_store_flush(each.first, nullptr);
        }
      }).join();
    } catch (...) {
      // Without a thread it is as if the program had been killed.
    }
  }

 private:
  std::mutex mutex_;
  // With the process that opened each.
  std::map<heliox_store*, pid_t> stores_;
  std::atomic<pid_t> last_opener_{0};
};

}  // namespace dropin
