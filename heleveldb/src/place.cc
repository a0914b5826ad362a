// What a directory holds, and how a store goes away. See place.h.
#include "place.h"

namespace heleveldb {

Status CheckNotLevelDB(const std::string& dir) {
  return dropin::CheckNotForeign<Status>(dir);
}

Status DestroyStore(const std::string& dir) {
  const Status allowed = CheckNotLevelDB(dir);
  if (!allowed.ok()) return allowed;
  heliox_error* error = nullptr;
  return ToStatus(dropin::DeleteStore(dir, &error), error);
}

}  // namespace heleveldb
