/*
 * Uses every function of heliox.hpp, with its failures and with callbacks that throw. The argument is an
 * empty directory. Says where it fails.
 */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <heliox.hpp>

#define CHECK(what)                                                                          \
    do {                                                                                     \
        if (!(what)) {                                                                       \
            std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);   \
            std::exit(1);                                                                    \
        }                                                                                    \
    } while (0)

using namespace std::string_literals;

template <typename F> static bool fails(heliox_code code, F call) {
    try {
        call();
    } catch (const heliox::Error &error) {
        if (error.code() != code || error.what()[0] == 0)
            std::fprintf(stderr, "found %s: %s\n", heliox_code_name(error.code()), error.what());
        return error.code() == code && error.what()[0] != 0;
    }
    return false;
}

/* Something that is no error of the store's, thrown by a callback. */
struct Thrown {};

template <typename F> static bool throws(F call) {
    try {
        call();
    } catch (const Thrown &) {
        return true;
    }
    return false;
}

static heliox::Options small() {
    return heliox::Options().capacity_bytes(128 << 20).memory_budget_bytes(16 << 20);
}

static void reads_and_writes(heliox::Store &store, heliox::Keyspace &ks) {
    ks.put("a", "apple");
    ks.put("empty", "", heliox::WriteOptions().durability_sync());
    CHECK(ks.get("a") == "apple"s && ks.get("empty") == ""s && !ks.get("x"));
    heliox::Value value;
    CHECK(ks.get("a", value) && value.view() == "apple" && !ks.get("x", value) && value.view().empty());
    heliox::Value moved = std::move(value);
    CHECK(ks.get("a", moved) && moved.view() == "apple");
    char buffer[3];
    CHECK(ks.get_into("a", buffer, 3) == 5u && std::string(buffer, 3) == "app" && !ks.get_into("x", buffer, 3));
    CHECK(ks.get_range("a", 1, 3) == "ppl"s);
    auto many = ks.multi_get({"a", "x", "empty"});
    CHECK(many[0] == "apple"s && !many[1] && many[2] == ""s);
    auto earlier = store.snapshot();
    ks.put("x", "late");
    CHECK(ks.multi_get({"a", "x", "empty"}, earlier) == many && ks.multi_get({"x"})[0] == "late"s);
    ks.erase("x");
    CHECK(ks.contains("a") && !ks.contains("x"));
    ks.put_ttl("a", "brief", 3600000);
    ks.erase("empty");
    ks.erase("empty", heliox::WriteOptions().durability_none());
    CHECK(!ks.contains("empty"));
    CHECK(fails(HELIOX_INVALID, [&] { ks.put("a", "", heliox::WriteOptions().ttl_ms(0)); }));
    CHECK(fails(HELIOX_INVALID, [&] { ks.put("a", "", heliox::WriteOptions().durability_bounded(0, 0)); }));
    heliox::WriteOptions options;
    options.ttl_ms(0).clear();
    ks.put("a", "apple", options);

    CHECK(ks.insert_if_absent("c", "1") && !ks.insert_if_absent("c", "2"));
    CHECK(ks.replace_if_present("c", "3") && !ks.replace_if_present("d", "3"));
    CHECK(!ks.compare_and_set("c", "4", "5") && ks.compare_and_set("c", "3", ""));
    CHECK(!ks.compare_and_set("c", std::nullopt, "5") && ks.compare_and_set("c", "", std::nullopt));
    CHECK(ks.compare_and_set("c", std::nullopt, "6") && ks.take("c") == "6"s && !ks.take("c"));
    CHECK(!ks.update("u", [](auto old) { return old ? heliox::Update::erase() : heliox::Update::keep(); }));
    CHECK(ks.update("u", [](auto) { return heliox::Update::put("new"); }) && ks.get("u") == "new"s);
    CHECK(throws([&] { ks.update("u", [](auto) -> heliox::Update { throw Thrown(); }); }));
    CHECK(ks.get("u") == "new"s);
    CHECK(ks.update("u", [](auto old) { return old ? heliox::Update::erase() : heliox::Update::keep(); }));
    CHECK(!ks.contains("u"));
    ks.merge("m", "1");
    ks.merge("m", "2");
    CHECK(ks.get("m") == "12"s);
    CHECK(fails(HELIOX_INVALID, [&] { ks.merge("m", "throw"); }));
    CHECK(fails(HELIOX_INVALID, [&] { ks.merge("m", ""); }));

    heliox::Batch batch;
    batch.put(ks, "b1", "1");
    batch.put_ttl(ks, "b2", "2", 3600000);
    batch.erase(ks, "a");
    heliox::Batch copy = batch;
    copy.clear();
    CHECK(batch.count() == 3 && copy.count() == 0);
    auto before = store.snapshot();
    store.write(batch);
    store.write(batch, heliox::WriteOptions().durability_sync());
    CHECK(!ks.contains("a") && ks.get_at(before, "a") == "apple"s && !ks.get_at(before, "b1"));
    CHECK(ks.get("b2") == "2"s);
    ks.erase_range("b1", "b2", heliox::WriteOptions().durability_none());
    CHECK(!ks.contains("b1") && ks.contains("b2"));
    ks.erase_prefix("b");
    CHECK(!ks.contains("b2"));
    heliox::Keyspace gone = std::move(ks);
    CHECK(fails(HELIOX_INVALID, [&] { ks.get("a"); }) && ks.name().empty());
    ks = gone;
    CHECK(ks.name() == "one");
}

