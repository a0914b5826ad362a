/*
 * heliox.hpp - Heliox for C++17: handles that free themselves, errors as exceptions, strings.
 *
 * A thin cover of heliox.h, which says what everything means; all of it is in this header. Classes are
 * movable, not copyable unless they say so, and as safe with threads as the handles they hold. One that was
 * moved from is a null handle: its functions throw Error. Callbacks may throw: the exception comes out of
 * the call that ran them; one that comes out of a merge operator refuses the operand, and out of a
 * listener of events is dropped.
 *
 *     auto store = heliox::Store::open("films.heliox");
 *     auto films = store.keyspace_or_create("films");
 *     films.put("tt0133093", "The Matrix");
 *     std::cout << films.get("tt0133093").value() << "\n";
 *     auto it = films.iterator();
 *     for (bool at = it.seek("tt01"); at; at = it.next())
 *         std::cout << it.key() << "\n";
 */
#ifndef HELIOX_HPP
#define HELIOX_HPP

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heliox.h"

namespace heliox {

/* A failure. what() is the text for people. */
class Error : public std::runtime_error {
  public:
    Error(heliox_code code, const std::string &text) : std::runtime_error(text), code_(code) {}
    heliox_code code() const noexcept { return code_; }

  private:
    heliox_code code_;
};

namespace detail {

template <typename T, void (*free_handle)(T *)> struct Free {
    void operator()(T *handle) const noexcept { free_handle(handle); }
};
template <typename T, void (*free_handle)(T *)>
using Handle = std::unique_ptr<T, Free<T, free_handle>>;

/* Throws the error if there is one, else gives the answer on. By reference, since the call that sets the
 * error stands in the same list of arguments. */
inline heliox_code check(heliox_code code, heliox_error *const &error) {
    if (!HELIOX_FAILED_WITH(code))
        return code;
    Handle<heliox_error, heliox_error_free> owned(error);
    throw Error(code, heliox_error_text(error));
}

/* For setters, whose only failure is a null. */
inline void set(heliox_code code) {
    if (HELIOX_FAILED_WITH(code))
        throw Error(code, "a null handle or an argument out of its range was given");
}

inline std::string text(char *owned) {
    Handle<char, heliox_free> freed(owned);
    return owned == nullptr ? std::string() : std::string(owned);
}

inline std::vector<std::string> list(heliox_list *owned) {
    Handle<heliox_list, heliox_list_free> freed(owned);
    std::vector<std::string> texts;
    for (std::size_t at = 0; at < heliox_list_count(owned); at++)
        texts.emplace_back(heliox_list_get(owned, at));
    return texts;
}

inline heliox_slice slice(std::string_view bytes) {
    return heliox_slice{bytes.data() == nullptr ? "" : bytes.data(), bytes.size()};
}

inline std::string_view view(const char *data, std::size_t len) {
    return data == nullptr ? std::string_view() : std::string_view(data, len);
}

template <typename T> T sized() {
    T report{};
    report.struct_size = sizeof(T);
    return report;
}

/* A function of the caller's, and what it threw. */
template <typename F> struct Call {
    const F &function;
    std::exception_ptr thrown = nullptr;

    template <typename... A> void run(A &&...arguments) noexcept {
        if (thrown || !function)
            return;
        try {
            function(std::forward<A>(arguments)...);
        } catch (...) {
            thrown = std::current_exception();
        }
    }
    void rethrow() const {
        if (thrown)
            std::rethrow_exception(thrown);
    }
};

} // namespace detail

using Progress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;
using OnFinding = std::function<void(const heliox_finding &)>;
using OnEvent = std::function<void(const heliox_event &)>;
using OnCondition = std::function<void(const heliox_condition &)>;
using OnStat = std::function<void(const char *name, std::uint64_t value, const char *text)>;
/* The new value, or none to refuse the operand. */
using Merge = std::function<std::optional<std::string>(
    std::string_view key, std::optional<std::string_view> base, std::string_view operand)>;

namespace detail {

inline void on_progress(void *user, std::uint64_t done, std::uint64_t total) {
    static_cast<Call<Progress> *>(user)->run(done, total);
}

/* A scrub has two callbacks and one pointer. */
struct ScrubCalls {
    Call<Progress> progress;
    Call<OnFinding> finding;
    static void on_progress(void *user, std::uint64_t done, std::uint64_t total) {
        static_cast<ScrubCalls *>(user)->progress.run(done, total);
    }
    static void on_finding(void *user, const heliox_finding *finding) {
        static_cast<ScrubCalls *>(user)->finding.run(*finding);
    }
    void rethrow() const {
        progress.rethrow();
        finding.rethrow();
    }
};

} // namespace detail

/* A value that was read; given to read after read, it uses its memory again. */
class Value {
  public:
    Value() = default;
    Value(Value &&other) noexcept : value_(std::exchange(other.value_, HELIOX_VALUE_INIT)) {}
    Value &operator=(Value &&other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    ~Value() { heliox_value_free(&value_); }
    std::string_view view() const { return detail::view(value_.data, value_.len); }
    heliox_value *get() { return &value_; }

  private:
    heliox_value value_ = HELIOX_VALUE_INIT;
};

class KeySource {
  public:
    static KeySource file(const std::string &path) { return KeySource(heliox_key_source_file(path.c_str())); }
    static KeySource command(const std::string &command) {
        return KeySource(heliox_key_source_command(command.c_str()));
    }
    static KeySource bytes(const std::array<unsigned char, 32> &key) {
        return KeySource(heliox_key_source_bytes(key.data()));
    }
    const heliox_key_source *get() const { return handle_.get(); }

