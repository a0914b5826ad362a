// What HeRocks costs over the library for C that it is made of, at one thread: the same puts and cached
// gets by both, turn by turn in one process, so that what else the machine does meets both alike.
//
//   overhead DIRECTORY [KEYS]
//
// The lower quartile of the turns, in nanoseconds an operation: what other programs on the machine cost
// is in the slower ones. Run it by `heliox herocks`, else it measures RocksDB.

#include <heliox.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr size_t kTurns = 100;
constexpr size_t kValueBytes = 400;
constexpr uint64_t kMemoryBytes = 1ull << 30;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "overhead: %s\n", what);
  std::exit(1);
}

void Check(const rocksdb::Status& status) {
  if (!status.ok()) {
    Fail(status.ToString().c_str());
  }
}

void Check(heliox_code code, const heliox_error* error) {
  if (code != HELIOX_OK) {
    Fail(error != nullptr ? heliox_error_text(error) : "no text");
  }
}

// Key number n, in an order that jumps about.
std::string Key(size_t n) {
  char key[21];
  std::snprintf(key, sizeof key, "%020zu", n * 0x9e3779b97f4a7c15 % 10000000000000000000u);
  return std::string(key, 20);
}

struct Operation {
  const char* name;
  std::function<void(const std::string&)> ours;
  std::function<void(const std::string&)> native;
};

double Quartile(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 4];
}

// Nanoseconds for each of the keys of this turn.
double Time(const std::function<void(const std::string&)>& run, const std::vector<std::string>& keys) {
  const auto begun = std::chrono::steady_clock::now();
  for (const std::string& key : keys) {
    run(key);
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
  return took.count() / static_cast<double>(keys.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: overhead DIRECTORY [KEYS]\n");
    return 2;
  }
  const std::string directory = argv[1];
  const size_t keys = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 500000;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kMemoryBytes);
  rocksdb::Options options;
  options.create_if_missing = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB* opened = nullptr;
  Check(rocksdb::DB::Open(options, directory + "/herocks", &opened));
  const std::unique_ptr<rocksdb::DB> db(opened);

  heliox_error* error = nullptr;
  heliox_options* settings = heliox_options_create();
  heliox_store* store = nullptr;
  heliox_keyspace* keyspace = nullptr;
  // As HeRocks opens its own.
  Check(heliox_options_set_memory_budget_bytes(settings, kMemoryBytes + options.write_buffer_size), nullptr);
  Check(heliox_store_open((directory + "/native").c_str(), settings, &store, &error), error);
  Check(heliox_keyspace_open_or_create(store, "default", &keyspace, &error), error);

  const std::string value(kValueBytes, 'v');
  const Operation operations[] = {
      {"put",
       [&](const std::string& key) { Check(db->Put(rocksdb::WriteOptions(), key, value)); },
       [&](const std::string& key) {
         Check(heliox_keyspace_put(keyspace, key.data(), key.size(), value.data(), value.size(), nullptr, &error),
               error);
       }},
      {"get",
       [&](const std::string& key) {
         rocksdb::PinnableSlice pinned;
         Check(db->Get(rocksdb::ReadOptions(), db->DefaultColumnFamily(), key, &pinned));
       },
       [&](const std::string& key) {
         heliox_value held = HELIOX_VALUE_INIT;
         Check(heliox_keyspace_get(keyspace, key.data(), key.size(), &held, &error), error);
         heliox_value_free(&held);
       }},
  };
  std::printf("%-5s %10s %10s %8s\n", "", "native ns", "HeRocks ns", "over");
  for (const Operation& operation : operations) {
    std::vector<double> ours, native;
    for (size_t turn = 0; turn < kTurns; ++turn) {
      std::vector<std::string> some;
      for (size_t n = turn * keys / kTurns; n < (turn + 1) * keys / kTurns; ++n) {
        some.push_back(Key(n));
      }
      // Who is first changes: what the processor has warm helps the second.
      if (turn % 2 == 0) {
        native.push_back(Time(operation.native, some));
        ours.push_back(Time(operation.ours, some));
      } else {
        ours.push_back(Time(operation.ours, some));
        native.push_back(Time(operation.native, some));
      }
    }
    const double mine = Quartile(ours), theirs = Quartile(native);
    std::printf("%-5s %10.0f %10.0f %7.1f%%\n", operation.name, theirs, mine, (mine / theirs - 1) * 100);
  }
  heliox_keyspace_free(keyspace);
  Check(heliox_store_close(store, &error), error);
  heliox_options_free(settings);
  return 0;
}
