// The journal and the disk tier together, repeatedly killed (kill -9) and hit by power loss: acknowledged data is
// present, once, in order and complete (I1 to I3), according to an external record. The cycles are divided into shards
// that run in parallel.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <sstream>
#include <thread>

#include "cache/store/rocksdb_store.h"
#include "tests/durability/data_folder.h"
#include "tests/durability/fault_file_system.h"
#include "tests/durability/journal_workload.h"
#include "tests/durability/killed_process.h"
#include "tests/durability/store_workload.h"

namespace ringside {
namespace {

constexpr int kShards = 4, kCyclesPerFolder = 25;
// Lifetime of a process: up to kMostLines lines of output, most of which acknowledge a change, plus up to kMostUs; or
// only up to kMostUsAlone, in which it opens.
constexpr int64_t kMostLines = 80;
constexpr uint32_t kMostUs = 2'000, kMostUsAlone = 50'000;

class CrashTest : public testing::TestWithParam<int> {
 protected:
  CrashTest() {
    journal_.path = store_.path = folder_.path() / "data";
    journal_.min_free_bytes = store_.min_free_bytes = 0;
    journal_.env = store_.env = env_.get();
  }
  int cycles() const { return CrashCycles() / kShards + (CrashCycles() % kShards > GetParam()); }

  void StartAnew() {
    std::filesystem::remove_all(journal_.path);
    acknowledged_ += in_journal_.acknowledged() + in_store_.acknowledged();
    in_journal_ = {};
    in_store_ = {};
  }
  /// Sessions not written to recently are read with probability 1 / `sample`.
  void CheckJournal(const Journal& journal, int sample, int cycle) {
    ASSERT_EQ(in_journal_.Check(journal, random_, sample), "") << "cycle " << cycle;
    ASSERT_EQ(journal.stats().damaged_sessions, 0) << "cycle " << cycle;
  }

  DataFolder folder_;
  std::shared_ptr<FaultFileSystem> files_ = std::make_shared<FaultFileSystem>();
  std::unique_ptr<rocksdb::Env> env_ = MakeFaultEnv(files_);
  JournalOptions journal_;
  RocksDbStoreOptions store_;
  std::mt19937 random_{static_cast<uint32_t>(GetParam())};
  JournalOracle in_journal_;
  StoreOracle in_store_;
  uint64_t acknowledged_ = 0;
};

TEST_P(CrashTest, SurvivesKill9UnderLoad) {
  for (int cycle = 0; cycle < cycles(); ++cycle) {
    if (cycle % kCyclesPerFolder == 0) StartAnew();
    // Some kills hit the process while it is opening.
    const int64_t life = random_() % 4 == 0 ? 0 : 1 + random_() % kMostLines;
    const std::string heard =
        RunAndKill({RINGSIDE_CRASH_WRITER, journal_.path, "c" + std::to_string(cycle) + "-", std::to_string(random_())},
                   life, random_() % (life == 0 ? kMostUsAlone : kMostUs));
    std::istringstream lines(heard);
    char kind;
    uint64_t number;
    std::string name;
    while (lines >> kind >> number >> name) {
      if (kind == 'p') in_store_.PutIssued(name, static_cast<int>(number));
      if (kind == 'P') in_store_.PutDone(name, static_cast<int>(number));
      if (kind == 'x') in_store_.EraseIssued(name);
      if (kind == 'X') in_store_.EraseDone(name);
      if (kind == 'A' || kind == 'e' || kind == 'E') {
        in_journal_.Hear({static_cast<JournalEvent::Kind>(kind), number, name});
      }
    }
    const auto journal = Journal::Open(journal_);
    ASSERT_TRUE(journal.ok()) << "cycle " << cycle << ": " << journal.status().ToString();
    CheckJournal(**journal, cycle % kCyclesPerFolder == kCyclesPerFolder - 1 ? 1 : 50, cycle);
    const auto store = RocksDbStore::Open(store_);
    ASSERT_TRUE(store.ok()) << "cycle " << cycle << ": " << store.status().ToString();
    ASSERT_EQ(in_store_.Check(**store), "") << "cycle " << cycle;
    if (HasFatalFailure()) return;
  }
  StartAnew();
  std::printf("%d kills, %lu changes acknowledged, none lost\n", cycles(), acknowledged_);
  EXPECT_GE(acknowledged_, static_cast<uint64_t>(cycles()) * 10) << "too little load to say anything";
}

TEST_P(CrashTest, SurvivesLossOfPower) {
  for (int cycle = 0; cycle < cycles(); ++cycle) {
    if (cycle % kCyclesPerFolder == 0) StartAnew();
    std::mutex mutex;
    std::vector<JournalEvent> events;
    {
      auto journal = Journal::Open(journal_);
      ASSERT_TRUE(journal.ok()) << "cycle " << cycle << ": " << journal.status().ToString();
      CheckJournal(**journal, 10, cycle);
      auto store = RocksDbStore::Open(store_);
      ASSERT_TRUE(store.ok()) << "cycle " << cycle << ": " << store.status().ToString();
      ASSERT_EQ(in_store_.Check(**store), "") << "cycle " << cycle;
      JournalWorkload workload(**journal, "c" + std::to_string(cycle) + "-", random_(), [&](const JournalEvent& event) {
        std::lock_guard lock(mutex);
        events.push_back(event);
      });
      workload.Run(static_cast<int>(random_() % 200));
      EXPECT_EQ(ChangeStore(**store, in_store_, random_, static_cast<int>(random_() % 4)), 0);
      if (random_() % 16 == 0) {
        EXPECT_TRUE((*journal)->Purge().ok());
        EXPECT_TRUE((*store)->Purge().ok());
      }
      workload.Run(static_cast<int>(random_() % 100));
      files_->FailAt(1 + random_() % 40, true);  // the machine stops at some point from here on
      ChangeStore(**store, in_store_, random_, 2);
      if (random_() % 16 == 0) files_->FailNever();  // it closes cleanly, and then loses power
    }
    files_->LosePower(random_);
    for (const JournalEvent& event : events) in_journal_.Hear(event);
  }
  {
    const auto journal = Journal::Open(journal_);
    ASSERT_TRUE(journal.ok()) << journal.status().ToString();
    CheckJournal(**journal, 1, cycles());
    const auto store = RocksDbStore::Open(store_);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    ASSERT_EQ(in_store_.Check(**store), "");
  }
  StartAnew();
  std::printf("%d losses of power, %lu changes acknowledged, none lost\n", cycles(), acknowledged_);
  EXPECT_GE(acknowledged_, static_cast<uint64_t>(cycles()) * 10) << "too little load to say anything";
}

INSTANTIATE_TEST_SUITE_P(Shards, CrashTest, testing::Range(0, kShards));

}  // namespace
}  // namespace ringside
