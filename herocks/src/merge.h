// Merges operands by the program's own operator.
//
// A merge appends its operand to the kept value, which keeps its base and the operands apart, so
// that GetMergeOperands can tell them; every merge thus writes the base and the waiting operands
// again. Few wait for an associative operator, whose results show no difference, more for others.
// Beyond the bound they are merged into a new base; since the base is
// always known, operands never have to be merged with each other alone (PartialMerge). Threads: as
// the operator, which RocksDB already demands to be safe.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/status.h>

#include <string>

#include "codec.h"

namespace herocks {

using rocksdb::Status;

// Operands that wait at most: of associative operators, and of others.
constexpr size_t kAssociativeMax = 16;
constexpr size_t kOperandsMax = 1024;
constexpr size_t kOperandBytesMax = 1 << 20;

// The value that base and operands make. Corruption if the operator refuses.
Status MergeFully(const rocksdb::MergeOperator& merger, rocksdb::Logger* log, const Slice& key,
                  const Stack& stack, std::string* value);

// The bytes to keep once `operand` was merged into what is kept (`stored`, absent if null).
Status AppendOperand(const rocksdb::MergeOperator& merger, rocksdb::Logger* log,
                     const ValueCodec& codec, const Slice& key, const Slice* stored,
                     const Slice& operand, std::string* next);

}  // namespace herocks