  private:
    explicit KeySource(heliox_key_source *handle) : handle_(handle) {}
    detail::Handle<heliox_key_source, heliox_key_source_free> handle_;
};

/* Memory in the place of a device. */
class Volume {
  public:
    explicit Volume(std::uint64_t bytes) {
        heliox_volume *handle = nullptr;
        heliox_error *error = nullptr;
        detail::check(heliox_volume_create_memory(bytes, &handle, &error), error);
        handle_.reset(handle);
    }
    const heliox_volume *get() const { return handle_.get(); }

  private:
    detail::Handle<heliox_volume, heliox_volume_free> handle_;
};

/* How a store is opened. Copies are apart. */
class Options {
  public:
    Options() : handle_(heliox_options_create()) {}
    Options(const Options &other) : handle_(heliox_options_clone(other.get())) {}
    Options(Options &&) noexcept = default;
    Options &operator=(const Options &other) { return *this = Options(other); }
    Options &operator=(Options &&) noexcept = default;
    const heliox_options *get() const { return handle_.get(); }

    Options &create_if_missing(bool create) {
        return done(heliox_options_set_create_if_missing(handle_.get(), create));
    }
    Options &read_only(bool read_only) {
        return done(heliox_options_set_read_only(handle_.get(), read_only));
    }
    Options &durability_sync() { return done(heliox_options_set_durability_sync(handle_.get())); }
    Options &durability_bounded(std::uint64_t ms, std::uint64_t bytes) {
        return done(heliox_options_set_durability_bounded(handle_.get(), ms, bytes));
    }
    Options &durability_none() { return done(heliox_options_set_durability_none(handle_.get())); }
    Options &device(const std::string &path) {
        return done(heliox_options_add_device(handle_.get(), path.c_str()));
    }
    Options &volume(const Volume &volume) {
        return done(heliox_options_add_volume(handle_.get(), volume.get()));
    }
    Options &capacity_bytes(std::uint64_t bytes) {
        return done(heliox_options_set_capacity_bytes(handle_.get(), bytes));
    }
    Options &exact(bool exact) { return done(heliox_options_set_exact(handle_.get(), exact)); }
    Options &encryption(const KeySource &key) {
        return done(heliox_options_set_encryption(handle_.get(), key.get()));
    }
    Options &memory_budget_bytes(std::uint64_t bytes) {
        return done(heliox_options_set_memory_budget_bytes(handle_.get(), bytes));
    }
    Options &segment_bytes(std::uint64_t bytes) {
        return done(heliox_options_set_segment_bytes(handle_.get(), bytes));
    }
    Options &scrub_period_secs(std::uint64_t secs) {
        return done(heliox_options_set_scrub_period_secs(handle_.get(), secs));
    }
    Options &io_mode(heliox_io_mode mode) { return done(heliox_options_set_io_mode(handle_.get(), mode)); }

    Options &merge_operator(const std::string &name, Merge merge) {
        auto kept = std::make_unique<Merge>(std::move(merge));
        done(heliox_options_set_merge_operator(handle_.get(), name.c_str(), run_merge, kept.get(),
                                               [](void *user) { delete static_cast<Merge *>(user); }));
        kept.release();
        return *this;
    }
    Options &on_event(OnEvent listener) {
        auto kept = std::make_unique<OnEvent>(std::move(listener));
        done(heliox_options_set_event_listener(handle_.get(), run_listener, kept.get(), [](void *user) {
            delete static_cast<OnEvent *>(user);
        }));
        kept.release();
        return *this;
    }

