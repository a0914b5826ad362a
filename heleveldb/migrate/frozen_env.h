// A view of LevelDB's files that changes none of them: LevelDB cannot be opened for reading alone.
//
// What LevelDB writes as it opens a store stays in memory; what it deletes is only hidden. Work in
// the background (compactions) is never done, so that a database that was opened with this must not
// be closed: that waits for it. Threads: one.
#pragma once

#include <leveldb/env.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace migrate {

class FrozenEnv : public leveldb::EnvWrapper {
 public:
  FrozenEnv() : leveldb::EnvWrapper(leveldb::Env::Default()) {}

  leveldb::Status NewSequentialFile(const std::string& name,
                                    leveldb::SequentialFile** file) override;
  leveldb::Status NewRandomAccessFile(const std::string& name,
                                      leveldb::RandomAccessFile** file) override;
  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override;
  leveldb::Status NewAppendableFile(const std::string& name, leveldb::WritableFile** file) override;
  bool FileExists(const std::string& name) override;
  leveldb::Status GetChildren(const std::string& dir, std::vector<std::string>* names) override;
  leveldb::Status RemoveFile(const std::string& name) override;
  leveldb::Status CreateDir(const std::string&) override { return leveldb::Status::OK(); }
  leveldb::Status RemoveDir(const std::string&) override { return leveldb::Status::OK(); }
  leveldb::Status GetFileSize(const std::string& name, uint64_t* size) override;
  leveldb::Status RenameFile(const std::string& from, const std::string& to) override;
  // LockForReading is what locks.
  leveldb::Status LockFile(const std::string&, leveldb::FileLock** lock) override;
  leveldb::Status UnlockFile(leveldb::FileLock* lock) override;
  void Schedule(void (*)(void*), void*) override {}
  leveldb::Status NewLogger(const std::string& name, leveldb::Logger** logger) override;

 private:
  using Content = std::shared_ptr<std::string>;
  leveldb::Status Find(const std::string& name, Content* content);

  std::map<std::string, Content> written_;
  std::set<std::string> hidden_;
};

}  // namespace migrate
