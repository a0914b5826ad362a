// The databases that this process has open, by the directory they are in.
//
// A store is open once; what asks about one that is open here (ListColumnFamilies) is answered by it. Threads: any.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace herocks {

class Database;

class Registry {
 public:
  static Registry& Get();

  void Add(const std::string& dir, Database* database);
  void Remove(Database* database);
  // The families of the database in `dir`; false if none is open there.
  bool Families(const std::string& dir, std::vector<std::string>* names);

 private:
  std::mutex mutex_;
  std::map<std::string, Database*> open_;
};

}  // namespace herocks