  private:
    Options &done(heliox_code code) {
        detail::set(code);
        return *this;
    }
    static bool run_merge(void *user, const char *key, std::size_t key_len, const char *base,
                          std::size_t base_len, const char *operand, std::size_t operand_len,
                          heliox_output *output) noexcept {
        try {
            std::optional<std::string_view> present;
            if (base != nullptr)
                present = std::string_view(base, base_len);
            auto merged = (*static_cast<Merge *>(user))(std::string_view(key, key_len), present,
                                                        std::string_view(operand, operand_len));
            return merged && heliox_output_append(output, merged->data(), merged->size());
        } catch (...) {
            return false;
        }
    }
    static void run_listener(void *user, const heliox_event *event) noexcept {
        try {
            (*static_cast<OnEvent *>(user))(*event);
        } catch (...) {
        }
    }
    detail::Handle<heliox_options, heliox_options_free> handle_;
};

/* How a write differs from the store's defaults. */
class WriteOptions {
  public:
    WriteOptions() : handle_(heliox_write_options_create()) {}
    const heliox_write_options *get() const { return handle_.get(); }
    WriteOptions &durability_sync() { return done(heliox_write_options_set_durability_sync(handle_.get())); }
    WriteOptions &durability_bounded(std::uint64_t ms, std::uint64_t bytes) {
        return done(heliox_write_options_set_durability_bounded(handle_.get(), ms, bytes));
    }
    WriteOptions &durability_none() { return done(heliox_write_options_set_durability_none(handle_.get())); }
    WriteOptions &ttl_ms(std::uint64_t ttl_ms) {
        return done(heliox_write_options_set_ttl_ms(handle_.get(), ttl_ms));
    }
    WriteOptions &clear() { return done(heliox_write_options_clear(handle_.get())); }

  private:
    WriteOptions &done(heliox_code code) {
        detail::set(code);
        return *this;
    }
    detail::Handle<heliox_write_options, heliox_write_options_free> handle_;
};

class Snapshot {
  public:
    explicit Snapshot(heliox_snapshot *handle) : handle_(handle) {}
    const heliox_snapshot *get() const { return handle_.get(); }

  private:
    detail::Handle<heliox_snapshot, heliox_snapshot_free> handle_;
};

/* What an iterator gives; see heliox_iterator_options. */
struct IteratorOptions {
    std::string_view from;
    std::optional<std::string_view> to;
    std::string_view prefix;
    const Snapshot *snapshot = nullptr;
    std::uint64_t limit = 0;
    bool keys_only = false;
};

/* Steps that fail throw; key and value are views that end with the next step. */
class Iterator {
  public:
    explicit Iterator(heliox_iterator *handle) : handle_(handle) {}
    heliox_iterator *get() const { return handle_.get(); }
    bool seek_to_first() { return stands(heliox_iterator_seek_to_first(get())); }
    bool seek_to_last() { return stands(heliox_iterator_seek_to_last(get())); }
    bool seek(std::string_view key) { return stands(heliox_iterator_seek(get(), key.data(), key.size())); }
    bool seek_for_prev(std::string_view key) {
        return stands(heliox_iterator_seek_for_prev(get(), key.data(), key.size()));
    }
    bool next() { return stands(heliox_iterator_next(get())); }
    bool prev() { return stands(heliox_iterator_prev(get())); }
    bool valid() const { return heliox_iterator_valid(get()); }
    std::string_view key() const {
        std::size_t len = 0;
        const char *data = heliox_iterator_key(get(), &len);
        return detail::view(data, len);
    }
    std::string_view value() const {
        std::size_t len = 0;
        const char *data = heliox_iterator_value(get(), &len);
        return detail::view(data, len);
    }
    /* Key and value at once; both empty without an entry. */
    std::pair<std::string_view, std::string_view> entry() const {
        heliox_slice key{}, value{};
        heliox_iterator_entry(get(), &key, &value);
        return {detail::view(key.data, key.len), detail::view(value.data, value.len)};
    }
    /* Goes over to another snapshot, or to one taken now. */
    void refresh(const Snapshot *snapshot = nullptr) {
        heliox_error *error = nullptr;
        const heliox_snapshot *at = snapshot == nullptr ? nullptr : snapshot->get();
        detail::check(heliox_iterator_refresh(get(), at, &error), error);
    }

