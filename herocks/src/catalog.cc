// What RocksDB keeps in its manifest, kept in a keyspace of the store. See catalog.h.
#include "catalog.h"

#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "codec.h"

namespace herocks {

namespace {

constexpr char kFormatKey[] = "format";
constexpr char kFormat[] = "1";
constexpr char kMarkKey[] = "mark";
constexpr char kIdentityKey[] = "identity";
// The store whose identity that is, by its own id.
constexpr char kIdentifiedKey[] = "identified";
constexpr char kNextIdKey[] = "next-id";
constexpr char kSequenceKey[] = "sequence";
constexpr char kFamilyPrefix[] = "family/";
constexpr char kDroppedPrefix[] = "dropped/";
constexpr size_t kSpaceNameBytesMax = 200;

std::string FamilyKey(uint32_t id) {
  char key[32];
  std::snprintf(key, sizeof key, "%s%08x", kFamilyPrefix, id);
  return key;
}

std::string Hexadecimal(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

bool RandomBytes(size_t count, std::string* bytes) {
  bytes->assign(count, '\0');
  return ::getrandom(&(*bytes)[0], count, 0) == static_cast<ssize_t>(count);
}

// Names of keyspaces are UTF-8 without zero bytes; plain text is enough here.
bool IsPlainName(const std::string& name) {
  if (name.empty() || name.size() > kSpaceNameBytesMax || name[0] == '.') return false;
  for (const char c : name) {
    if (c < ' ' || c > '~') return false;
  }
  return true;
}

}  // namespace

Status Catalog::Load(Store* store, bool read_only, std::unique_ptr<Catalog>* catalog) {
  std::unique_ptr<Space> space;
  Status whole = store->OpenSpace(kImportSpace, &space);
  if (whole.ok()) {
    return Status::InvalidArgument("the store holds a part of an import",
                                   "run `heliox import` again, with --again");
  }
  if (!whole.IsNotFound()) return whole;
  Status found = store->OpenSpace(kCatalogSpace, &space);
  if (!found.ok() && !found.IsNotFound()) return found;
  const bool is_new = found.IsNotFound();
  if (is_new && read_only) {
    // Nothing is read from it, since nothing is there.
    catalog->reset(new Catalog(store, Space(nullptr)));
    (*catalog)->read_only_ = true;
    return (*catalog)->Make(true);
  }
  if (is_new) {
    Status created = store->CreateSpace(kCatalogSpace, &space);
    if (!created.ok()) return created;
  }
  catalog->reset(new Catalog(store, *space));
  (*catalog)->read_only_ = read_only;
  std::string format;
  bool is_made = false;
  Status read = (*catalog)->ReadText(kFormatKey, &format, &is_made);
  if (!read.ok()) return read;
  if (!is_made) return (*catalog)->Make(read_only);
  if (format != kFormat) {
    return Status::NotSupported("the catalog of the column families has format " + format,
                                "use the version of HeRocks that wrote it");
  }
  return (*catalog)->Read();
}

// Every copy of a store, by a checkpoint or a backup, has an id of its own in its file HELIOX; RocksDB's
// copies have another identity in the same way.
Status Catalog::Identify(const std::string& dir) {
  std::string id;
  std::ifstream file(dir + "/HELIOX");
  for (std::string line; id.empty() && std::getline(file, line);) {
    if (line.compare(0, 5, "uuid ") == 0) id = line;
  }
  if (id.empty() || (read_only_ && space_.raw() == nullptr)) return Status::OK();
  std::string identified;
  bool found = false;
  Status read = ReadText(kIdentifiedKey, &identified, &found);
  if (!read.ok() || (found && identified == id)) return read;
  if (found) {
    std::string random;
    if (!RandomBytes(16, &random)) return Status::IOError("the system gives no random bytes");
    identity_ = Hexadecimal(random);
  }
  if (read_only_) return Status::OK();
  Changes changes;
  Status noted = changes.Put(space_, kIdentityKey, identity_);
  if (noted.ok()) noted = changes.Put(space_, kIdentifiedKey, id);
  return noted.ok() ? store_->Write(changes, Promise::kBounded) : noted;
}

Status Catalog::ReadText(const char* key, std::string* text, bool* found) const {
  Value value;
  Status got = space_.Get(key, nullptr, &value);
  *found = got.ok();
  if (got.ok()) *text = value.slice().ToString();
  return got.IsNotFound() ? Status::OK() : got;
}

Status Catalog::Read() {
  std::string next_id;
  std::string sequence;
  const struct {
    const char* key;
    std::string* text;
  } texts[] = {{kMarkKey, &mark_},
               {kIdentityKey, &identity_},
               {kNextIdKey, &next_id},
               {kSequenceKey, &sequence}};
  for (const auto& each : texts) {
    bool found = false;
    Status read = ReadText(each.key, each.text, &found);
    if (!read.ok()) return read;
    if (!found) return Status::Corruption("the catalog of the column families lacks", each.key);
  }
  if (mark_.size() != ValueCodec::kMarkBytes) return Status::Corruption("the mark of the catalog");
  next_id_ = static_cast<uint32_t>(std::strtoul(next_id.c_str(), nullptr, 10));
  last_.store(std::strtoull(sequence.c_str(), nullptr, 10));
  return ReadFamilies();
}

Status Catalog::ReadFamilies() {
  Scan scan;
  Status started = scan.Start(space_, nullptr, nullptr, nullptr);
  if (!started.ok()) return started;
  for (bool more = scan.At(kFamilyPrefix); more; more = scan.Next()) {
    Slice key;
    Slice value;
    scan.Entry(&key, &value);
    if (!key.starts_with(kFamilyPrefix)) break;
    FamilyRecord record;
    uint64_t id = 0;
    Slice name;
    Slice space;
    Slice comparator;
    if (!TakeNumber(&value, &id) || !TakeBytes(&value, &name) || !TakeBytes(&value, &space) ||
        !TakeBytes(&value, &comparator)) {
      return Status::Corruption("the catalog of the column families", key);
    }
    record.id = static_cast<uint32_t>(id);
    record.name = name.ToString();
    record.space = space.ToString();
    record.comparator = comparator.ToString();
    families_[record.id] = record;
  }
  return scan.status();
}

// A new catalog, of a new store or of one that has keyspaces already.
Status Catalog::Make(bool read_only) {
  std::string random;
  if (!RandomBytes(ValueCodec::kMarkBytes, &mark_) || !RandomBytes(16, &random)) {
    return Status::IOError("the system gives no random bytes");
  }
  identity_ = Hexadecimal(random);
  Status adopted = Adopt();
  if (!adopted.ok() || read_only) return adopted;
  Changes changes;
  Status made;
  for (const auto& each : families_) {
    std::string kept;
    PutNumber(&kept, each.second.id);
    PutBytes(&kept, each.second.name);
    PutBytes(&kept, each.second.space);
    PutBytes(&kept, each.second.comparator);
    if (made.ok()) made = changes.Put(space_, FamilyKey(each.first), kept);
  }
  const std::pair<const char*, std::string> texts[] = {{kFormatKey, kFormat},
                                                       {kMarkKey, mark_},
                                                       {kIdentityKey, identity_},
                                                       {kNextIdKey, std::to_string(next_id_)},
                                                       {kSequenceKey, "0"}};
  for (const auto& text : texts) {
    if (made.ok()) made = changes.Put(space_, text.first, text.second);
  }
  return made.ok() ? store_->Write(changes, Promise::kSynced) : made;
}

Status Catalog::Adopt() {
  std::vector<std::string> names;
  Status listed = store_->Spaces(&names);
  if (!listed.ok()) return listed;
  const std::string& default_name = rocksdb::kDefaultColumnFamilyName;
  FamilyRecord first;
  first.name = default_name;
  first.space = default_name;
  bool has_default = false;
  next_id_ = 1;
  for (const std::string& name : names) {
    if (name == kCatalogSpace) continue;
    FamilyRecord record;
    record.name = record.space = name;
    record.comparator = rocksdb::BytewiseComparator()->Name();
    record.id = name == default_name ? 0 : next_id_++;
    has_default = has_default || name == default_name;
    families_[record.id] = record;
  }
  if (has_default) return Status::OK();
  families_[0] = first;
  if (read_only_) return Status::OK();
  std::unique_ptr<Space> space;
  return store_->CreateSpace(default_name, &space);
}

std::vector<FamilyRecord> Catalog::Families() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<FamilyRecord> families;
  for (const auto& each : families_) families.push_back(each.second);
  return families;
}

bool Catalog::Find(const std::string& name, FamilyRecord* found) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& each : families_) {
    if (each.second.name != name) continue;
    *found = each.second;
    return true;
  }
  return false;
}

