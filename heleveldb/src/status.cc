// From the engine's codes to LevelDB's Status. See status.h.
#include "status.h"

#include <string>

namespace heleveldb {

Status ToStatus(heliox_code code, heliox_error* const& error) {
  if (code == HELIOX_OK) return Status::OK();
  if (code == HELIOX_NOT_FOUND) return Status::NotFound(Slice());
  const std::string text = error != nullptr ? heliox_error_text(error) : heliox_code_name(code);
  heliox_error_free(error);
  switch (code) {
    case HELIOX_INVALID:
    case HELIOX_TOO_LARGE:
    case HELIOX_NOT_A_STORE:
    case HELIOX_STORE_EXISTS:
    case HELIOX_ENCRYPTED:
    case HELIOX_NOT_ENCRYPTED:
    case HELIOX_WRONG_KEY:
      return Status::InvalidArgument(text);
    case HELIOX_VERSION:
      return Status::NotSupported(text);
    case HELIOX_DAMAGED:
      return Status::Corruption(text);
    case HELIOX_STORE_IN_USE:
      return Status::IOError("lock", text);
    case HELIOX_OVER_BUDGET:
      return Status::IOError(text, "HELIOX_MEMORY=... gives the store more");
    default:
      return Status::IOError(text);
  }
}

}  // namespace heleveldb