  private:
    bool stands(bool at) const {
        if (!at) {
            heliox_error *error = nullptr;
            detail::check(heliox_iterator_error(get(), &error), error);
        }
        return at;
    }
    detail::Handle<heliox_iterator, heliox_iterator_free> handle_;
};

/* What an update does: nothing, no value from now on, or this value. */
struct Update {
    heliox_update what = HELIOX_UPDATE_KEEP;
    std::string value = {};
    static Update keep() { return {}; }
    static Update erase() { return {HELIOX_UPDATE_DELETE}; }
    static Update put(std::string value) { return {HELIOX_UPDATE_PUT, std::move(value)}; }
};
using Updater = std::function<Update(std::optional<std::string_view> value)>;

class Keyspace {
  public:
    explicit Keyspace(heliox_keyspace *handle) : handle_(handle) {}
    Keyspace(const Keyspace &other) : handle_(heliox_keyspace_clone(other.get())) {}
    Keyspace(Keyspace &&) noexcept = default;
    Keyspace &operator=(const Keyspace &other) { return *this = Keyspace(other); }
    Keyspace &operator=(Keyspace &&) noexcept = default;
    const heliox_keyspace *get() const { return handle_.get(); }
    std::string name() const {
        const char *name = heliox_keyspace_name(get());
        return name == nullptr ? "" : name;
    }

    void put(std::string_view key, std::string_view value) { put_(key, value, nullptr); }
    void put(std::string_view key, std::string_view value, const WriteOptions &options) {
        put_(key, value, options.get());
    }
    void put_ttl(std::string_view key, std::string_view value, std::uint64_t ttl_ms) {
        heliox_error *error = nullptr;
        detail::check(heliox_keyspace_put_ttl(get(), key.data(), key.size(), value.data(), value.size(),
                                              ttl_ms, &error),
                      error);
    }
    void erase(std::string_view key) { erase_(key, nullptr); }
    void erase(std::string_view key, const WriteOptions &options) { erase_(key, options.get()); }
    void erase_range(std::string_view from, std::string_view to) { erase_range_(from, to, nullptr); }
    void erase_range(std::string_view from, std::string_view to, const WriteOptions &options) {
        erase_range_(from, to, options.get());
    }
    void erase_prefix(std::string_view prefix) { erase_prefix_(prefix, nullptr); }
    void erase_prefix(std::string_view prefix, const WriteOptions &options) {
        erase_prefix_(prefix, options.get());
    }

    /* These are true if the condition held. */
    bool insert_if_absent(std::string_view key, std::string_view value) {
        heliox_error *error = nullptr;
        return ok(heliox_keyspace_insert_if_absent(get(), key.data(), key.size(), value.data(), value.size(),
                                                   &error),
                  error);
    }
    bool replace_if_present(std::string_view key, std::string_view value) {
        heliox_error *error = nullptr;
        return ok(heliox_keyspace_replace_if_present(get(), key.data(), key.size(), value.data(),
                                                     value.size(), &error),
                  error);
    }
    bool compare_and_set(std::string_view key, std::optional<std::string_view> expected,
                         std::optional<std::string_view> next) {
        heliox_error *error = nullptr;
        heliox_slice old_slice{}, new_slice{};
        if (expected)
            old_slice = detail::slice(*expected);
        if (next)
            new_slice = detail::slice(*next);
        return ok(heliox_keyspace_compare_and_set(get(), key.data(), key.size(),
                                                  expected ? &old_slice : nullptr,
                                                  next ? &new_slice : nullptr, &error),
                  error);
    }
    std::optional<std::string> take(std::string_view key) {
        Value value;
        heliox_error *error = nullptr;
        return string_if(ok(heliox_keyspace_take(get(), key.data(), key.size(), value.get(), &error), error),
                         value);
    }
    bool update(std::string_view key, const Updater &updater) {
        heliox_error *error = nullptr;
        UpdateCall call{updater, nullptr};
        heliox_code code =
            heliox_keyspace_update(get(), key.data(), key.size(), run_update, &call, &error);
        bool changed = ok(code, error);
        if (call.thrown)
            std::rethrow_exception(call.thrown);
        return changed;
    }
    void merge(std::string_view key, std::string_view operand) {
        heliox_error *error = nullptr;
        detail::check(heliox_keyspace_merge(get(), key.data(), key.size(), operand.data(), operand.size(),
                                            &error),
                      error);
    }

