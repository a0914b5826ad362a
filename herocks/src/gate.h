// Who writes, and who writes alone.
//
// Most writes need nobody's leave: they pass the gate with two additions to a counter of their
// thread's own cache line. A batch that deletes a range beside other changes has to see what is in
// the range and to delete it in one step, so it closes the gate and waits until everybody is out.
// The counters also tell a reader of many keys whether anything was written meanwhile.
//
// Stripes are locks by key, for families whose values are merged: reading, appending an operand
// and writing is one step there.
#pragma once

#include <rocksdb/slice.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>

namespace herocks {

constexpr size_t kStripes = 1024;

class Gate {
 public:
  // Passes the gate for the time of one write.
  class Pass {
   public:
    explicit Pass(Gate* gate) : gate_(gate), slot_(gate->Enter()) {}
    ~Pass() { gate_->Leave(slot_); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    Gate* gate_;
    size_t slot_;
  };

  // Keeps everybody else out.
  class Alone {
   public:
    explicit Alone(Gate* gate) : gate_(gate) { gate_->Close(); }
    ~Alone() { gate_->Open(); }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    Gate* gate_;
  };

  // How many writes have begun; comparable with Ended. Ask for Ended first.
  uint64_t Begun() const { return Sum(&Slot::entered); }
  uint64_t Ended() const { return Sum(&Slot::left); }

 private:
  static constexpr size_t kSlots = 16;

  struct alignas(64) Slot {
    std::atomic<uint64_t> entered{0};
    std::atomic<uint64_t> left{0};
  };

  static size_t OwnSlot() {
    static std::atomic<size_t> next{0};
    thread_local const size_t slot = next.fetch_add(1, std::memory_order_relaxed) % kSlots;
    return slot;
  }

  size_t Enter() {
    const size_t slot = OwnSlot();
    for (;;) {
      slots_[slot].entered.fetch_add(1);
      if (!closed_.load()) return slot;
      slots_[slot].left.fetch_add(1);
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.notify_all();
      changed_.wait(lock, [this] { return !closed_.load(); });
    }
  }

  void Leave(size_t slot) {
    slots_[slot].left.fetch_add(1);
    if (!closed_.load()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  }

  void Close() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !closed_.load(); });
    closed_.store(true);
    changed_.wait(lock, [this] {
      // In this order: who is counted out was counted in before.
      const uint64_t ended = Ended();
      return ended == Begun();
    });
    slots_[0].entered.fetch_add(1);
  }

  void Open() {
    slots_[0].left.fetch_add(1);
    std::lock_guard<std::mutex> lock(mutex_);
    closed_.store(false);
    changed_.notify_all();
  }

  uint64_t Sum(std::atomic<uint64_t> Slot::*count) const {
    uint64_t sum = 0;
    for (const Slot& slot : slots_) sum += (slot.*count).load();
    return sum;
  }

  std::array<Slot, kSlots> slots_;
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Which lock is that of a key.
inline size_t StripeOf(uint32_t family, const rocksdb::Slice& key) {
  const size_t hash = std::hash<std::string_view>()(std::string_view(key.data(), key.size()));
  return (hash ^ (family * 0x9E3779B9u)) % kStripes;
}

// Locks by key.
class Stripes {
 public:
  std::mutex& At(size_t index) { return mutexes_[index % kStripes]; }

 private:
  std::array<std::mutex, kStripes> mutexes_;
};

}  // namespace herocks
