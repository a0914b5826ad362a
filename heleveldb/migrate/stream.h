// Records between a program that knows another engine and `heliox import` or `heliox export`.
//
// A stream is frames: a kind, two lengths (little-endian, 32 bits each), and so many bytes of each.
// It begins with kHello and ends with kEnd or kError; one that ends otherwise was cut off.
// Threads: one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace migrate {

constexpr char kProtocol[] = "heliox-migrate 1";

enum Kind : char {
  // First: the protocol; second: nothing.
  kHello = 'V',
  // Bytes of the source, about: eight bytes, little-endian.
  kTotal = 'T',
  // Something to tell the user.
  kNote = 'N',
  // A column family that will come: its name, its comparator.
  kListed = 'L',
  // The records that follow are of this column family: its name, its comparator.
  kFamily = 'F',
  // A key and its value.
  kRecord = 'R',
  // Of the family that ends here: how many records, and their sum (see Sum); eight bytes each.
  kSum = 'S',
  // All is well.
  kEnd = 'Z',
  // What went wrong, for people.
  kError = 'X',
};

// What ends the program: told to the other side as kError.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// How many records there are, and a checksum that does not depend on their order.
struct Sum {
  uint64_t count = 0;
  uint64_t hash = 0;

  void Add(const char* key, size_t key_length, const char* value, size_t value_length);
  bool operator==(const Sum& other) const { return count == other.count && hash == other.hash; }
};

struct Frame {
  Kind kind = kEnd;
  std::string first;
  std::string second;
};

void Send(Kind kind, const char* first, size_t first_length, const char* second,
          size_t second_length);
void Send(Kind kind, const std::string& first = "", const std::string& second = "");
void SendNumber(Kind kind, uint64_t number);
void SendSum(const Sum& sum);
// Hands everything to the other side.
void Finish();
// The next frame; a Failure if the other side is gone.
void Receive(Frame* frame);
Sum SumOf(const Frame& frame);

// A lock for reading on a store's LOCK file, which its engine locks for writing while it is open;
// held until the program ends. Writes nothing.
void LockForReading(const std::string& dir);
// About how many bytes the files of a directory have.
uint64_t BytesOf(const std::string& dir);
// Gives what was written to a directory its name, durably.
void Publish(const std::string& partial, const std::string& dir);

// Runs `read DIR` or `write DIR` by one of these, and tells what they throw. The exit code.
int Main(int argc, char** argv, void (*read)(const std::string&),
         void (*write)(const std::string&));

}  // namespace migrate