    std::optional<std::string> get(std::string_view key) const {
        Value value;
        return string_if(get(key, value), value);
    }
    /* The fast one: uses the memory of `value` again. True if there is a value. */
    bool get(std::string_view key, Value &value) const {
        heliox_error *error = nullptr;
        return ok(heliox_keyspace_get(get(), key.data(), key.size(), value.get(), &error), error);
    }
    /* Into memory of the caller's; the length of the whole value. */
    std::optional<std::size_t> get_into(std::string_view key, void *buffer, std::size_t capacity) const {
        heliox_error *error = nullptr;
        std::size_t len = 0;
        if (!ok(heliox_keyspace_get_into(get(), key.data(), key.size(), buffer, capacity, &len, &error),
                error))
            return std::nullopt;
        return len;
    }
    std::optional<std::string> get_range(std::string_view key, std::uint64_t offset,
                                         std::uint64_t len) const {
        Value value;
        heliox_error *error = nullptr;
        return string_if(ok(heliox_keyspace_get_range(get(), key.data(), key.size(), offset, len,
                                                      value.get(), &error),
                            error),
                         value);
    }
    std::optional<std::string> get_at(const Snapshot &snapshot, std::string_view key) const {
        Value value;
        heliox_error *error = nullptr;
        return string_if(ok(heliox_keyspace_get_at(get(), snapshot.get(), key.data(), key.size(),
                                                   value.get(), &error),
                            error),
                         value);
    }
    std::vector<std::optional<std::string>> multi_get(const std::vector<std::string_view> &keys) const {
        return multi_get_(keys, heliox_keyspace_multi_get);
    }
    std::vector<std::optional<std::string>> multi_get(const std::vector<std::string_view> &keys,
                                                      const Snapshot &snapshot) const {
        auto at = [&](const heliox_keyspace *keyspace, auto... rest) {
            return heliox_keyspace_multi_get_at(keyspace, snapshot.get(), rest...);
        };
        return multi_get_(keys, at);
    }
    bool contains(std::string_view key) const {
        heliox_error *error = nullptr;
        return ok(heliox_keyspace_contains(get(), key.data(), key.size(), &error), error);
    }
    struct Approximate {
        std::uint64_t count = 0;
        std::uint64_t bytes = 0;
    };
    /* To the end of the keyspace without a `to`. */
    Approximate approximate(std::string_view from, std::optional<std::string_view> to = {}) const {
        Approximate about;
        heliox_error *error = nullptr;
        heliox_slice end{};
        if (to)
            end = detail::slice(*to);
        detail::check(heliox_keyspace_approximate(get(), from.data(), from.size(), end.data, end.len,
                                                  &about.count, &about.bytes, &error),
                      error);
        return about;
    }
    Iterator iterator(const IteratorOptions &options = {}) const {
        auto wanted = detail::sized<heliox_iterator_options>();
        wanted.from = detail::slice(options.from);
        if (options.to)
            wanted.to = detail::slice(*options.to);
        wanted.prefix = detail::slice(options.prefix);
        wanted.snapshot = options.snapshot == nullptr ? nullptr : options.snapshot->get();
        wanted.limit = options.limit;
        wanted.keys_only = options.keys_only;
        heliox_iterator *handle = nullptr;
        heliox_error *error = nullptr;
        detail::check(heliox_iterator_create(get(), &wanted, &handle, &error), error);
        return Iterator(handle);
    }

