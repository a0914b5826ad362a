// LevelDB's iterator over a keyspace. Threads: one at a time.
#include <leveldb/iterator.h>

#include "database.h"

namespace heleveldb {

namespace {

class Cursor : public leveldb::Iterator {
 public:
  Cursor(const heliox_keyspace* space, const leveldb::Snapshot* snapshot) {
    heliox_iterator_options options = {};
    options.struct_size = sizeof options;
    if (snapshot != nullptr) {
      options.snapshot = static_cast<const Moment*>(snapshot)->raw();
      if (options.snapshot == nullptr) {
        status_ = Status::IOError("the snapshot could not be taken");
        return;
      }
    }
    heliox_error* error = nullptr;
    status_ = ToStatus(heliox_iterator_create(space, &options, &raw_, &error), error);
  }
  ~Cursor() override { heliox_iterator_free(raw_); }

  // An iterator that could not be made is null, which the engine takes for one that stands nowhere.
  bool Valid() const override { return heliox_iterator_valid(raw_); }
  void SeekToFirst() override { heliox_iterator_seek_to_first(raw_); }
  void SeekToLast() override { heliox_iterator_seek_to_last(raw_); }
  void Seek(const Slice& target) override {
    heliox_iterator_seek(raw_, target.data(), target.size());
  }
  void Next() override { heliox_iterator_next(raw_); }
  void Prev() override { heliox_iterator_prev(raw_); }
  Slice key() const override {
    size_t length = 0;
    const char* bytes = heliox_iterator_key(raw_, &length);
    return Slice(bytes == nullptr ? "" : bytes, length);
  }
  Slice value() const override {
    size_t length = 0;
    const char* bytes = heliox_iterator_value(raw_, &length);
    return Slice(bytes == nullptr ? "" : bytes, length);
  }
  Status status() const override {
    if (raw_ == nullptr) return status_;
    return Guarded([&] {
      heliox_error* error = nullptr;
      return ToStatus(heliox_iterator_error(raw_, &error), error);
    });
  }

 private:
  heliox_iterator* raw_ = nullptr;
  Status status_;
};

}  // namespace

leveldb::Iterator* MakeIterator(const heliox_keyspace* space, const leveldb::Snapshot* snapshot) {
  leveldb::Iterator* made = nullptr;
  const Status status = Guarded([&] {
    made = new Cursor(space, snapshot);
    return Status::OK();
  });
  return made != nullptr ? made : leveldb::NewErrorIterator(status);
}

}  // namespace heleveldb
