// Takes a store away with all its files. See destroy.h.
#include "destroy.h"

#include <unistd.h>

#include "engine.h"
#include "options_file.h"
#include "settings.h"

namespace herocks {

Status DestroyStore(const std::string& dir) {
  Status allowed = CheckNotRocksDB(dir);
  if (!allowed.ok()) return allowed;
  const bool is_ours = HoldsStore(dir);
  Status destroyed = Store::Destroy(dir);
  if (!destroyed.ok() || !is_ours) return destroyed;
  DeleteOptionsFiles(dir);
  // Stays if something else is in it, as the engine leaves it.
  (void)::rmdir(dir.c_str());
  return destroyed;
}

}  // namespace herocks