  private:
    struct UpdateCall {
        const Updater &updater;
        std::exception_ptr thrown;
    };
    static heliox_update run_update(void *user, const char *value, std::size_t len,
                                    heliox_output *output) noexcept {
        auto *call = static_cast<UpdateCall *>(user);
        try {
            std::optional<std::string_view> present;
            if (value != nullptr)
                present = std::string_view(value, len);
            Update update = call->updater(present);
            heliox_output_append(output, update.value.data(), update.value.size());
            return update.what;
        } catch (...) {
            call->thrown = std::current_exception();
            return HELIOX_UPDATE_KEEP;
        }
    }
    static bool ok(heliox_code code, heliox_error *const &error) {
        return detail::check(code, error) == HELIOX_OK;
    }
    static std::optional<std::string> string_if(bool found, const Value &value) {
        if (!found)
            return std::nullopt;
        return std::string(value.view());
    }
    void put_(std::string_view key, std::string_view value, const heliox_write_options *options) {
        heliox_error *error = nullptr;
        detail::check(heliox_keyspace_put(get(), key.data(), key.size(), value.data(), value.size(), options,
                                          &error),
                      error);
    }
    template <typename Get>
    std::vector<std::optional<std::string>> multi_get_(const std::vector<std::string_view> &keys,
                                                       Get get_many) const {
        heliox_error *error = nullptr;
        std::vector<heliox_slice> slices;
        for (std::string_view key : keys)
            slices.push_back(detail::slice(key));
        std::vector<heliox_value> values(keys.size(), heliox_value HELIOX_VALUE_INIT);
        detail::check(get_many(get(), keys.size(), slices.data(), values.data(), &error), error);
        std::vector<std::optional<std::string>> found(keys.size());
        for (std::size_t at = 0; at < keys.size(); at++)
            if (values[at].data != nullptr)
                found[at].emplace(values[at].data, values[at].len);
        heliox_values_free(values.data(), values.size());
        return found;
    }
    void erase_(std::string_view key, const heliox_write_options *options) {
        heliox_error *error = nullptr;
        detail::check(heliox_keyspace_delete(get(), key.data(), key.size(), options, &error), error);
    }
    void erase_range_(std::string_view from, std::string_view to, const heliox_write_options *options) {
        heliox_error *error = nullptr;
        detail::check(heliox_keyspace_delete_range(get(), from.data(), from.size(), to.data(), to.size(),
                                                   options, &error),
                      error);
    }
    void erase_prefix_(std::string_view prefix, const heliox_write_options *options) {
        heliox_error *error = nullptr;
        detail::check(heliox_keyspace_delete_prefix(get(), prefix.data(), prefix.size(), options, &error),
                      error);
    }
    detail::Handle<heliox_keyspace, heliox_keyspace_free> handle_;
};

/* Writes that take effect together. Copies are apart. */
class Batch {
  public:
    Batch() : handle_(heliox_batch_create()) {}
    Batch(const Batch &other) : handle_(heliox_batch_clone(other.get())) {}
    Batch(Batch &&) noexcept = default;
    Batch &operator=(const Batch &other) { return *this = Batch(other); }
    Batch &operator=(Batch &&) noexcept = default;
    const heliox_batch *get() const { return handle_.get(); }
    void put(const Keyspace &keyspace, std::string_view key, std::string_view value) {
        heliox_error *error = nullptr;
        detail::check(heliox_batch_put(handle_.get(), keyspace.get(), key.data(), key.size(), value.data(),
                                       value.size(), &error),
                      error);
    }
    void put_ttl(const Keyspace &keyspace, std::string_view key, std::string_view value,
                 std::uint64_t ttl_ms) {
        heliox_error *error = nullptr;
        detail::check(heliox_batch_put_ttl(handle_.get(), keyspace.get(), key.data(), key.size(),
                                           value.data(), value.size(), ttl_ms, &error),
                      error);
    }
    void erase(const Keyspace &keyspace, std::string_view key) {
        heliox_error *error = nullptr;
        detail::check(heliox_batch_delete(handle_.get(), keyspace.get(), key.data(), key.size(), &error),
                      error);
    }
    std::size_t count() const { return heliox_batch_count(get()); }
    void clear() { heliox_batch_clear(handle_.get()); }

  private:
    detail::Handle<heliox_batch, heliox_batch_free> handle_;
};

/* An open store; closed when it goes. close() tells whether that went well. */
class Store {
  public:
    static Store open(const std::string &path, const Options &options = {}) {
        heliox_store *handle = nullptr;
        heliox_error *error = nullptr;
        detail::check(heliox_store_open(path.c_str(), options.get(), &handle, &error), error);
        return Store(handle);
    }
    static Store create(const std::string &path, const Options &options = {}) {
        heliox_store *handle = nullptr;
        heliox_error *error = nullptr;
        detail::check(heliox_store_create(path.c_str(), options.get(), &handle, &error), error);
        return Store(handle);
    }
    static void destroy(const std::string &path) {
        heliox_error *error = nullptr;
        detail::check(heliox_store_destroy(path.c_str(), &error), error);
    }
    const heliox_store *get() const { return handle_.get(); }
    void close() { run(heliox_store_close); }

    Keyspace keyspace(const std::string &name) { return find(heliox_keyspace_open, name); }
    Keyspace create_keyspace(const std::string &name) { return find(heliox_keyspace_create, name); }
    Keyspace keyspace_or_create(const std::string &name) {
        return find(heliox_keyspace_open_or_create, name);
    }
    void drop_keyspace(const std::string &name) {
        heliox_error *error = nullptr;
        detail::check(heliox_keyspace_drop(get(), name.c_str(), &error), error);
    }
    std::vector<std::string> keyspaces() const { return list(heliox_store_keyspaces); }
    std::vector<std::string> warnings() const { return list(heliox_store_warnings); }
    std::vector<std::string> damage() const { return list(heliox_store_damage); }
    std::string describe() const { return text(heliox_store_describe); }

