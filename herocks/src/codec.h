// How RocksDB's keys and values are laid into Heliox's.
//
// Keys. Heliox orders keys by their bytes, which is what RocksDB's bytewise comparator does: such
// keys are kept as they are. For the reverse bytewise comparator a key is kept as its inverted
// bytes, of which 0xFF (a zero of the key) is followed by 0x00, and the whole by 0xFF 0xFF. That
// keeps the order of the comparator, prefixes included, and costs two bytes and one for each zero.
//
// Values. A value is kept as it is, unless it has operands that wait for a merge, or happens to
// begin with the mark of the store: sixteen random bytes drawn when the store was made. Then it is
// an envelope: the mark, a kind, and what the kind says. So a plain value costs nothing.
//
// Threads: everything here is constant, or the caller's.
#pragma once

#include <rocksdb/slice.h>

#include <string>
#include <vector>

namespace herocks {

using rocksdb::Slice;

// Turns the keys of one family into those of the engine and back.
class KeyCodec {
 public:
  explicit KeyCodec(bool reversed) : reversed_(reversed) {}

  bool reversed() const { return reversed_; }
  // The key as the engine has it; points into `key` or into `scratch`.
  Slice Encode(const Slice& key, std::string* scratch) const;
  // The key as the user has it; points into `stored` or into `scratch`.
  Slice Decode(const Slice& stored, std::string* scratch) const;

 private:
  bool reversed_;
};

// A value with operands that were not merged into it yet.
struct Stack {
  bool has_base = false;
  Slice base;
  // Oldest first.
  std::vector<Slice> operands;
};

// What a kept value turned out to be.
enum class Shape { kPlain, kStack, kDamaged };

// Tells plain values from envelopes by the mark of the store.
class ValueCodec {
 public:
  static constexpr size_t kMarkBytes = 16;

  explicit ValueCodec(std::string mark) : mark_(std::move(mark)) {}

  const std::string& mark() const { return mark_; }
  // The bytes to keep for a plain value; points into `value` or into `scratch`.
  Slice EncodePlain(const Slice& value, std::string* scratch) const;
  // The bytes to keep for a value with operands.
  void EncodeStack(const Stack& stack, std::string* stored) const;
  // Takes kept bytes apart; `plain` and `stack` point into them.
  Shape Decode(const Slice& stored, Slice* plain, Stack* stack) const;

 private:
  bool IsEnvelope(const Slice& stored) const;

  std::string mark_;
};

// Numbers and strings of the store's own records.
void PutNumber(std::string* out, uint64_t number);
bool TakeNumber(Slice* in, uint64_t* number);
void PutBytes(std::string* out, const Slice& bytes);
bool TakeBytes(Slice* in, Slice* bytes);

}  // namespace herocks
