// Takes a store away with all its files.
#pragma once

#include <rocksdb/status.h>

#include <string>

namespace herocks {

// OK if there is none. Refused if the store is open, or is RocksDB's own. Files that are not the
// store's stay, and so does the directory then.
rocksdb::Status DestroyStore(const std::string& dir);

}  // namespace herocks