    void write(const Batch &batch) { write_(batch, nullptr); }
    void write(const Batch &batch, const WriteOptions &options) { write_(batch, options.get()); }
    Snapshot snapshot() {
        heliox_snapshot *handle = nullptr;
        heliox_error *error = nullptr;
        detail::check(heliox_store_snapshot(get(), &handle, &error), error);
        return Snapshot(handle);
    }
    void flush() { run(heliox_store_flush); }
    void sync() { run(heliox_store_sync); }
    void checkpoint() { run(heliox_store_checkpoint); }

    void stats(const OnStat &visit) const {
        detail::Call<OnStat> call{visit};
        heliox_error *error = nullptr;
        auto give = [](void *user, const char *name, std::uint64_t value, const char *text) {
            static_cast<detail::Call<OnStat> *>(user)->run(name, value, text);
        };
        detail::check(heliox_store_stats(get(), give, &call, &error), error);
        call.rethrow();
    }
    std::optional<std::uint64_t> stat(const std::string &name) const {
        std::uint64_t value = 0;
        heliox_error *error = nullptr;
        if (detail::check(heliox_store_stat(get(), name.c_str(), &value, &error), error) != HELIOX_OK)
            return std::nullopt;
        return value;
    }
    std::string stats_json() const { return text(heliox_store_stats_json); }
    heliox_health health(const OnCondition &visit = {}) const {
        detail::Call<OnCondition> call{visit};
        heliox_health health = HELIOX_HEALTH_HEALTHY;
        heliox_error *error = nullptr;
        auto give = [](void *user, const heliox_condition *condition) {
            static_cast<detail::Call<OnCondition> *>(user)->run(*condition);
        };
        detail::check(heliox_store_health(get(), &health, give, &call, &error), error);
        call.rethrow();
        return health;
    }
    void events(const OnEvent &visit) const {
        detail::Call<OnEvent> call{visit};
        heliox_error *error = nullptr;
        auto give = [](void *user, const heliox_event *event) {
            static_cast<detail::Call<OnEvent> *>(user)->run(*event);
        };
        detail::check(heliox_store_events(get(), give, &call, &error), error);
        call.rethrow();
    }
    heliox_scrub_report scrub(const Progress &progress = {}, const OnFinding &visit = {}) {
        auto report = detail::sized<heliox_scrub_report>();
        detail::ScrubCalls calls{{progress}, {visit}};
        heliox_error *error = nullptr;
        detail::check(heliox_store_scrub(get(), detail::ScrubCalls::on_progress,
                                         detail::ScrubCalls::on_finding, &calls, &report, &error),
                      error);
        calls.rethrow();
        return report;
    }
    std::optional<heliox_scrub_report> last_scrub(const OnFinding &visit = {}) const {
        auto report = detail::sized<heliox_scrub_report>();
        Progress none;
        detail::ScrubCalls calls{{none}, {visit}};
        heliox_error *error = nullptr;
        heliox_code code = heliox_store_last_scrub(get(), detail::ScrubCalls::on_finding, &calls, &report,
                                                   &error);
        if (detail::check(code, error) != HELIOX_OK)
            return std::nullopt;
        calls.rethrow();
        return report;
    }
    heliox_key_change rotate_key(const KeySource &next) {
        auto report = detail::sized<heliox_key_change>();
        heliox_error *error = nullptr;
        detail::check(heliox_store_rotate_key(get(), next.get(), &report, &error), error);
        return report;
    }
    /* Keeps all backups of the set, or the newest `keep`. */
    heliox_backup_report backup(const std::string &set, std::uint64_t keep = 0,
                                const Progress &progress = {}) {
        auto report = detail::sized<heliox_backup_report>();
        detail::Call<Progress> call{progress};
        heliox_error *error = nullptr;
        detail::check(heliox_store_backup(get(), set.c_str(), keep, detail::on_progress, &call, &report,
                                          &error),
                      error);
        call.rethrow();
        return report;
    }

