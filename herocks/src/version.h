// Whether the libraries around this one are those it was compiled for.
#pragma once

#include <rocksdb/status.h>

namespace herocks {

// NotSupported if RocksDB's version, or libheliox's interface, is another one.
rocksdb::Status CheckVersions();

}  // namespace herocks
