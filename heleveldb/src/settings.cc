// From LevelDB's options and the environment to the engine's, and what is refused. See settings.h.
//
// Also stands in the place of NewLRUCache, since a cache does not tell its capacity.
#include "settings.h"

#include <dlfcn.h>
#include <leveldb/c.h>
#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>

#include <map>
#include <mutex>
#include <string>

#include "dropin/environment.h"
#include "exported.h"

namespace heleveldb {

namespace {

constexpr uint64_t kDefaultCacheBytes = 8ull << 20;
// LevelDB fills one while it writes out another.
constexpr uint64_t kWriteBuffers = 2;

// The capacities of caches, by address. One that is gone leaves its entry to the next at its place.
struct Caches {
  std::mutex mutex;
  std::map<const leveldb::Cache*, uint64_t> capacities;

  static Caches& Get() {
    // Never taken down: programs end with databases open.
    static Caches* const caches = new Caches;
    return *caches;
  }
};

uint64_t CacheBytes(const leveldb::Cache* cache) {
  if (cache == nullptr) return kDefaultCacheBytes;
  Caches& caches = Caches::Get();
  const std::lock_guard<std::mutex> lock(caches.mutex);
  const auto found = caches.capacities.find(cache);
  return found == caches.capacities.end() ? kDefaultCacheBytes : found->second;
}

}  // namespace

Status CheckOptions(const leveldb::Options& options) {
  if (options.comparator == nullptr) return Status::InvalidArgument("comparator is null");
  if (options.comparator != leveldb::BytewiseComparator()) {
    return Status::NotSupported(
        std::string("Heliox does not support a comparator of the program's own, ") + options.comparator->Name(),
        "keys are in the order of leveldb::BytewiseComparator()");
  }
  if (options.env != nullptr && options.env != leveldb::Env::Default()) {
    return Status::NotSupported("Heliox does not support this Env",
                                "it reads and writes files itself: a store in memory would not be");
  }
  return Status::OK();
}

Status CheckVersion() {
  const int major = leveldb_major_version();
  const int minor = leveldb_minor_version();
  if (major == leveldb::kMajorVersion && minor == leveldb::kMinorVersion) return Status::OK();
  return Status::NotSupported(
      "LevelDB " + std::to_string(major) + "." + std::to_string(minor) + " runs",
      "this library stands in for " + std::to_string(leveldb::kMajorVersion) + "." +
          std::to_string(leveldb::kMinorVersion) + " alone");
}

Status MakeSettings(const leveldb::Options& options, Settings* settings) {
  settings->memory_bytes =
      kWriteBuffers * options.write_buffer_size + CacheBytes(options.block_cache);
  return dropin::ReadEnvironment<Status>(settings);
}

}  // namespace heleveldb

namespace leveldb {

HELEVELDB_EXPORTED Cache* NewLRUCache(size_t capacity) {
  using Make = Cache* (*)(size_t);
  static const Make real = reinterpret_cast<Make>(::dlsym(RTLD_NEXT, "_ZN7leveldb11NewLRUCacheEm"));
  Cache* const cache = real == nullptr ? nullptr : real(capacity);
  if (cache == nullptr) return nullptr;
  heleveldb::Guarded([&] {
    heleveldb::Caches& caches = heleveldb::Caches::Get();
    const std::lock_guard<std::mutex> lock(caches.mutex);
    caches.capacities[cache] = capacity;
    return Status::OK();
  });
  return cache;
}

}  // namespace leveldb