bool Catalog::IsSpaceTaken(const std::string& space) const {
  std::vector<std::string> names;
  if (!store_->Spaces(&names).ok()) return true;
  for (const std::string& name : names) {
    if (name == space) return true;
  }
  return false;
}

Status Catalog::Keep(const FamilyRecord& record) {
  std::string kept;
  PutNumber(&kept, record.id);
  PutBytes(&kept, record.name);
  PutBytes(&kept, record.space);
  PutBytes(&kept, record.comparator);
  Changes changes;
  Status put = changes.Put(space_, FamilyKey(record.id), kept);
  if (put.ok()) put = changes.Put(space_, kNextIdKey, std::to_string(next_id_));
  return put.ok() ? store_->Write(changes, Promise::kSynced) : put;
}

Status Catalog::Add(const std::string& name, const std::string& comparator, FamilyRecord* added,
                    std::unique_ptr<Space>* space) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& each : families_) {
    if (each.second.name == name) return Status::InvalidArgument("Column family already exists");
  }
  FamilyRecord record;
  record.id = next_id_++;
  record.name = name;
  record.comparator = comparator;
  record.space = name;
  // A family of this name that was dropped may still be read.
  if (!IsPlainName(name) || IsSpaceTaken(name)) {
    record.space = "family-" + std::to_string(record.id);
    for (int more = 1; IsSpaceTaken(record.space); more++) {
      record.space = "family-" + std::to_string(record.id) + "-" + std::to_string(more);
    }
  }
  Status created = store_->CreateSpace(record.space, space);
  if (created.ok()) created = Keep(record);
  if (!created.ok()) return created;
  families_[record.id] = record;
  *added = record;
  return Status::OK();
}

