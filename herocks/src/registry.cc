// The databases that this process has open. See registry.h.
#include "registry.h"

#include <climits>
#include <cstdlib>

#include "database.h"

namespace herocks {

namespace {

// The directory without links and dots, if it is there.
std::string RealPath(const std::string& dir) {
  char* real = ::realpath(dir.c_str(), nullptr);
  if (real == nullptr) return dir;
  std::string path(real);
  ::free(real);
  return path;
}

}  // namespace

Registry& Registry::Get() {
  // Never ends, since programs close databases while they end themselves.
  static Registry* const registry = new Registry;
  return *registry;
}

void Registry::Add(const std::string& dir, Database* database) {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_[RealPath(dir)] = database;
}

void Registry::Remove(Database* database) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto at = open_.begin(); at != open_.end(); ++at) {
    if (at->second != database) continue;
    open_.erase(at);
    return;
  }
}

bool Registry::Families(const std::string& dir, std::vector<std::string>* names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = open_.find(RealPath(dir));
  if (found == open_.end()) return false;
  names->clear();
  for (const FamilyRecord& family : found->second->catalog().Families()) {
    names->push_back(family.name);
  }
  return true;
}

}  // namespace herocks
