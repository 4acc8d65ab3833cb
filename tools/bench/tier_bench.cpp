// The cost of moving a conversation between the tiers, against memcpy and a plain file in the same run; the cost of a
// synced journal; and the startup time with many stored sessions.
//
//     tier_bench --path /a/folder/on/the/disk [--tokens 2048] [--rounds 5] [--sessions 100000] [--encrypt]
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <future>
#include <optional>
#include <random>
#include <vector>

#include "cache/kv_pool.h"
#include "cache/store/ram_store.h"
#include "cache/store/rocksdb_store.h"
#include "cache/store/tiered_store.h"
#include "kernels/backend.h"
#include "session/journal/journal.h"
#include "tests/cache/whole_cache.h"
#include "tools/bench/must_have.h"
#include "tools/bench/page_cache.h"
#include "tools/bench/store_calls.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using Moment = std::chrono::steady_clock::time_point;
Moment Now() { return std::chrono::steady_clock::now(); }
double Seconds(Moment begin) { return std::chrono::duration<double>(Now() - begin).count(); }

struct Options {
  std::string path;
  int64_t tokens = 2048, rounds = 5, sessions = 100'000;
  std::optional<SealKey> key;  // for everything on disk
};

/// The median of `rounds` runs, in seconds.
template <class Run>
double Median(int64_t rounds, const Run& run) {
  std::vector<double> times;
  for (int64_t i = 0; i < rounds; ++i) times.push_back(run());
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void Report(const char* what, int64_t bytes, double seconds) {
  std::printf("  %-46s %8.2f ms  %6.2f GB/s\n", what, 1e3 * seconds, static_cast<double>(bytes) / seconds * 1e-9);
}

void BenchMemoryAndFile(const Options& options, const std::vector<char>& source, std::vector<char>& target) {
  const auto bytes = static_cast<int64_t>(source.size());
  Report("memcpy", bytes, Median(options.rounds, [&] {
           const Moment begin = Now();
           std::memcpy(target.data(), source.data(), source.size());
           return Seconds(begin);
         }));
  const std::string name = options.path + "/plain_file";
  const auto write_file = [&](bool sync) {
    return Median(options.rounds, [&] {
      fs::remove(name);
      const Moment begin = Now();
      const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      for (size_t at = 0; at < source.size();) {
        const ssize_t n = write(fd, source.data() + at, std::min<size_t>(source.size() - at, 1 << 20));
        if (n <= 0) std::exit(1);
        at += static_cast<size_t>(n);
      }
      if (sync) fdatasync(fd);
      close(fd);
      return Seconds(begin);
    });
  };
  Report("plain file, write", bytes, write_file(false));
  Report("plain file, write and sync", bytes, write_file(true));
  const auto read_file = [&](bool cold) {
    return Median(options.rounds, [&] {
      if (cold) MakeCold(options.path);
      const Moment begin = Now();
      const int fd = open(name.c_str(), O_RDONLY);
      for (size_t at = 0; at < target.size();) {
        const ssize_t n = read(fd, target.data() + at, std::min<size_t>(target.size() - at, 1 << 20));
        if (n <= 0) std::exit(1);
        at += static_cast<size_t>(n);
      }
      close(fd);
      return Seconds(begin);
    });
  };
  Report("plain file, read, in the page cache", bytes, read_file(false));
  Report("plain file, read, cold", bytes, read_file(true));
  fs::remove(name);
}

void BenchTiers(const Options& options) {
  // SmolLM2-135M: 30 layers, 3 kv heads of 64.
  const std::unique_ptr<Backend> backend = MustHave(MakeCpuBackend({.threads = 1}));
  const KvShape shape = MakeKvShape(30, 3, 64, DType::kF16, 4, options.tokens, 256);
  KvPool pool = MustHave(KvPool::Make(*backend, shape, 2));
  KvCache& cache = *LendWhole(pool, {4, options.tokens, Eviction::kTurn});
  KvCache& other = *LendWhole(pool, {4, options.tokens, Eviction::kTurn});
  std::mt19937 random(1);
  for (int64_t i = 0; i + 4 <= shape.slab_bytes(); i += 4) {
    const uint32_t value = random();
    std::memcpy(static_cast<char*>(cache.slab()) + i, &value, 4);
  }
  std::memset(other.slab(), 1, static_cast<size_t>(shape.slab_bytes()));
  std::vector<int32_t> tokens;
  const auto grow = [&](int64_t n) {
    for (; n > 0; n -= 32) cache.ring().Append(32);
    tokens.resize(static_cast<size_t>(cache.ring().next()), 7);
  };
  grow(options.tokens);
  const SnapshotProof proof;
  Snapshot snapshot = Snapshot::Capture(cache, *backend, proof, tokens, 0);
  const int64_t bytes = snapshot.chunk_bytes();
  std::printf("a conversation of %ld tokens, %.1f MB in %zu chunks\n", options.tokens,
              1e-6 * static_cast<double>(bytes), snapshot.chunks().size());
  std::vector<char> source(static_cast<size_t>(bytes), 'x'), target(static_cast<size_t>(bytes), 'y');
  BenchMemoryAndFile(options, source, target);

  Report("capture from the slot", bytes, Median(options.rounds, [&] {
           const Moment begin = Now();
           snapshot = Snapshot::Capture(cache, *backend, proof, tokens, 0);
           return Seconds(begin);
         }));
  Report("hash", bytes, Median(options.rounds, [&] {
           Snapshot fresh = Snapshot::Capture(cache, *backend, proof, tokens, 0);
           const Moment begin = Now();
           fresh.Seal();
           return Seconds(begin);
         }));
  Report("restore into a slot", bytes, Median(options.rounds, [&] {
           const Moment begin = Now();
           MustBeOk(snapshot.Restore(other, *backend, proof));
           return Seconds(begin);
         }));

  RocksDbStoreOptions disk;
  disk.path = options.path + "/tiers";
  if (options.key) disk.key_of = [key = options.key](const std::string&) { return key; };
  fs::remove_all(disk.path);
  const auto open_tiers = [&] {
    return std::make_unique<TieredStore>(std::make_unique<RamStore>(int64_t{4} << 30),
                                         MustHave(RocksDbStore::Open(disk)), TieredStoreOptions{.sweep_ms = 0});
  };
  auto tiers = open_tiers();
  int64_t owner = 0;
  double in_host = 0, to_disk = 0;
  for (int64_t i = 0; i < options.rounds; ++i, ++owner) {
    const std::string name = "s" + std::to_string(owner);
    Snapshot fresh = Snapshot::Capture(cache, *backend, proof, tokens, 0);
    Moment begin = Now();
    MustBeOk(Wait([&](auto done) { MustBeOk(tiers->Store(name, std::move(fresh), done)); }));
    in_host += Seconds(begin);
    // Different bytes each time; otherwise the next round would find its chunks stored.
    static_cast<char*>(cache.slab())[random() % static_cast<uint64_t>(shape.slab_bytes())] ^= 1;
    begin = Now();
    MustBeOk(Wait([&](auto done) { tiers->Flush(done); }));
    to_disk += Seconds(begin);
  }
  const auto rounds = static_cast<double>(options.rounds);
  Report("store to host memory, after the capture", bytes, in_host / rounds);
  Report("host to disk, durable", bytes, to_disk / rounds);
  Report("fetch from host memory", bytes, Median(options.rounds, [&] {
           const Moment begin = Now();
           MustHave(Fetch(*tiers, "s0"));
           return Seconds(begin);
         }));
  for (const bool cold : {false, true}) {
    double sum = 0;
    tiers.reset();
    tiers = open_tiers();
    for (int64_t i = 0; i < options.rounds; ++i) {
      if (cold) MakeCold(disk.path);
      const Moment begin = Now();
      const FetchedSnapshot fetched = MustHave(Fetch(*tiers, "s" + std::to_string(i)));
      sum += Seconds(begin);
      if (fetched.tier != StorageTier::kDisk) std::exit(1);
    }
    Report(cold ? "fetch from disk, cold" : "fetch from disk, in the page cache", bytes, sum / rounds);
  }
  double capture = 0, store = 0;
  const TieredStoreStats before = tiers->stats();
  for (int64_t i = 0; i < options.rounds; ++i) {
    auto base = tiers->Base("s0");
    if (i == 0) MustBeOk(base->Restore(cache, *backend, proof));
    grow(32);
    const Moment begin = Now();
    Snapshot next = Snapshot::Capture(cache, *backend, proof, tokens, 0, &*base);
    capture += Seconds(begin);
    MustBeOk(Wait([&](auto done) { MustBeOk(tiers->Store("s0", std::move(next), done)); }));
    MustBeOk(Wait([&](auto done) { tiers->Flush(done); }));
    store += Seconds(begin);
  }
  const TieredStoreStats after = tiers->stats();
  std::printf(
      "  32 more tokens, captured and stored again:     %8.2f ms, %.2f ms of it on the engine's thread, %.2f MB\n",
      1e3 * store / rounds, 1e3 * capture / rounds,
      1e-6 * static_cast<double>(after.stored_bytes - before.stored_bytes) / rounds);
  tiers.reset();
  fs::remove_all(disk.path);
}

void BenchJournal(const Options& options) {
  JournalOptions where;
  where.path = options.path + "/journal";
  where.master_key = options.key;
  fs::remove_all(where.path);
  auto journal = MustHave(Journal::Open(where));
  const auto entry = [](const std::string& session, bool create) {
    JournalEntry out{.session = session, .create = create, .records = {}, .summary = {}};
    if (create) {
      out.summary = std::string(300, 's');
    } else {
      out.records.push_back({1, std::string(16, 'r')});
    }
    return out;
  };
  const auto append = [&](const std::string& session, bool create) {
    std::promise<void> told;
    MustBeOk(journal->Append(entry(session, create), [&](const Status& status, const JournalPosition&) {
      MustBeOk(status);
      told.set_value();
    }));
    told.get_future().wait();
  };
  std::printf("journal\n");
  append("one", true);
  std::vector<double> times;
  const Moment begin = Now();
  while (Seconds(begin) < 3) {
    const Moment start = Now();
    append("one", false);
    times.push_back(Seconds(start));
  }
  std::sort(times.begin(), times.end());
  std::printf("  one token at a time: %.0f syncs/s, added latency p50 %.3f ms, p99 %.3f ms\n",
              static_cast<double>(times.size()) / Seconds(begin), 1e3 * times[times.size() / 2],
              1e3 * times[times.size() * 99 / 100]);
  for (int i = 0; i < 32; ++i) append("s" + std::to_string(i), true);
  const JournalStats before = journal->stats();
  const Moment start = Now();
  int64_t steps = 0;
  while (Seconds(start) < 3) {  // 32 sessions, one token each per step
    std::promise<void> told;
    for (int i = 0; i < 32; ++i) {
      const bool last = i == 31;
      MustBeOk(journal->Append(entry("s" + std::to_string(i), false), [&told, last](const Status& status, const auto&) {
        MustBeOk(status);
        if (last) told.set_value();
      }));
    }
    told.get_future().wait();
    ++steps;
  }
  const double seconds = Seconds(start);
  const JournalStats after = journal->stats();
  std::printf("  32 tokens a step: %.0f steps/s, %.0f records/s, %.2f syncs a step, %.3f ms a step\n",
              static_cast<double>(steps) / seconds, static_cast<double>(after.records - before.records) / seconds,
              static_cast<double>(after.commits - before.commits) / static_cast<double>(steps),
              1e3 * seconds / static_cast<double>(steps));

  // Many sessions of 20 turns, about 4 KB each.
  const Moment filling = Now();
  for (int64_t i = 0; i < options.sessions; ++i) {
    JournalEntry one = entry("conv_" + std::to_string(1'000'000'000'000'000'000 + i), true);
    for (int turn = 0; turn < 20; ++turn) one.records.push_back({2, std::string(200, 't')});
    Status status;
    while ((status = journal->Append(one, nullptr)).code() == StatusCode::kOverloaded) usleep(200);
    MustBeOk(status);
  }
  journal.reset();
  std::printf("  %ld sessions of 20 records written in %.1f s\n", options.sessions, Seconds(filling));
  for (const bool cold : {false, true}) {
    if (cold) MakeCold(where.path);
    const Moment opening = Now();
    journal = MustHave(Journal::Open(where));
    const double opened = Seconds(opening);
    int64_t heads = 0;
    MustBeOk(journal->ForEachHead([&](const JournalHead&) { ++heads; }));
    std::printf("  start with %ld sessions, %s: open %.2f s, heads listed %.2f s\n", heads,
                cold ? "cold" : "page cache warm", opened, Seconds(opening));
    if (cold) {
      const Moment reading = Now();
      MustHave(journal->Read("conv_1000000000000000077"));
      std::printf("  one session read: %.2f ms\n", 1e3 * Seconds(reading));
    }
    journal.reset();
  }
  journal = MustHave(Journal::Open(where));
  const Moment verifying = Now();
  MustHave(journal->Verify());
  std::printf("  every chain verified: %.2f s\n", Seconds(verifying));
  journal.reset();
  fs::remove_all(where.path);
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  ringside::Options options;
  CLI::App app("What the tiers and the journal cost");
  app.add_option("--path", options.path, "A folder on the disk to measure")->required();
  app.add_option("--tokens", options.tokens, "Length of the conversation, a multiple of 32");
  app.add_option("--rounds", options.rounds, "Runs of each measurement; the median counts");
  app.add_option("--sessions", options.sessions, "Stored sessions at a start");
  bool encrypt = false;
  app.add_flag("--encrypt", encrypt, "Measure with encryption at rest");
  CLI11_PARSE(app, argc, argv);
  if (encrypt) options.key = ringside::SealKey::Random();
  std::filesystem::create_directories(options.path);
  ringside::BenchTiers(options);
  ringside::BenchJournal(options);
  return 0;
}
