// A view of LevelDB's files that changes none of them. See frozen_env.h.
#include "frozen_env.h"

#include <algorithm>

namespace migrate {

namespace {

using leveldb::Slice;
using leveldb::Status;
using Content = std::shared_ptr<std::string>;

class Reader : public leveldb::SequentialFile {
 public:
  explicit Reader(Content content) : content_(std::move(content)) {}
  Status Read(size_t n, Slice* result, char*) override {
    const size_t length = std::min(n, content_->size() - at_);
    *result = Slice(content_->data() + at_, length);
    at_ += length;
    return Status::OK();
  }
  Status Skip(uint64_t n) override {
    at_ += std::min<uint64_t>(n, content_->size() - at_);
    return Status::OK();
  }

 private:
  const Content content_;
  size_t at_ = 0;
};

class Pieces : public leveldb::RandomAccessFile {
 public:
  explicit Pieces(Content content) : content_(std::move(content)) {}
  Status Read(uint64_t offset, size_t n, Slice* result, char*) const override {
    if (offset > content_->size()) return Status::InvalidArgument("beyond the end of a file");
    *result = Slice(content_->data() + offset, std::min(n, content_->size() - offset));
    return Status::OK();
  }

 private:
  const Content content_;
};

class Writer : public leveldb::WritableFile {
 public:
  explicit Writer(Content content) : content_(std::move(content)) {}
  Status Append(const Slice& data) override {
    content_->append(data.data(), data.size());
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }

 private:
  const Content content_;
};

class Silent : public leveldb::Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

class NoLock : public leveldb::FileLock {};

}  // namespace

// Null content and OK: the file of the store.
Status FrozenEnv::Find(const std::string& name, Content* content) {
  const auto found = written_.find(name);
  if (found != written_.end()) {
    *content = found->second;
    return Status::OK();
  }
  return hidden_.count(name) == 0 ? Status::OK() : Status::NotFound(name, "was deleted");
}

Status FrozenEnv::NewSequentialFile(const std::string& name, leveldb::SequentialFile** file) {
  Content content;
  Status found = Find(name, &content);
  if (!found.ok()) return found;
  if (content == nullptr) return target()->NewSequentialFile(name, file);
  *file = new Reader(content);
  return found;
}

Status FrozenEnv::NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile** file) {
  Content content;
  Status found = Find(name, &content);
  if (!found.ok()) return found;
  if (content == nullptr) return target()->NewRandomAccessFile(name, file);
  *file = new Pieces(content);
  return found;
}

Status FrozenEnv::NewWritableFile(const std::string& name, leveldb::WritableFile** file) {
  hidden_.erase(name);
  const auto content = std::make_shared<std::string>();
  written_[name] = content;
  *file = new Writer(content);
  return Status::OK();
}

Status FrozenEnv::NewAppendableFile(const std::string& name, leveldb::WritableFile**) {
  // Asked for only with reuse_logs.
  return Status::NotSupported(name, "appending");
}

bool FrozenEnv::FileExists(const std::string& name) {
  Content content;
  if (!Find(name, &content).ok()) return false;
  return content != nullptr || target()->FileExists(name);
}

Status FrozenEnv::GetChildren(const std::string& dir, std::vector<std::string>* names) {
  std::vector<std::string> there;
  Status listed = target()->GetChildren(dir, &there);
  std::set<std::string> all;
  for (const std::string& name : there) {
    if (hidden_.count(dir + "/" + name) == 0) all.insert(name);
  }
  for (const auto& each : written_) {
    if (each.first.compare(0, dir.size() + 1, dir + "/") == 0) {
      all.insert(each.first.substr(dir.size() + 1));
    }
  }
  names->assign(all.begin(), all.end());
  return listed;
}

Status FrozenEnv::RemoveFile(const std::string& name) {
  written_.erase(name);
  hidden_.insert(name);
  return Status::OK();
}

Status FrozenEnv::GetFileSize(const std::string& name, uint64_t* size) {
  Content content;
  Status found = Find(name, &content);
  if (!found.ok()) return found;
  if (content == nullptr) return target()->GetFileSize(name, size);
  *size = content->size();
  return found;
}

Status FrozenEnv::RenameFile(const std::string& from, const std::string& to) {
  const auto found = written_.find(from);
  // LevelDB sets its LOG aside; all else that it renames it has just written.
  if (found == written_.end()) return Status::OK();
  const Content content = found->second;
  written_.erase(found);
  hidden_.erase(to);
  written_[to] = content;
  return Status::OK();
}

Status FrozenEnv::LockFile(const std::string&, leveldb::FileLock** lock) {
  *lock = new NoLock;
  return Status::OK();
}

Status FrozenEnv::UnlockFile(leveldb::FileLock* lock) {
  delete lock;
  return Status::OK();
}

Status FrozenEnv::NewLogger(const std::string&, leveldb::Logger** logger) {
  *logger = new Silent;
  return Status::OK();
}

}  // namespace migrate
