// Records between a program that knows another engine and Heliox. See stream.h.
#include "stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace migrate {

namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr size_t kWordBytes = 8;
constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;

uint64_t Mixed(uint64_t hash, uint64_t word) {
  const uint64_t x = hash ^ word;
  return ((x << 29) | (x >> 35)) * kFactor;
}

uint64_t Hashed(uint64_t hash, const char* bytes, size_t length) {
  hash = Mixed(hash, length);
  for (size_t at = 0; at < length; at += kWordBytes) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, length - at < kWordBytes ? length - at : kWordBytes);
    hash = Mixed(hash, word);
  }
  return hash;
}

std::string Number(uint64_t number, size_t bytes) {
  std::string text;
  for (size_t at = 0; at < bytes; at++) text += static_cast<char>(number >> (8 * at));
  return text;
}

uint64_t NumberIn(const char* bytes, size_t length) {
  uint64_t number = 0;
  for (size_t at = length; at > 0; at--) {
    number = number << 8 | static_cast<unsigned char>(bytes[at - 1]);
  }
  return number;
}

void Get(char* bytes, size_t length) {
  if (std::fread(bytes, 1, length, stdin) != length) throw Failure("heliox is gone");
}

}  // namespace

// The same as in the program `heliox`: words are little-endian, as this machine is.
void Sum::Add(const char* key, size_t key_length, const char* value, size_t value_length) {
  const uint64_t mixed = Hashed(Hashed(0, key, key_length), value, value_length);
  count++;
  hash += mixed ^ (mixed >> 32);
}

void Send(Kind kind, const char* first, size_t first_length, const char* second,
          size_t second_length) {
  if (first_length > UINT32_MAX || second_length > UINT32_MAX) {
    throw Failure("a key or a value is longer than 4 GiB");
  }
  char head[9] = {kind};
  std::memcpy(head + 1, Number(first_length, 4).data(), 4);
  std::memcpy(head + 5, Number(second_length, 4).data(), 4);
  const bool sent = std::fwrite(head, 1, sizeof head, stdout) == sizeof head &&
                    std::fwrite(first, 1, first_length, stdout) == first_length &&
                    std::fwrite(second, 1, second_length, stdout) == second_length;
  if (!sent) throw Failure("heliox is gone");
}

void Send(Kind kind, const std::string& first, const std::string& second) {
  Send(kind, first.data(), first.size(), second.data(), second.size());
}

void SendNumber(Kind kind, uint64_t number) { Send(kind, Number(number, 8)); }

void SendSum(const Sum& sum) { Send(kSum, Number(sum.count, 8), Number(sum.hash, 8)); }

void Finish() {
  if (std::fflush(stdout) != 0) throw Failure("heliox is gone");
}

void Receive(Frame* frame) {
  char head[9];
  Get(head, sizeof head);
  frame->kind = static_cast<Kind>(head[0]);
  frame->first.resize(NumberIn(head + 1, 4));
  frame->second.resize(NumberIn(head + 5, 4));
  Get(&frame->first[0], frame->first.size());
  Get(&frame->second[0], frame->second.size());
}

Sum SumOf(const Frame& frame) {
  Sum sum;
  sum.count = NumberIn(frame.first.data(), frame.first.size());
  sum.hash = NumberIn(frame.second.data(), frame.second.size());
  return sum;
}

void LockForReading(const std::string& dir) {
  const int file = ::open((dir + "/LOCK").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return;
  struct flock lock = {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  if (file >= 0 && ::fcntl(file, F_SETLK, &lock) == 0) return;
  if (errno != EACCES && errno != EAGAIN) {
    throw Failure("cannot lock " + dir + "/LOCK: " + std::strerror(errno));
  }
  throw Failure(dir + " is open in another program: end that program first");
}

uint64_t BytesOf(const std::string& dir) {
  uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(dir, ignored)) {
    std::error_code error;
    const uint64_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

void Publish(const std::string& partial, const std::string& dir) {
  const std::string parent = std::filesystem::absolute(dir).parent_path();
  for (const std::string& path : {partial, parent}) {
    // The parent once more after the rename.
    if (path == parent && ::rename(partial.c_str(), dir.c_str()) != 0) {
      throw Failure("cannot rename " + partial + ": " + std::strerror(errno));
    }
    const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = file >= 0 && ::fsync(file) == 0;
    if (file >= 0) ::close(file);
    if (!synced) throw Failure("cannot sync " + path + ": " + std::strerror(errno));
  }
}

int Main(int argc, char** argv, void (*read)(const std::string&),
         void (*write)(const std::string&)) {
  const std::string what = argc == 3 ? argv[1] : "";
  if (what != "read" && what != "write") {
    std::fprintf(stderr, "%s is started by `heliox import` and `heliox export`\n", argv[0]);
    return 2;
  }
  static char buffer[kBufferBytes];
  std::setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  int code = 0;
  try {
    Send(kHello, kProtocol);
    Finish();
    try {
      (what == "read" ? read : write)(argv[2]);
      Send(kEnd);
    } catch (const std::exception& failure) {
      Send(kError, failure.what());
      code = 1;
    }
    Finish();
  } catch (const std::exception&) {
    // Nobody is left who could be told.
    code = 1;
  }
  // Without taking anything down: a store that is read waits for background work that never comes.
  std::_Exit(code);
}

}  // namespace migrate
