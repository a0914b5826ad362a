// What the environment says of a store, and the engine's options of it, for the drop-ins; their Status is
// their library's.
//
// Threads: no state but the environment, which a program does not change while it opens a store.
#pragma once

#include <heliox.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace dropin {

constexpr uint64_t kMemoryFloorBytes = 64ull << 20;
constexpr uint64_t kDurabilityDefaultMs = 100;
constexpr uint64_t kDurabilityMaxMs = 60 * 60 * 1000;
// Bytes that a crash may cost at most, beside the bound of time.
constexpr uint64_t kBoundedBytes = 8ull << 20;

constexpr const char* kKeyFile = "HELIOX_KEY_FILE";
constexpr const char* kKeyCommand = "HELIOX_KEY_COMMAND";
// All that is read here, and what `heliox` and its helpers read.
constexpr const char* kKnown[] = {"HELIOX_MEMORY",      "HELIOX_CAPACITY",      "HELIOX_DURABILITY",
                                  kKeyFile,             kKeyCommand,            "HELIOX_HEROCKS_DIR",
                                  "HELIOX_HELEVELDB_DIR", "HELIOX_MIGRATE_DIR"};

// Digits, which end at `*rest`; false if there are none or too many.
inline bool ParseDigits(const char* text, uint64_t* number, const char** rest) {
  char* end = nullptr;
  errno = 0;
  *number = std::strtoull(text, &end, 10);
  *rest = end;
  return text[0] >= '0' && text[0] <= '9' && errno == 0;
}

// Bytes, as the program `heliox` takes them: K, M, G, T, also with i or iB, are powers of 1024, with B of 1000.
inline bool ParseBytes(const char* text, uint64_t* bytes) {
  const char* rest = nullptr;
  if (!ParseDigits(text, bytes, &rest)) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::string suffix;
  for (; *rest != '\0'; rest++) suffix.push_back(lower(*rest));
  if (suffix.empty() || suffix == "b") return true;
  const size_t power = std::string("kmgt").find(suffix[0]);
  const std::string kind = suffix.substr(1);
  const bool is_binary = kind.empty() || kind == "i" || kind == "ib";
  if (power == std::string::npos || (!is_binary && kind != "b")) return false;
  for (size_t done = 0; done <= power; done++) {
    if (__builtin_mul_overflow(*bytes, is_binary ? 1024u : 1000u, bytes)) return false;
  }
  return true;
}

// The value of a variable that is set and not empty, or null.
inline const char* Variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr || text[0] == '\0' ? nullptr : text;
}

// A variable that nothing reads is one misspelt.
template <typename Status>
Status CheckVariables() {
  const std::string ours = "HELIOX_";
  for (char** each = environ; each != nullptr && *each != nullptr; each++) {
    const std::string variable(*each, std::strcspn(*each, "="));
    if (variable.compare(0, ours.size(), ours) != 0) continue;
    bool is_known = false;
    std::string all;
    for (const char* known : kKnown) {
      is_known = is_known || variable == known;
      all += all.empty() ? known : std::string(", ") + known;
    }
    if (!is_known) return Status::InvalidArgument(variable + " is not known", "there are " + all);
  }
  if (Variable(kKeyFile) != nullptr && Variable(kKeyCommand) != nullptr) {
    return Status::InvalidArgument(std::string(kKeyFile) + " and " + kKeyCommand, "set one of them");
  }
  return Status::OK();
}

// Puts HELIOX_MEMORY, HELIOX_CAPACITY (bytes) and HELIOX_DURABILITY (milliseconds), where they are set, in
// the place of what `settings` has by its members of these names. Memory is raised to the floor before, and
// durability begins at its default.
template <typename Status, typename Settings>
Status ReadEnvironment(Settings* settings) {
  const Status known = CheckVariables<Status>();
  if (!known.ok()) return known;
  if (settings->memory_bytes < kMemoryFloorBytes) settings->memory_bytes = kMemoryFloorBytes;
  settings->durability_ms = kDurabilityDefaultMs;
  const struct {
    const char* name;
    uint64_t* bytes;
  } sizes[] = {{"HELIOX_MEMORY", &settings->memory_bytes},
               {"HELIOX_CAPACITY", &settings->capacity_bytes}};
  for (const auto& each : sizes) {
    const char* text = Variable(each.name);
    if (text != nullptr && !ParseBytes(text, each.bytes)) {
      return Status::InvalidArgument(std::string(each.name) + "=" + text,
                                     "bytes are wanted, such as 512M or 2G");
    }
  }
  const char* text = Variable("HELIOX_DURABILITY");
  const char* rest = nullptr;
  if (text != nullptr && (!ParseDigits(text, &settings->durability_ms, &rest) || *rest != '\0' ||
                          settings->durability_ms > kDurabilityMaxMs)) {
    return Status::InvalidArgument(std::string("HELIOX_DURABILITY=") + text,
                                   "milliseconds are wanted, from 0 to 3600000");
  }
  return Status::OK();
}

struct FreeKey {
  void operator()(heliox_key_source* it) const { heliox_key_source_free(it); }
};

// What HELIOX_KEY_FILE or HELIOX_KEY_COMMAND says; null: neither is set.
inline std::unique_ptr<heliox_key_source, FreeKey> KeySource() {
  const char* const file = Variable(kKeyFile);
  const char* const command = Variable(kKeyCommand);
  heliox_key_source* key = nullptr;
  if (file != nullptr) key = heliox_key_source_file(file);
  if (command != nullptr) key = heliox_key_source_command(command);
  return std::unique_ptr<heliox_key_source, FreeKey>(key);
}

struct FreeOptions {
  void operator()(heliox_options* it) const { heliox_options_free(it); }
};

// Options that say the key, for what needs no more of them.
inline std::unique_ptr<heliox_options, FreeOptions> KeyOptions() {
  std::unique_ptr<heliox_options, FreeOptions> made(heliox_options_create());
  const auto key = KeySource();
  if (key != nullptr) heliox_options_set_encryption(made.get(), key.get());
  return made;
}

// The engine's options of such settings.
template <typename Settings>
std::unique_ptr<heliox_options, FreeOptions> MakeOptions(const Settings& settings, bool create) {
  auto made = KeyOptions();
  heliox_options_set_create_if_missing(made.get(), create);
  heliox_options_set_memory_budget_bytes(made.get(), settings.memory_bytes);
  if (settings.capacity_bytes > 0) {
    heliox_options_set_capacity_bytes(made.get(), settings.capacity_bytes);
  }
  if (settings.durability_ms == 0) {
    heliox_options_set_durability_none(made.get());
  } else {
    heliox_options_set_durability_bounded(made.get(), settings.durability_ms, kBoundedBytes);
  }
  return made;
}

}  // namespace dropin
