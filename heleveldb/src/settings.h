// From LevelDB's options and the environment to the engine's, and what is refused.
//
// Threads: all functions may be called by any.
#pragma once

#include <leveldb/options.h>

#include <cstdint>

#include "status.h"

namespace heleveldb {

struct Settings {
  uint64_t memory_bytes = 0;
  // 0: what the file system has.
  uint64_t capacity_bytes = 0;
  // A bound in milliseconds; 0: every write is handed to the file before it returns.
  uint64_t durability_ms = 0;
};

// NotSupported or InvalidArgument for options that would change what a program sees.
Status CheckOptions(const leveldb::Options& options);
// NotSupported unless the library of LevelDB that runs is the one that this was compiled for.
Status CheckVersion();
// HELIOX_MEMORY, HELIOX_CAPACITY and HELIOX_DURABILITY go before the options.
Status MakeSettings(const leveldb::Options& options, Settings* settings);

}  // namespace heleveldb
