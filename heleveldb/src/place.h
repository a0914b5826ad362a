// What a directory holds. Threads: no state.
#pragma once

#include <string>

#include "dropin/place.h"
#include "status.h"

namespace heleveldb {

using dropin::HoldsStore;
// InvalidArgument, with what to do, if a store of LevelDB's own is there: it is never touched.
Status CheckNotLevelDB(const std::string& dir);
// Deletes the store with all its files, and the directory if nothing else is in it.
Status DestroyStore(const std::string& dir);

}  // namespace heleveldb