static void iterators(heliox::Store &store, heliox::Keyspace &ks) {
    ks.erase_prefix("", heliox::WriteOptions().durability_sync());
    for (char letter = 'a'; letter <= 'z'; letter++)
        ks.put(std::string(1, letter), std::string(3, letter));
    auto it = ks.iterator();
    std::string seen;
    CHECK(!it.valid() && it.key().empty() && it.value().empty());
    for (bool at = it.seek_to_first(); at; at = it.next())
        seen += it.key();
    CHECK(seen == "abcdefghijklmnopqrstuvwxyz");
    CHECK(it.seek_to_last() && it.value() == "zzz" && it.prev() && it.key() == "y" && it.next() && it.valid());
    CHECK(it.entry() == std::make_pair(std::string_view("z"), std::string_view("zzz")));
    CHECK(it.seek("m") && it.prev() && it.key() == "l" && it.seek_for_prev("mm") && it.key() == "m");
    auto before = store.snapshot();
    ks.erase("a");
    it.refresh();
    CHECK(it.seek_to_first() && it.key() == "b");
    it.refresh(&before);
    CHECK(it.seek_to_first() && it.key() == "a");
    heliox::IteratorOptions options;
    options.from = "c";
    options.to = "f";
    options.keys_only = true;
    options.limit = 2;
    options.snapshot = &before;
    auto some = ks.iterator(options);
    CHECK(some.seek_to_last() && some.key() == "e" && some.value().empty() && some.prev() && !some.prev());
    options = {};
    options.prefix = "q";
    auto one = ks.iterator(options);
    CHECK(one.seek_to_first() && one.key() == "q" && !one.next());
    CHECK(ks.approximate("").count > 20 && ks.approximate("", "").count < 5);
}

static void figures(heliox::Store &store) {
    int stats = 0, events = 0, progress = 0;
    store.flush();
    store.sync();
    store.checkpoint();
    store.stats([&](const char *, std::uint64_t, const char *) { stats++; });
    CHECK(stats > 40 && store.stat("objects") > 20u && !store.stat("nothing"));
    CHECK(store.stats_json().find("\"health\":\"healthy\"") != std::string::npos);
    CHECK(!store.describe().empty() && store.damage().empty());
    store.warnings();
    CHECK(store.health() == HELIOX_HEALTH_HEALTHY);
    CHECK(store.health([](const heliox_condition &) { std::abort(); }) == HELIOX_HEALTH_HEALTHY);
    store.events([&](const heliox_event &) { events++; });
    CHECK(events > 0 && !store.last_scrub());
    auto report = store.scrub([&](std::uint64_t, std::uint64_t) { progress++; },
                              [](const heliox_finding &) { std::abort(); });
    CHECK(report.bytes > 0 && progress > 0 && store.last_scrub()->started_ms == report.started_ms);
    CHECK(throws([&] { store.stats([](const char *, std::uint64_t, const char *) { throw Thrown(); }); }));
    CHECK(throws([&] { store.events([](const heliox_event &) { throw Thrown(); }); }));
    CHECK(throws([&] { store.scrub([](std::uint64_t, std::uint64_t) { throw Thrown(); }); }));
    store.create_keyspace("two");
    CHECK(store.keyspaces().size() == 2 && store.keyspace("two").name() == "two");
    store.drop_keyspace("two");
    CHECK(fails(HELIOX_UNKNOWN_KEYSPACE, [&] { store.keyspace("two"); }));
}

