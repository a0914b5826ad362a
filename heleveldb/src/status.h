// From the engine's codes to LevelDB's Status, and the border that no exception crosses.
//
// Threads: no state.
#pragma once

#include <heliox.h>
#include <leveldb/status.h>

#include <exception>

namespace heleveldb {

using leveldb::Slice;
using leveldb::Status;

// Frees the error and says it in LevelDB's terms. The error is looked at after the call that makes
// the code, which may stand in the same expression.
Status ToStatus(heliox_code code, heliox_error* const& error);

// Does what `work` does; what it throws, such as a lack of memory, becomes a Status.
template <typename Work>
Status Guarded(Work work) {
  try {
    return work();
  } catch (const std::exception& thrown) {
    return Status::IOError("heleveldb", thrown.what());
  } catch (...) {
    return Status::IOError("heleveldb", "an unknown exception");
  }
}

}  // namespace heleveldb
