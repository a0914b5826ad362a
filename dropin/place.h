// What a directory holds, and how a store in it goes away, for the drop-ins; their Status is their
// library's.
//
// Threads: no state.
#pragma once

#include <dirent.h>
#include <heliox.h>
#include <sys/stat.h>

#include <cstring>
#include <string>

namespace dropin {

inline bool Exists(const std::string& path) {
  struct stat found = {};
  return ::stat(path.c_str(), &found) == 0;
}

// True if a store of Heliox is there.
inline bool HoldsStore(const std::string& dir) { return Exists(dir + "/HELIOX"); }

// True if RocksDB made what is there: it writes its identity and its options beside what LevelDB writes too.
inline bool IsRocksDB(const std::string& dir) {
  if (Exists(dir + "/IDENTITY")) return true;
  DIR* const names = ::opendir(dir.c_str());
  bool found = false;
  while (names != nullptr && !found) {
    const dirent* const entry = ::readdir(names);
    if (entry == nullptr) break;
    found = std::strncmp(entry->d_name, "OPTIONS-", 8) == 0;
  }
  if (names != nullptr) ::closedir(names);
  return found;
}

// InvalidArgument, with what to do, if a store of RocksDB or LevelDB itself is there: it is never touched.
template <typename Status>
Status CheckNotForeign(const std::string& dir) {
  if (HoldsStore(dir) || !Exists(dir + "/CURRENT")) return Status::OK();
  const bool is_rocksdb = IsRocksDB(dir);
  return Status::InvalidArgument(
      dir + " holds a store of " + (is_rocksdb ? "RocksDB" : "LevelDB") +
          " itself, which Heliox leaves alone",
      std::string("import it into another directory: heliox import DIR --from ") +
          (is_rocksdb ? "rocksdb " : "leveldb ") + dir);
}

// Deletes the store in `dir`, and the directory if nothing else is in it; HELIOX_OK if there is none.
inline heliox_code DeleteStore(const std::string& dir, heliox_error** error) {
  const heliox_code code = heliox_store_destroy(dir.c_str(), error);
  if (code != HELIOX_NOT_A_STORE) return code;
  heliox_error_free(*error);
  *error = nullptr;
  return HELIOX_OK;
}

}  // namespace dropin
