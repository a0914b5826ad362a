// RocksDB's file of options, OPTIONS-000001 and so on, in the database's directory.
//
// RocksDB's own code writes it and reads it (LoadLatestOptions); Heliox takes no notice of it. The newest
// counts, and is renamed to its name when it is whole, so that a crash leaves the one before. Threads: one
// at a time for a directory.
#pragma once

#include <string>
#include <vector>

#include "family.h"

namespace herocks {

// Writes the next one and deletes those before. An error only if the options ask for that
// (fail_if_options_file_error).
Status WriteOptionsFile(const std::string& dir, const rocksdb::DBOptions& options,
                        const std::vector<FamilyPtr>& families);

// Deletes all of them.
void DeleteOptionsFiles(const std::string& dir);

}  // namespace herocks
