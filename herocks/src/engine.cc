// The engine as the shim sees it. See engine.h.
#include "engine.h"

#include <filesystem>

#include "dropin/ending.h"
#include "dropin/environment.h"
#include "dropin/place.h"

namespace herocks {

namespace {

// Frees the error and says it in RocksDB's terms. The error is looked at after the call that makes
// the code, which may stand in the same expression.
Status ToStatus(heliox_code code, heliox_error* const& error) {
  if (code == HELIOX_OK) return Status::OK();
  if (code == HELIOX_NOT_FOUND) return Status::NotFound();
  const std::string text = error != nullptr ? heliox_error_text(error) : heliox_code_name(code);
  heliox_error_free(error);
  switch (code) {
    case HELIOX_INVALID:
    case HELIOX_TOO_LARGE:
    case HELIOX_NOT_A_STORE:
    case HELIOX_STORE_EXISTS:
    case HELIOX_KEYSPACE_EXISTS:
    case HELIOX_ENCRYPTED:
    case HELIOX_NOT_ENCRYPTED:
    case HELIOX_WRONG_KEY:
      return Status::InvalidArgument(text);
    case HELIOX_UNKNOWN_KEYSPACE:
      return Status::ColumnFamilyDropped(text);
    case HELIOX_VERSION:
      return Status::NotSupported(text);
    case HELIOX_DAMAGED:
      return Status::Corruption(text);
    case HELIOX_FULL:
      return Status::NoSpace(text);
    case HELIOX_OVER_BUDGET:
      return Status::MemoryLimit(text, "HELIOX_MEMORY=... gives the store more");
    case HELIOX_SNAPSHOT_TOO_OLD:
      return Status::Expired(text);
    case HELIOX_CLOSED:
      return Status::ShutdownInProgress(text);
    case HELIOX_INTERNAL:
      return Status::Aborted(text);
    default:
      return Status::IOError(text);
  }
}

// Options of a write are for one thread at a time, so each has its own.
class ThreadWriteOptions {
 public:
  ThreadWriteOptions() : synced_(heliox_write_options_create()), weak_(heliox_write_options_create()) {
    heliox_write_options_set_durability_sync(synced_);
    heliox_write_options_set_durability_none(weak_);
  }
  ~ThreadWriteOptions() {
    heliox_write_options_free(synced_);
    heliox_write_options_free(weak_);
  }
  const heliox_write_options* For(Promise promise) const {
    switch (promise) {
      case Promise::kSynced: return synced_;
      case Promise::kWeak: return weak_;
      default: return nullptr;
    }
  }

