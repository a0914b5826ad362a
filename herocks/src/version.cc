// Makes sure, before anything is opened, that the libraries around this one are those it was
// compiled for: RocksDB's classes are the interface, and they change with every minor version.
#include "version.h"

#include <heliox.h>
#include <rocksdb/version.h>

#include <cstdio>
#include <map>
#include <string>

namespace herocks {

namespace {

std::string Compiled() {
  return std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR);
}

// The running library's major and minor version.
std::string Running() {
  const std::string whole = rocksdb::GetRocksVersionAsString(false);
  return whole;
}

}  // namespace

rocksdb::Status CheckVersions() {
  if (Running() != Compiled()) {
    return rocksdb::Status::NotSupported(
        "HeRocks was built for RocksDB " + Compiled() + " and found " + Running(),
        "build it anew with the headers of that version: make herocks");
  }
  if (heliox_abi_version() != HELIOX_ABI_VERSION) {
    return rocksdb::Status::NotSupported("libheliox has another interface than HeRocks was built for");
  }
  return rocksdb::Status::OK();
}

namespace {

// Says at once what every opening would say.
__attribute__((constructor)) void SayAtLoad() {
  const rocksdb::Status status = CheckVersions();
  if (!status.ok()) std::fprintf(stderr, "herocks: %s\n", status.ToString().c_str());
}

}  // namespace

}  // namespace herocks