static void on_disk(const std::string &dir) {
    heliox::Options options = small()
                                  .durability_bounded(50, 1 << 20)
                                  .durability_none()
                                  .durability_sync()
                                  .exact(false)
                                  .segment_bytes(4 << 20)
                                  .scrub_period_secs(0)
                                  .io_mode(HELIOX_IO_MODE_AUTO)
                                  .create_if_missing(false);
    auto key = heliox::KeySource::bytes({1, 2, 3});
    CHECK(fails(HELIOX_NOT_A_STORE, [&] { heliox::Store::open(dir + "/store", options); }));
    options.create_if_missing(true).encryption(key);
    {
        auto store = heliox::Store::open(dir + "/store", options);
        CHECK(fails(HELIOX_STORE_IN_USE, [&] { heliox::Store::open(dir + "/store", options); }));
        store.keyspace_or_create("one").put("k", "v");
        CHECK(store.rotate_key(key).added);
        CHECK(store.backup(dir + "/set").number == 1);
        CHECK(store.backup(dir + "/set", 1, [](std::uint64_t, std::uint64_t) {}).removed == 1);
        store.close();
        CHECK(fails(HELIOX_CLOSED, [&] { store.sync(); }));
    }
    CHECK(fails(HELIOX_STORE_EXISTS, [&] { heliox::Store::create(dir + "/store", options); }));
    heliox::Store::create(dir + "/short-lived", options).close();
    heliox::Store::destroy(dir + "/short-lived");
    CHECK(fails(HELIOX_NOT_A_STORE, [&] { heliox::Store::destroy(dir + "/short-lived"); }));
    int progress = 0;
    auto count = [&](std::uint64_t, std::uint64_t) { progress++; };
    auto checked = heliox::check(dir + "/store", options, count);
    CHECK(checked.report.records > 0 && checked.problems.empty() && progress > 0);
    auto listed = heliox::backups(dir + "/set");
    CHECK(listed.size() == 1 && listed[0].number == 2 && !listed[0].damage && listed[0].bytes > 0);
    CHECK(heliox::verify_backup(dir + "/set", 0, options, count).report.backups == 1);
    CHECK(fails(HELIOX_INVALID, [&] { heliox::delete_backup(dir + "/set", 1); }));
    CHECK(heliox::restore(dir + "/set", 2, dir + "/restored", options, count).number == 2);
    auto next = heliox::KeySource::command("printf %064d 7");
    heliox::change_key(dir + "/restored", options, next);
    CHECK(fails(HELIOX_WRONG_KEY, [&] { heliox::Store::open(dir + "/restored", options); }));
    CHECK(fails(HELIOX_INVALID, [&] { options.encryption(heliox::KeySource::file(dir + "/no key"));
                                      heliox::Store::open(dir + "/restored", options); }));
    options.encryption(next);
    CHECK(heliox::Store::open(dir + "/restored", options).keyspace("one").get("k") == "v"s);
    CHECK(fails(HELIOX_INVALID, [&] { options.device(dir + "/a").device(dir + "/a");
                                      heliox::Store::open(dir + "/never", options); }));
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    std::atomic<int> events{0};
    heliox::Volume volume(128 << 20);
    heliox::Options options = small().volume(volume);
    options.merge_operator("append", [](std::string_view, std::optional<std::string_view> base,
                                        std::string_view operand) -> std::optional<std::string> {
        if (operand == "throw")
            throw Thrown();
        if (operand.empty())
            return std::nullopt;
        return std::string(base.value_or("")) + std::string(operand);
    });
    options.on_event([&events](const heliox_event &) {
        events++;
        throw Thrown();
    });
    {
        auto store = heliox::Store::create("", heliox::Options(options));
        auto ks = store.create_keyspace("one");
        reads_and_writes(store, ks);
        iterators(store, ks);
        figures(store);
        store.close();
        CHECK(events > 1);
    }
    on_disk(argv[1]);
    std::puts("all holds");
}
