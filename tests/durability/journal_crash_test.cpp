// The journal after a failure of the k-th call and with damaged files: no acknowledged data is lost, no wrong data is
// read.
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <mutex>
#include <random>

#include "tests/durability/data_folder.h"
#include "tests/durability/fault_file_system.h"
#include "tests/durability/journal_workload.h"

namespace ringside {
namespace {

class JournalCrashTest : public testing::Test {
 protected:
  JournalCrashTest() {
    options_.path = folder_.path() / "data";
    options_.min_free_bytes = 0;
  }

  DataFolder folder_;
  JournalOptions options_;
};

// A short life: open, create, append, erase, purge, close. Returns the acknowledged events.
std::vector<JournalEvent> ShortLife(const JournalOptions& options, const std::string& prefix) {
  std::mutex mutex;
  std::vector<JournalEvent> events;
  auto journal = Journal::Open(options);
  if (!journal.ok()) return events;
  JournalWorkload workload(**journal, prefix, 7, [&](const JournalEvent& event) {
    std::lock_guard lock(mutex);
    events.push_back(event);
  });
  for (int i = 0; i < 6; ++i) {
    workload.Run(4);
    (*journal)->Flush();
  }
  if ((*journal)->healthy()) (void)(*journal)->Purge();
  workload.Run(4);
  std::vector<std::string> names;
  if ((*journal)->ForEachHead([&](const JournalHead& head) { names.emplace_back(head.session); }).ok()) {
    for (const std::string& name : names) {
      const auto read = (*journal)->Read(name);
      const StatusCode code = read.status().code();
      EXPECT_TRUE(read.ok() || code == StatusCode::kIo || code == StatusCode::kNotFound ||
                  code == StatusCode::kCorruption);
    }
  }
  journal->reset();
  return events;
}

struct Pass {
  bool for_good;  // whether all calls from the k-th on fail, or only the k-th
  bool fresh;     // whether the folder is new, or has been written to
};

class JournalKthCallTest : public JournalCrashTest, public testing::WithParamInterface<Pass> {};

TEST_P(JournalKthCallTest, KeepsAcknowledgedData) {
  uint64_t k = 1;
  for (bool failed = true; failed; ++k) {
    std::filesystem::remove_all(options_.path);
    const auto files = std::make_shared<FaultFileSystem>();
    const std::unique_ptr<rocksdb::Env> env = MakeFaultEnv(files);
    options_.env = env.get();
    JournalOracle oracle;
    if (!GetParam().fresh) {
      for (const JournalEvent& event : ShortLife(options_, "before")) oracle.Hear(event);
    }
    files->FailAt(k, GetParam().for_good);
    for (const JournalEvent& event : ShortLife(options_, "s")) oracle.Hear(event);
    failed = files->failed();
    files->FailNever();
    const auto journal = Journal::Open(options_);
    ASSERT_TRUE(journal.ok()) << "k = " << k << ": " << journal.status().ToString();
    std::mt19937 random(1);
    ASSERT_EQ(oracle.Check(**journal, random, 1), "") << "k = " << k;
  }
  std::printf("%lu calls, each failed once\n", k - 2);
  EXPECT_GT(k, 100u);
}

INSTANTIATE_TEST_SUITE_P(, JournalKthCallTest,
                         testing::Values(Pass{false, true}, Pass{false, false}, Pass{true, true}, Pass{true, false}),
                         [](const auto& info) {
                           return std::string(info.param.for_good ? "ForGood" : "Once") +
                                  (info.param.fresh ? "Fresh" : "Used");
                         });

TEST_F(JournalCrashTest, FailedSyncStopsTheJournalPermanently) {
  const auto files = std::make_shared<FaultFileSystem>();
  const std::unique_ptr<rocksdb::Env> env = MakeFaultEnv(files);
  options_.env = env.get();
  auto journal = Journal::Open(options_);
  ASSERT_TRUE(journal.ok());
  const auto append = [&](bool create) {
    JournalEntry entry;
    entry.session = "a";
    entry.create = create;
    entry.records.push_back({1, "x"});
    std::promise<Status> told;
    const Status accepted =
        (*journal)->Append(entry, [&](const Status& status, const JournalPosition&) { told.set_value(status); });
    return accepted.ok() ? told.get_future().get() : accepted;
  };
  ASSERT_TRUE(append(true).ok());
  files->FailAt(1, false);
  EXPECT_EQ(append(false).code(), StatusCode::kIo);
  EXPECT_TRUE(files->failed());
  EXPECT_FALSE((*journal)->healthy());
  EXPECT_EQ(append(false).code(), StatusCode::kIo);  // the disk works again, but no write is attempted
  journal->reset();
  std::mt19937 random(1);
  files->LosePower(random);
  journal = Journal::Open(options_);
  ASSERT_TRUE(journal.ok()) << journal.status().ToString();
  EXPECT_EQ((*journal)->Read("a")->records.size(), 1u);
}

TEST_F(JournalCrashTest, FailedReadIsReportedWithoutFileNames) {
  const auto files = std::make_shared<FaultFileSystem>();
  const std::unique_ptr<rocksdb::Env> env = MakeFaultEnv(files);
  options_.env = env.get();
  auto journal = Journal::Open(options_);
  ASSERT_TRUE(journal.ok());
  JournalEntry entry;
  entry.session = "a";
  entry.create = true;
  for (int i = 0; i < 10; ++i) entry.records.push_back({1, std::string(100'000, 'x')});
  ASSERT_TRUE((*journal)->Append(entry, nullptr).ok());
  for (int start = 0; start < 2; ++start) {  // the log has been flushed to a table by then
    journal->reset();
    journal = Journal::Open(options_);
    ASSERT_TRUE(journal.ok()) << journal.status().ToString();
  }
  files->FailAt(1, true);
  const Status failed = (*journal)->Read("a").status();
  EXPECT_EQ(failed.code(), StatusCode::kIo);
  EXPECT_EQ(failed.reason(), "storage_failed");
  EXPECT_EQ(failed.message().find(options_.path), std::string::npos) << failed.message();
  files->FailNever();
  EXPECT_EQ((*journal)->Read("a")->records.size(), 10u);
}

// ---- damaged files

class JournalFilesTest : public JournalCrashTest {
 protected:
  // Half of the data in a table file and half in the log, as after a crash.
  void SetUp() override {
    const auto append = [](Journal& journal, const std::string& session, std::vector<std::string> payloads,
                           bool create) {
      JournalEntry entry;
      entry.session = session;
      entry.create = create;
      if (create) entry.summary = "of " + session;
      for (std::string& payload : payloads) entry.records.push_back({3, std::move(payload)});
      ASSERT_TRUE(journal.Append(entry, nullptr).ok());
    };
    {
      auto journal = Journal::Open(options_);
      ASSERT_TRUE(journal.ok());
      append(**journal, "table", {"one", "two"}, true);
      append(**journal, "both", {"three"}, true);
    }
    auto journal = Journal::Open(options_);
    ASSERT_TRUE(journal.ok());
    append(**journal, "both", {"four", "five"}, false);
    append(**journal, "log", {"six"}, true);
    std::promise<void> erased;
    ASSERT_TRUE((*journal)->Erase("nobody", [&](const Status&, const JournalPosition&) { erased.set_value(); }).ok());
    erased.get_future().wait();
    for (const char* session : {"table", "both", "log"}) {
      const auto read = (*journal)->Read(session);
      ASSERT_TRUE(read.ok());
      expected_[session] = {read->records, read->summary};
    }
    files_ = ReadFolder(options_.path);  // the process would be killed here
    journal->reset();
    std::erase_if(files_, [](const auto& file) {  // never read by us
      return file.first.find("/LOG") != std::string::npos || file.first.find("/OPTIONS") != std::string::npos;
    });
  }

  /// Success or a typed refusal, and only data that was written, or a refusal for the one session.
  void Try(const std::string& what) {
    const auto journal = Journal::Open(options_);
    if (!journal.ok()) {
      ++refused_;
      const StatusCode code = journal.status().code();
      ASSERT_TRUE(code == StatusCode::kCorruption || code == StatusCode::kMismatch || code == StatusCode::kIo)
          << what << ": " << journal.status().ToString();
      return;
    }
    ++opened_;
    for (const auto& [session, content] : expected_) {
      const auto read = (*journal)->Read(session);
      if (read.ok()) {
        ASSERT_EQ(read->records, content.first) << what << ", session " << session;
        ASSERT_EQ(read->summary, content.second) << what << ", session " << session;
      } else {
        ASSERT_EQ(read.status().code(), StatusCode::kCorruption) << what << ": " << read.status().ToString();
        ASSERT_NE(read.status().message().find(session), std::string::npos) << read.status().message();
      }
    }
    ASSERT_EQ((*journal)->Read("nobody").status().code(), StatusCode::kNotFound);
  }

  FileBytes files_;
  std::map<std::string, std::pair<std::vector<JournalRecord>, std::string>> expected_;
  int refused_ = 0, opened_ = 0;
};

TEST_F(JournalFilesTest, EveryFlippedByteIsDetectedOrHarmless) {
  std::mt19937 random(3);
  size_t bytes = 0;
  for (const auto& [name, content] : files_) {
    for (size_t i = 0; i < content.size(); ++i, ++bytes) {
      auto damaged = files_;
      damaged[name][i] = static_cast<char>(content[i] ^ (1 << random() % 8));
      WriteFolder(options_.path, damaged);
      Try("byte " + std::to_string(i) + " of " + name);
      if (HasFatalFailure()) return;
    }
  }
  std::printf("%zu bytes flipped: %d starts refused, %d went on\n", bytes, refused_, opened_);
  EXPECT_GT(refused_, 1000);
}

TEST_F(JournalFilesTest, EveryTruncationIsDetectedOrHarmless) {
  for (const auto& [name, content] : files_) {
    for (size_t length = 0; length < content.size(); ++length) {
      auto damaged = files_;
      damaged[name].resize(length);
      WriteFolder(options_.path, damaged);
      Try(name + " cut to " + std::to_string(length));
      if (HasFatalFailure()) return;
    }
    auto damaged = files_;
    damaged.erase(name);
    WriteFolder(options_.path, damaged);
    Try(name + " removed");
    if (HasFatalFailure()) return;
  }
  std::printf("truncations: %d starts refused, %d went on\n", refused_, opened_);
}

TEST_F(JournalFilesTest, AnOperatorMayAcceptALostTail) {
  for (auto& [name, content] : files_) {
    if (name.ends_with(".log")) content.resize(content.size() - 3);
  }
  WriteFolder(options_.path, files_);
  EXPECT_EQ(Journal::Open(options_).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(Journal::Open(options_).status().code(), StatusCode::kCorruption);  // and not only the first time
  options_.accept_lost_tail = true;
  EXPECT_TRUE(Journal::Open(options_).ok());
  options_.accept_lost_tail = false;
  EXPECT_TRUE(Journal::Open(options_).ok());
}

}  // namespace
}  // namespace ringside
