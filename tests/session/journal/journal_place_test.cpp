// The journal's files deleted under it, and the uptime that it stores with them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/open_files.h"
#include "tests/session/journal/journal_fixture.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

using JournalPlaceTest = JournalTest;

TEST_F(JournalPlaceTest, AcknowledgesNothingAfterItsFilesAreLost) {
  const fs::path data = options_.path, moved = folder_ / "moved";
  const std::vector<std::pair<std::string, std::function<void()>>> losses = {
      {"deleted", [&] { fs::remove_all(data); }},
      {"moved", [&] { fs::rename(data, moved); }},
      {"replaced", [&] { fs::rename(data, moved), fs::create_directory(data); }},
      {"its log replaced", [&] { fs::rename(data / "log", moved), fs::create_directory(data / "log"); }},
      {"its lock deleted", [&] { fs::remove(data / "lock"); }},
      {"its newest file deleted",
       [&] {
         for (const auto& file : fs::directory_iterator(data / "log")) {
           if (file.path().extension() == ".log") fs::remove(file.path());
         }
       }},
  };
  for (const auto& [what, lose] : losses) {
    fs::remove_all(data);
    fs::remove_all(moved);
    auto journal = MustOpen();
    ASSERT_NE(journal, nullptr) << what;
    EXPECT_TRUE(Append(*journal, Entry("a", {"x"}, true)).get().status.ok()) << what;
    EXPECT_FALSE(journal->lost()) << what;
    lose();
    const Status told = Append(*journal, Entry("a", {"y"})).get().status;
    EXPECT_EQ(told.code(), StatusCode::kIo) << what;
    EXPECT_EQ(told.reason(), "storage_failed") << what;
    EXPECT_TRUE(journal->lost()) << what;
    EXPECT_FALSE(journal->healthy()) << what;
    EXPECT_EQ(Erase(*journal, "a").status.code(), StatusCode::kIo) << what;
    EXPECT_EQ(journal->Check().code(), StatusCode::kIo) << what;
  }
}

TEST_F(JournalPlaceTest, DatabaseLimitsItsOpenFiles) {
  const auto journal = MustOpen();
  std::string options;
  for (const auto& file : fs::directory_iterator(fs::path(options_.path) / "log")) {
    if (!file.path().filename().string().starts_with("OPTIONS-")) continue;
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    options += text.str();
  }
  EXPECT_NE(options.find(fmt::format("max_open_files={}\n", ShareOfOpenFiles(8, 64, 256))), std::string::npos);
}

TEST_F(JournalPlaceTest, DetectsLostFilesWithoutAWrite) {
  options_.space_look_ms = 0;
  auto journal = MustOpen();
  EXPECT_TRUE(journal->Check().ok());
  fs::remove_all(options_.path);
  EXPECT_EQ(journal->Check().code(), StatusCode::kIo);
  EXPECT_TRUE(journal->lost());
}

TEST_F(JournalPlaceTest, UnwritableFolderRefusesEntriesUntilWritable) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  options_.space_look_ms = 0;
  auto journal = MustOpen();
  fs::permissions(options_.path, fs::perms(0500));
  EXPECT_EQ(Append(*journal, Entry("a", {"x"}, true)).get().status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(journal->healthy());
  fs::permissions(options_.path, fs::perms(0700));
  EXPECT_TRUE(Append(*journal, Entry("a", {"x"}, true)).get().status.ok());
}

TEST_F(JournalPlaceTest, TheUptimeContinuesAcrossStartsAndCrashes) {
  ManualClock first, second;
  options_.clock = &first;
  const fs::path crashed = folder_ / "crashed";
  {
    auto journal = MustOpen();
    EXPECT_EQ(journal->UptimeSeconds(), 0);
    first.AdvanceMs(90'000);
    EXPECT_TRUE(Append(*journal, Entry("a", {"x"}, true)).get().status.ok());
    first.AdvanceMs(10'000);
    fs::copy(options_.path, crashed, fs::copy_options::recursive);
    EXPECT_EQ(journal->UptimeSeconds(), 100);
  }
  options_.clock = &second;  // the machine has rebooted, which resets its steady clock
  {
    auto journal = MustOpen();
    EXPECT_EQ(journal->UptimeSeconds(), 100);
    // An idle journal records the uptime every ten minutes.
    const uint64_t commits = journal->stats().commits;
    journal->NoteUptime();
    journal->Flush();
    EXPECT_EQ(journal->stats().commits, commits);
    second.AdvanceMs(700'000);
    journal->NoteUptime();
    journal->NoteUptime();
    journal->Flush();
    EXPECT_EQ(journal->stats().commits, commits + 1);
  }
  options_.path = crashed;
  EXPECT_EQ(MustOpen()->UptimeSeconds(), 90);  // as of the last record
}

}  // namespace
}  // namespace ringside