  private:
    explicit Store(heliox_store *handle) : handle_(handle) {}
    void run(heliox_code (*function)(const heliox_store *, heliox_error **)) {
        heliox_error *error = nullptr;
        detail::check(function(get(), &error), error);
    }
    Keyspace find(heliox_code (*function)(const heliox_store *, const char *, heliox_keyspace **,
                                          heliox_error **),
                  const std::string &name) {
        heliox_keyspace *handle = nullptr;
        heliox_error *error = nullptr;
        detail::check(function(get(), name.c_str(), &handle, &error), error);
        return Keyspace(handle);
    }
    std::vector<std::string> list(heliox_code (*function)(const heliox_store *, heliox_list **,
                                                          heliox_error **)) const {
        heliox_list *texts = nullptr;
        heliox_error *error = nullptr;
        detail::check(function(get(), &texts, &error), error);
        return detail::list(texts);
    }
    std::string text(heliox_code (*function)(const heliox_store *, char **, heliox_error **)) const {
        char *owned = nullptr;
        heliox_error *error = nullptr;
        detail::check(function(get(), &owned, &error), error);
        return detail::text(owned);
    }
    void write_(const Batch &batch, const heliox_write_options *options) {
        heliox_error *error = nullptr;
        detail::check(heliox_store_write(get(), batch.get(), options, &error), error);
    }
    detail::Handle<heliox_store, heliox_store_free> handle_;
};

/* What a check or a verification found, with its problems in words. */
template <typename T> struct Checked {
    T report;
    std::vector<std::string> problems;
};

inline Checked<heliox_check_report> check(const std::string &path, const Options &options = {},
                                          const Progress &progress = {}) {
    auto report = detail::sized<heliox_check_report>();
    detail::Call<Progress> call{progress};
    heliox_list *problems = nullptr;
    heliox_error *error = nullptr;
    detail::check(heliox_check(path.c_str(), options.get(), detail::on_progress, &call, &report, &problems,
                               &error),
                  error);
    auto texts = detail::list(problems);
    call.rethrow();
    return {report, texts};
}

inline heliox_key_change change_key(const std::string &path, const Options &options, const KeySource &next) {
    auto report = detail::sized<heliox_key_change>();
    heliox_error *error = nullptr;
    detail::check(heliox_change_key(path.c_str(), options.get(), next.get(), &report, &error), error);
    return report;
}

/* A backup of a set; `damage` says why it cannot be used, if it cannot. */
struct Backup {
    std::uint64_t number = 0;
    std::uint64_t created_ms = 0;
    std::uint64_t segments = 0;
    std::uint64_t bytes = 0;
    std::optional<std::string> damage;
};

inline std::vector<Backup> backups(const std::string &set) {
    std::vector<Backup> found;
    std::function<void(const heliox_backup_info &)> visit = [&found](const heliox_backup_info &info) {
        Backup backup{info.number, info.created_ms, info.segments, info.bytes, std::nullopt};
        if (info.damage != nullptr)
            backup.damage = info.damage;
        found.push_back(std::move(backup));
    };
    using Visit = detail::Call<decltype(visit)>;
    Visit call{visit};
    heliox_error *error = nullptr;
    auto give = [](void *user, const heliox_backup_info *info) { static_cast<Visit *>(user)->run(*info); };
    detail::check(heliox_backups(set.c_str(), give, &call, &error), error);
    call.rethrow();
    return found;
}

inline void delete_backup(const std::string &set, std::uint64_t number) {
    heliox_error *error = nullptr;
    detail::check(heliox_delete_backup(set.c_str(), number, &error), error);
}

/* Backup 0 is the newest. */
inline heliox_restore_report restore(const std::string &set, std::uint64_t number, const std::string &path,
                                     const Options &options = {}, const Progress &progress = {}) {
    auto report = detail::sized<heliox_restore_report>();
    detail::Call<Progress> call{progress};
    heliox_error *error = nullptr;
    detail::check(heliox_restore(set.c_str(), number, path.c_str(), options.get(), detail::on_progress, &call,
                                 &report, &error),
                  error);
    call.rethrow();
    return report;
}

/* Backup 0 is all of them. */
inline Checked<heliox_verify_report> verify_backup(const std::string &set, std::uint64_t number,
                                                   const Options &options = {},
                                                   const Progress &progress = {}) {
    auto report = detail::sized<heliox_verify_report>();
    detail::Call<Progress> call{progress};
    heliox_list *problems = nullptr;
    heliox_error *error = nullptr;
    detail::check(heliox_verify_backup(set.c_str(), number, options.get(), detail::on_progress, &call,
                                       &report, &problems, &error),
                  error);
    auto texts = detail::list(problems);
    call.rethrow();
    return {report, texts};
}

} // namespace heliox

#endif /* HELIOX_HPP */
