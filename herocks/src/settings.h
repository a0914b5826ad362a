// From RocksDB's options and the environment to the engine's, and what is refused.
//
// Options that only tune RocksDB's own structures are taken and have no effect. Options that change
// what a program reads or keeps, and that the shim does not do, are refused by name.
#pragma once

#include <rocksdb/db.h>

#include <string>
#include <vector>

#include "dropin/place.h"
#include "engine.h"

namespace herocks {

// Options of the families that are refused, and the database's.
Status CheckDatabaseOptions(const rocksdb::DBOptions& options);
Status CheckFamilyOptions(const std::string& name, const rocksdb::ColumnFamilyOptions& options);

// Memory from block cache and write buffers, the rest from the environment: HELIOX_MEMORY and
// HELIOX_CAPACITY (bytes, with an optional K, M, G or T), HELIOX_DURABILITY (milliseconds).
Status MakeStoreOptions(const rocksdb::DBOptions& options,
                        const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                        StoreOptions* made);

// The options as the database reports them: what programs expect to be set, is.
rocksdb::DBOptions Completed(const rocksdb::DBOptions& options, const std::string& dir);

// OK if `dir` holds no store of RocksDB's own; else says how to import it.
Status CheckNotRocksDB(const std::string& dir);
using dropin::HoldsStore;

}  // namespace herocks