Status Catalog::SetComparator(uint32_t id, const std::string& comparator) {
  const std::lock_guard<std::mutex> lock(mutex_);
  FamilyRecord& record = families_[id];
  record.comparator = comparator;
  return read_only_ ? Status::OK() : Keep(record);
}

Status Catalog::Remove(uint32_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = families_.find(id);
  if (found == families_.end()) return Status::InvalidArgument("Column family already dropped!");
  Changes changes;
  Status removed = changes.Delete(space_, FamilyKey(id));
  if (removed.ok()) removed = changes.Put(space_, kDroppedPrefix + found->second.space, "");
  if (removed.ok()) removed = store_->Write(changes, Promise::kSynced);
  if (removed.ok()) families_.erase(found);
  return removed;
}

Status Catalog::DropSpace(const std::string& space) {
  Status dropped = store_->DropSpace(space);
  if (!dropped.ok()) return dropped;
  return store_->Delete(space_, kDroppedPrefix + space, Promise::kBounded);
}

Status Catalog::SweepSpaces() {
  std::vector<std::string> left;
  Scan scan;
  Status swept = scan.Start(space_, nullptr, nullptr, nullptr);
  if (!swept.ok()) return swept;
  for (bool more = scan.At(kDroppedPrefix); more; more = scan.Next()) {
    Slice key;
    Slice value;
    scan.Entry(&key, &value);
    if (!key.starts_with(kDroppedPrefix)) break;
    key.remove_prefix(sizeof kDroppedPrefix - 1);
    left.push_back(key.ToString());
  }
  swept = scan.status();
  for (const std::string& space : left) {
    if (!swept.ok()) break;
    // The keyspace went and this could not be noted: it is gone, or another family has the name since.
    const bool is_taken = std::any_of(families_.begin(), families_.end(), [&](const auto& each) {
      return each.second.space == space;
    });
    if (!is_taken) swept = DropSpace(space);
    if (is_taken || swept.IsColumnFamilyDropped()) {
      swept = store_->Delete(space_, kDroppedPrefix + space, Promise::kBounded);
    }
  }
  return swept;
}

// Makes sure that no sequence number is told twice, whatever happens: the next run begins above.
void Catalog::Lease(uint64_t now) {
  if (read_only_) return;
  const bool is_due = now > leased_.load();
  std::unique_lock<std::mutex> lock(lease_mutex_, std::defer_lock);
  if (is_due) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return;
  }
  if (now + kLeaseAhead <= leased_.load()) return;
  const uint64_t until = last_.load() + kLease;
  // Where nothing is leased, the numbers that are told now must not be durable after what has them.
  const Promise promise = is_due ? Promise::kSynced : Promise::kBounded;
  // A store that cannot be written tells so where it is asked to.
  if (store_->Put(space_, kSequenceKey, std::to_string(until), promise).ok()) {
    leased_.store(until);
  }
}

Status Catalog::Settle() {
  if (read_only_) return Status::OK();
  const std::lock_guard<std::mutex> lock(lease_mutex_);
  // The kept number takes the lease back. In this order: who counts on beyond it asks for another.
  leased_.store(0);
  const std::string last = std::to_string(last_.load());
  bool found = false;
  std::string kept;
  Status read = ReadText(kSequenceKey, &kept, &found);
  if (!read.ok() || (found && kept == last)) return read;
  return store_->Put(space_, kSequenceKey, last, Promise::kBounded);
}

}  // namespace herocks
