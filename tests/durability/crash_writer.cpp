// A process that changes a journal and a disk store until it is killed, and prints requests and acknowledgements to
// standard output, one per line: "A 12 session", "e 0 session", "E 0 session" for the journal, "p 3 owner", "P 3
// owner", "x 0 owner", "X 0 owner" for the store; "R 0 -" when both are open.
//
//     crash_writer <folder> <prefix of new sessions> <seed>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "cache/store/rocksdb_store.h"
#include "tests/durability/fault_file_system.h"
#include "tests/durability/journal_workload.h"
#include "tests/durability/store_workload.h"

namespace ringside {
namespace {

void Say(char kind, uint64_t number, const std::string& name) {
  const std::string line = std::string(1, kind) + " " + std::to_string(number) + " " + name + "\n";
  // At most PIPE_BUF bytes: lines of two threads do not interleave, and a killed process leaves whole lines.
  if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

[[noreturn]] void Fail(const char* what, const Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  std::_Exit(3);
}

void ChangeTheStore(Store& store, uint32_t seed) {
  std::mt19937 random(seed);
  for (;;) {
    const std::string owner(1, static_cast<char>('a' + random() % 6));
    const uint32_t dice = random() % 10;
    if (dice < 2) {
      Say('x', 0, owner);
      if (store.Erase(owner).ok()) Say('X', 0, owner);
    } else if (dice < 4) {
      if (VersionIn(store, owner) < kNoObject) Fail("read", Corruption(owner));
    } else {
      std::vector<std::string> owners = {owner};
      if (dice > 6) owners.push_back(owner == "f" ? "a" : std::string(1, static_cast<char>(owner[0] + 1)));
      std::vector<NamedObject> objects;
      std::vector<uint64_t> versions;
      for (const std::string& each : owners) {
        const int version = std::max(0, VersionIn(store, each) + 1);
        versions.push_back(static_cast<uint64_t>(version));
        Say('p', versions.back(), each);
        objects.push_back({each, ExpectedObject(each, version)});
      }
      const std::vector<Status> put = store.PutAll(std::move(objects));
      for (size_t i = 0; i < owners.size(); ++i) {
        if (put[i].ok()) Say('P', versions[i], owners[i]);
      }
    }
  }
}

int Run(const std::string& folder, const std::string& prefix, uint32_t seed) {
  const std::unique_ptr<rocksdb::Env> env = MakeFaultEnv(std::make_shared<FaultFileSystem>());
  auto journal = Journal::Open({.path = folder, .min_free_bytes = 0, .env = env.get()});
  if (!journal.ok()) Fail("journal", journal.status());
  auto store = RocksDbStore::Open({.path = folder, .min_free_bytes = 0, .env = env.get()});
  if (!store.ok()) Fail("store", store.status());
  Say('R', 0, "-");
  std::thread changes([&] { ChangeTheStore(**store, seed); });
  JournalWorkload workload(**journal, prefix, seed, [](const JournalEvent& event) {
    Say(static_cast<char>(event.kind), event.seq, event.session);
  });
  std::mt19937 random(seed);
  for (;;) {
    workload.Run(100);
    while ((*journal)->stats().queued > 200) usleep(100);
    if (random() % 64 != 0) continue;
    if (const Status purged = (*journal)->Purge(); !purged.ok()) Fail("purge", purged);
    if (const Status purged = (*store)->Purge(); !purged.ok()) Fail("purge", purged);
  }
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return ringside::Run(argv[1], argv[2], static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10)));
}
