// Merges operands by the program's own operator. See merge.h.
#include "merge.h"

namespace herocks {

namespace {

// Copies base and operands, each with a zero byte behind it: operators that read up to one work
// with RocksDB's own copies.
void Copy(const Stack& stack, std::string* bytes, Stack* copy) {
  size_t size = stack.base.size() + 1;
  for (const Slice& operand : stack.operands) size += operand.size() + 1;
  // Not moved any more.
  bytes->reserve(size);
  const auto keep = [bytes](const Slice& from) {
    const size_t at = bytes->size();
    bytes->append(from.data(), from.size()).push_back('\0');
    return Slice(bytes->data() + at, from.size());
  };
  copy->has_base = stack.has_base;
  if (stack.has_base) copy->base = keep(stack.base);
  for (const Slice& operand : stack.operands) copy->operands.push_back(keep(operand));
}

}  // namespace

Status MergeFully(const rocksdb::MergeOperator& merger, rocksdb::Logger* log, const Slice& key,
                  const Stack& stack, std::string* value) {
  value->clear();
  Slice chosen(nullptr, 0);
  std::string copies;
  Stack copy;
  Copy(stack, &copies, &copy);
  const rocksdb::MergeOperator::MergeOperationInput in(key, copy.has_base ? &copy.base : nullptr,
                                                       copy.operands, log);
  rocksdb::MergeOperator::MergeOperationOutput out(*value, chosen);
  if (!merger.FullMergeV2(in, &out)) {
    return Status::Corruption("Error: Could not perform merge.");
  }
  if (chosen.data() != nullptr) value->assign(chosen.data(), chosen.size());
  return Status::OK();
}

namespace {

// True if the operands must wait no longer.
bool IsDue(const rocksdb::MergeOperator& merger, const Stack& stack) {
  if (dynamic_cast<const rocksdb::AssociativeMergeOperator*>(&merger) != nullptr) {
    return stack.operands.size() > kAssociativeMax;
  }
  size_t bytes = 0;
  for (const Slice& operand : stack.operands) bytes += operand.size();
  return stack.operands.size() > kOperandsMax || bytes > kOperandBytesMax;
}

// Merges the operands into the base; leaves all as it is if the operator refuses.
void Fold(const rocksdb::MergeOperator& merger, rocksdb::Logger* log, const Slice& key,
          Stack* stack, std::string* folded) {
  if (!MergeFully(merger, log, key, *stack, folded).ok()) return;
  stack->has_base = true;
  stack->base = Slice(*folded);
  stack->operands.clear();
}

}  // namespace

Status AppendOperand(const rocksdb::MergeOperator& merger, rocksdb::Logger* log,
                     const ValueCodec& codec, const Slice& key, const Slice* stored,
                     const Slice& operand, std::string* next) {
  Stack stack;
  if (stored != nullptr) {
    Slice plain;
    switch (codec.Decode(*stored, &plain, &stack)) {
      case Shape::kPlain:
        stack.has_base = true;
        stack.base = plain;
        break;
      case Shape::kStack:
        break;
      case Shape::kDamaged:
        return Status::Corruption("a value with merge operands cannot be taken apart");
    }
  }
  stack.operands.push_back(operand);
  std::string folded;
  if (IsDue(merger, stack)) Fold(merger, log, key, &stack, &folded);
  if (!stack.operands.empty()) {
    codec.EncodeStack(stack, next);
    return Status::OK();
  }
  std::string scratch;
  const Slice plain = codec.EncodePlain(stack.base, &scratch);
  next->assign(plain.data(), plain.size());
  return Status::OK();
}

}  // namespace herocks