 private:
  heliox_write_options* synced_;
  heliox_write_options* weak_;
};

const heliox_write_options* OptionsFor(Promise promise) {
  if (promise == Promise::kBounded) return nullptr;
  thread_local const ThreadWriteOptions own;
  return own.For(promise);
}

// What an event of the engine's means, if it is one that the shim is told of.
bool FromEngine(const heliox_event& raw, StoreEvent* event) {
  event->text = raw.text != nullptr ? raw.text : "";
  switch (raw.kind) {
    case HELIOX_EVENT_STALL_BEGAN:
      event->kind = StoreEvent::Kind::kStallBegan;
      return true;
    case HELIOX_EVENT_STALL_ENDED:
      event->kind = StoreEvent::Kind::kStallEnded;
      return true;
    case HELIOX_EVENT_HEALTH_CHANGED:
      break;
    default:
      return false;
  }
  if (raw.to == HELIOX_HEALTH_FAILED) {
    event->kind = StoreEvent::Kind::kFailed;
    return true;
  }
  event->kind = raw.to == HELIOX_HEALTH_FULL ? StoreEvent::Kind::kFull : StoreEvent::Kind::kNotFull;
  return raw.to == HELIOX_HEALTH_FULL ||
         (raw.from == HELIOX_HEALTH_FULL && raw.to != HELIOX_HEALTH_CLOSED);
}

using OnEvent = std::function<void(const StoreEvent&)>;

void SetListener(heliox_options* options, const OnEvent& on_event) {
  if (on_event == nullptr) return;
  const auto hear = [](void* user, const heliox_event* raw) {
    StoreEvent event;
    if (FromEngine(*raw, &event)) (*static_cast<const OnEvent*>(user))(event);
  };
  const auto destroy = [](void* user) { delete static_cast<const OnEvent*>(user); };
  auto own = std::make_unique<OnEvent>(on_event);
  // Refused if there is one already, which there is not.
  if (heliox_options_set_event_listener(options, hear, own.get(), destroy) == HELIOX_OK) {
    (void)own.release();
  }
}

}  // namespace

Status Space::Get(const Slice& key, const View* view, Value* value) const {
  // Nothing has such a key.
  if (key.size() > kKeyBytesMax) return Status::NotFound();
  heliox_error* error = nullptr;
  const heliox_code code =
      view == nullptr
          ? heliox_keyspace_get(raw(), key.data(), key.size(), value->raw(), &error)
          : heliox_keyspace_get_at(raw(), view->raw(), key.data(), key.size(), value->raw(), &error);
  return ToStatus(code, error);
}

Status Space::MultiGet(const std::vector<heliox_slice>& keys, const View* view,
                       std::vector<heliox_value>* values) const {
  heliox_error* error = nullptr;
  const heliox_code code =
      view == nullptr
          ? heliox_keyspace_multi_get(raw(), keys.size(), keys.data(), values->data(), &error)
          : heliox_keyspace_multi_get_at(raw(), view->raw(), keys.size(), keys.data(),
                                         values->data(), &error);
  return ToStatus(code, error);
}

Status Space::CompareAndSet(const Slice& key, const Slice& expected, const Slice* next) const {
  const heliox_slice old = {expected.data(), expected.size()};
  heliox_slice changed = {"", 0};
  if (next != nullptr && !next->empty()) changed = {next->data(), next->size()};
  heliox_error* error = nullptr;
  const heliox_code code = heliox_keyspace_compare_and_set(
      raw(), key.data(), key.size(), &old, next == nullptr ? nullptr : &changed, &error);
  return code == HELIOX_UNCHANGED ? Status::OK() : ToStatus(code, error);
}

Status Space::Approximate(const Slice& from, const Slice* to, uint64_t* count,
                          uint64_t* bytes) const {
  heliox_error* error = nullptr;
  const void* end = to == nullptr ? nullptr : to->data();
  const size_t end_length = to == nullptr ? 0 : to->size();
  return ToStatus(heliox_keyspace_approximate(raw(), from.data(), from.size(), end, end_length,
                                              count, bytes, &error),
                  error);
}

Status Changes::Put(const Space& space, const Slice& key, const Slice& value) {
  heliox_error* error = nullptr;
  return ToStatus(heliox_batch_put(raw_, space.raw(), key.data(), key.size(), value.data(),
                                   value.size(), &error),
                  error);
}

Status Changes::Delete(const Space& space, const Slice& key) {
  if (key.size() > kKeyBytesMax) return Status::OK();
  heliox_error* error = nullptr;
  return ToStatus(heliox_batch_delete(raw_, space.raw(), key.data(), key.size(), &error), error);
}

Status Scan::Start(const Space& space, const View* view, const Slice* from, const Slice* to) {
  heliox_iterator_free(raw_);
  raw_ = nullptr;
  heliox_iterator_options options = {};
  options.struct_size = sizeof options;
  if (from != nullptr) options.from = {from->data(), from->size()};
  if (to != nullptr) options.to = {to->data() == nullptr ? "" : to->data(), to->size()};
  options.snapshot = view == nullptr ? nullptr : view->raw();
  heliox_error* error = nullptr;
  return ToStatus(heliox_iterator_create(space.raw(), &options, &raw_, &error), error);
}

void Scan::Entry(Slice* key, Slice* value) const {
  heliox_slice k = {nullptr, 0};
  heliox_slice v = {nullptr, 0};
  heliox_iterator_entry(raw_, &k, &v);
  *key = Slice(k.data == nullptr ? "" : k.data, k.len);
  *value = Slice(v.data == nullptr ? "" : v.data, v.len);
}

Status Scan::status() const {
  if (raw_ == nullptr) return Status::OK();
  heliox_error* error = nullptr;
  return ToStatus(heliox_iterator_error(raw_, &error), error);
}

namespace {

// A store that is in use, as RocksDB names it, so that programs know it.
Status NameLock(heliox_code code, Status status, const std::string& dir) {
  if (code != HELIOX_STORE_IN_USE) return status;
  return Status::IOError("While lock file: " + dir + "/LOCK", status.getState());
}

}  // namespace

Status Store::Open(const std::string& dir, const StoreOptions& options,
                   std::unique_ptr<Store>* store) {
  const auto made = dropin::MakeOptions(options, options.create);
  heliox_options_set_read_only(made.get(), options.read_only);
  SetListener(made.get(), options.on_event);
  heliox_store* raw = nullptr;
  heliox_error* error = nullptr;
  const heliox_code code = heliox_store_open(dir.c_str(), made.get(), &raw, &error);
  Status opened = NameLock(code, ToStatus(code, error), dir);
  if (opened.ok()) store->reset(new Store(raw, options.durability_ms == 0));
  return opened;
}

Status Store::Destroy(const std::string& dir) {
  heliox_error* error = nullptr;
  const heliox_code code = dropin::DeleteStore(dir, &error);
  return NameLock(code, ToStatus(code, error), dir);
}

Store::Store(heliox_store* raw, bool hand_over) : raw_(raw), hand_over_(hand_over) {
  dropin::OpenStores::Get().Add(raw_);
}

Store::~Store() {
  dropin::OpenStores::Get().Remove(raw_);
  heliox_store_free(raw_);
}

namespace {

__attribute__((destructor)) void AtTheEnd() { dropin::OpenStores::Get().HandOver(); }

}  // namespace

Status Store::Close() {
  heliox_error* error = nullptr;
  return ToStatus(heliox_store_close(raw_, &error), error);
}

Status Store::OpenSpace(const std::string& name, std::unique_ptr<Space>* space) {
  heliox_keyspace* raw = nullptr;
  heliox_error* error = nullptr;
  const heliox_code code = heliox_keyspace_open(raw_, name.c_str(), &raw, &error);
  if (code == HELIOX_UNKNOWN_KEYSPACE) {
    heliox_error_free(error);
    return Status::NotFound();
  }
  if (code == HELIOX_OK) space->reset(new Space(raw));
  return ToStatus(code, error);
}

Status Store::CreateSpace(const std::string& name, std::unique_ptr<Space>* space) {
  heliox_keyspace* raw = nullptr;
  heliox_error* error = nullptr;
  const heliox_code code = heliox_keyspace_create(raw_, name.c_str(), &raw, &error);
  if (code == HELIOX_OK) space->reset(new Space(raw));
  return ToStatus(code, error);
}

Status Store::DropSpace(const std::string& name) {
  heliox_error* error = nullptr;
  return ToStatus(heliox_keyspace_drop(raw_, name.c_str(), &error), error);
}

Status Store::Spaces(std::vector<std::string>* names) {
  heliox_list* list = nullptr;
  heliox_error* error = nullptr;
  Status listed = ToStatus(heliox_store_keyspaces(raw_, &list, &error), error);
  for (size_t at = 0; at < heliox_list_count(list); at++) {
    names->push_back(heliox_list_get(list, at));
  }
  heliox_list_free(list);
  return listed;
}

// What a write answers, once it was handed over if that was asked for.
Status Store::Acknowledge(heliox_code code, heliox_error* error, Promise promise) {
  if (code == HELIOX_OK && hand_over_ && promise == Promise::kBounded) return Flush();
  return ToStatus(code, error);
}

Status Store::Put(const Space& space, const Slice& key, const Slice& value, Promise promise) {
  heliox_error* error = nullptr;
  const heliox_code code = heliox_keyspace_put(space.raw(), key.data(), key.size(), value.data(),
                                               value.size(), OptionsFor(promise), &error);
  return Acknowledge(code, error, promise);
}

Status Store::Delete(const Space& space, const Slice& key, Promise promise) {
  if (key.size() > kKeyBytesMax) return Status::OK();
  heliox_error* error = nullptr;
  const heliox_code code =
      heliox_keyspace_delete(space.raw(), key.data(), key.size(), OptionsFor(promise), &error);
  return Acknowledge(code, error, promise);
}

Status Store::DeleteRange(const Space& space, const Slice& from, const Slice& to,
                          Promise promise) {
  heliox_error* error = nullptr;
  const heliox_code code =
      heliox_keyspace_delete_range(space.raw(), from.data(), from.size(), to.data(), to.size(),
                                   OptionsFor(promise), &error);
  return Acknowledge(code, error, promise);
}

Status Store::Write(const Changes& changes, Promise promise) {
  heliox_error* error = nullptr;
  const heliox_code code = heliox_store_write(raw_, changes.raw(), OptionsFor(promise), &error);
  return Acknowledge(code, error, promise);
}

Status Store::Snapshot(ViewPtr* view) {
  heliox_snapshot* raw = nullptr;
  heliox_error* error = nullptr;
  Status taken = ToStatus(heliox_store_snapshot(raw_, &raw, &error), error);
  if (taken.ok()) *view = std::make_shared<const View>(raw);
  return taken;
}

Status Store::Flush() {
  heliox_error* error = nullptr;
  return ToStatus(heliox_store_flush(raw_, &error), error);
}

Status Store::Sync() {
  heliox_error* error = nullptr;
  return ToStatus(heliox_store_sync(raw_, &error), error);
}

Status Store::Backup(const std::string& set, uint64_t* number) {
  heliox_backup_report report = {};
  report.struct_size = sizeof report;
  heliox_error* error = nullptr;
  Status made = ToStatus(
      heliox_store_backup(raw_, set.c_str(), 0, nullptr, nullptr, &report, &error), error);
  *number = report.number;
  return made;
}

Status Store::CopyTo(const std::string& set, const std::string& dir) {
  uint64_t number = 0;
  Status copied = Backup(set, &number);
  if (copied.ok()) copied = RestoreBackup(set, number, dir);
  std::error_code ignored;
  std::filesystem::remove_all(set, ignored);
  return copied;
}

uint64_t Store::Figure(const char* name) const {
  uint64_t value = 0;
  return heliox_store_stat(raw_, name, &value, nullptr) == HELIOX_OK ? value : 0;
}

std::string Store::FiguresAsText() const {
  std::string text;
  const auto add = [](void* user, const char* name, uint64_t value, const char* words) {
    auto* out = static_cast<std::string*>(user);
    out->append(name).append(": ");
    out->append(words != nullptr ? std::string(words) : std::to_string(value)).append("\n");
  };
  heliox_store_stats(raw_, add, &text, nullptr);
  return text;
}

bool Store::Failed() const {
  heliox_health health = HELIOX_HEALTH_HEALTHY;
  heliox_store_health(raw_, &health, nullptr, nullptr, nullptr);
  return health == HELIOX_HEALTH_FAILED;
}

Status ListBackups(const std::string& set, std::vector<BackupEntry>* entries) {
  const auto add = [](void* user, const heliox_backup_info* info) {
    static_cast<std::vector<BackupEntry>*>(user)->push_back({info->number, info->created_ms,
                                                             info->segments, info->bytes,
                                                             info->damage != nullptr});
  };
  heliox_error* error = nullptr;
  return ToStatus(heliox_backups(set.c_str(), add, entries, &error), error);
}

Status RestoreBackup(const std::string& set, uint64_t number, const std::string& dir) {
  heliox_error* error = nullptr;
  return ToStatus(heliox_restore(set.c_str(), number, dir.c_str(), nullptr, nullptr, nullptr,
                                 nullptr, &error),
                  error);
}

Status RemoveBackup(const std::string& set, uint64_t number) {
  heliox_error* error = nullptr;
  return ToStatus(heliox_delete_backup(set.c_str(), number, &error), error);
}

Status VerifyBackups(const std::string& set, uint64_t number) {
  heliox_verify_report report = {};
  report.struct_size = sizeof report;
  heliox_error* error = nullptr;
  const auto options = dropin::KeyOptions();
  Status verified = ToStatus(heliox_verify_backup(set.c_str(), number, options.get(), nullptr,
                                                  nullptr, &report, nullptr, &error),
                             error);
  if (verified.ok() && report.problem_count > 0) {
    return Status::Corruption("the backup is damaged", "heliox verify " + set);
  }
  return verified;
}

}  // namespace herocks
