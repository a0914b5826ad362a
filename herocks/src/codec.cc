// How RocksDB's keys and values are laid into Heliox's. See codec.h.
#include "codec.h"

#include <cstring>

namespace herocks {

namespace {

constexpr char kEscapedPlain = 0;
constexpr char kMergeStack = 1;

}  // namespace

Slice KeyCodec::Encode(const Slice& key, std::string* scratch) const {
  if (!reversed_) return key;
  scratch->clear();
  scratch->reserve(key.size() + 2);
  for (size_t i = 0; i < key.size(); i++) {
    const auto inverted = static_cast<unsigned char>(~static_cast<unsigned char>(key[i]));
    scratch->push_back(static_cast<char>(inverted));
    if (inverted == 0xFF) scratch->push_back('\x00');
  }
  scratch->append("\xFF\xFF");
  return Slice(*scratch);
}

Slice KeyCodec::Decode(const Slice& stored, std::string* scratch) const {
  if (!reversed_) return stored;
  scratch->clear();
  scratch->reserve(stored.size());
  for (size_t i = 0; i < stored.size(); i++) {
    const auto byte = static_cast<unsigned char>(stored[i]);
    if (byte == 0xFF) {
      if (i + 1 >= stored.size() || static_cast<unsigned char>(stored[i + 1]) == 0xFF) break;
      i++;
    }
    scratch->push_back(static_cast<char>(~byte));
  }
  return Slice(*scratch);
}

bool ValueCodec::IsEnvelope(const Slice& stored) const {
  return stored.size() > kMarkBytes && std::memcmp(stored.data(), mark_.data(), kMarkBytes) == 0;
}

Slice ValueCodec::EncodePlain(const Slice& value, std::string* scratch) const {
  const bool begins_like_mark =
      value.size() >= kMarkBytes && std::memcmp(value.data(), mark_.data(), kMarkBytes) == 0;
  if (!begins_like_mark) return value;
  scratch->assign(mark_);
  scratch->push_back(kEscapedPlain);
  scratch->append(value.data(), value.size());
  return Slice(*scratch);
}

void ValueCodec::EncodeStack(const Stack& stack, std::string* stored) const {
  stored->assign(mark_);
  stored->push_back(kMergeStack);
  PutNumber(stored, stack.has_base ? 1 : 0);
  if (stack.has_base) PutBytes(stored, stack.base);
  for (const Slice& operand : stack.operands) PutBytes(stored, operand);
}

Shape ValueCodec::Decode(const Slice& stored, Slice* plain, Stack* stack) const {
  if (!IsEnvelope(stored)) {
    *plain = stored;
    return Shape::kPlain;
  }
  Slice rest(stored.data() + kMarkBytes + 1, stored.size() - kMarkBytes - 1);
  if (stored[kMarkBytes] == kEscapedPlain) {
    *plain = rest;
    return Shape::kPlain;
  }
  uint64_t has_base = 0;
  if (stored[kMarkBytes] != kMergeStack || !TakeNumber(&rest, &has_base)) return Shape::kDamaged;
  stack->has_base = has_base == 1;
  stack->operands.clear();
  if (stack->has_base && !TakeBytes(&rest, &stack->base)) return Shape::kDamaged;
  while (!rest.empty()) {
    Slice operand;
    if (!TakeBytes(&rest, &operand)) return Shape::kDamaged;
    stack->operands.push_back(operand);
  }
  return Shape::kStack;
}

void PutNumber(std::string* out, uint64_t number) {
  while (number >= 0x80) {
    out->push_back(static_cast<char>((number & 0x7F) | 0x80));
    number >>= 7;
  }
  out->push_back(static_cast<char>(number));
}

bool TakeNumber(Slice* in, uint64_t* number) {
  *number = 0;
  for (unsigned shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>((*in)[0]);
    in->remove_prefix(1);
    *number |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

void PutBytes(std::string* out, const Slice& bytes) {
  PutNumber(out, bytes.size());
  out->append(bytes.data(), bytes.size());
}

bool TakeBytes(Slice* in, Slice* bytes) {
  uint64_t length = 0;
  if (!TakeNumber(in, &length) || length > in->size()) return false;
  *bytes = Slice(in->data(), length);
  in->remove_prefix(length);
  return true;
}

}  // namespace herocks
