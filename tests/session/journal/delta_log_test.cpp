// Text of running answers on this machine: records that survive the process, and their delivery to clients.
#include "session/journal/delta_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "session/journal/journal_format.h"
#include "tests/cache/store/store_folder.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class DeltaLogTest : public ::testing::Test {
 protected:
  std::unique_ptr<DeltaLog> Open() {
    auto log = DeltaLog::Open(folder_.path() / "answers", key_);
    EXPECT_TRUE(log.ok()) << log.status().ToString();
    return log.ok() ? std::move(*log) : nullptr;
  }
  void Keep(DeltaLog& log, const std::string& session, std::string text) {
    log.Append(session, after_, {6, std::move(text)}, [] {});
  }
  static std::vector<std::string> Texts(const DeltaLog::Unfinished& found) {
    std::vector<std::string> texts;
    for (const JournalRecord& record : found.records) texts.push_back(record.payload);
    return texts;
  }

  /// The contents of all files.
  std::string Bytes() const {
    std::stringstream bytes;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path() / "answers")) {
      if (file.file_size() > 0) bytes << std::ifstream(file.path()).rdbuf();
    }
    return bytes.str();
  }

  const Folder folder_;
  std::optional<SealKey> key_;
  const JournalPosition after_ = {7, {1, 2}};
};

TEST_F(DeltaLogTest, KeepsTheRecordsOfEachSessionInOrder) {
  auto log = Open();
  ASSERT_TRUE(log->Begin(1).ok());
  for (int i = 0; i < 300; ++i) Keep(*log, "conv_a", std::to_string(i));
  Keep(*log, "conv_ab", std::string(1 << 20, 'x'));
  Keep(*log, "conv_b", "gone");
  log->Erase("conv_b");
  log = nullptr;
  log = Open();
  const auto found = log->ReadUnfinished();
  ASSERT_TRUE(found.ok());
  ASSERT_THAT(*found, SizeIs(2));
  EXPECT_EQ((*found)[0].session, "conv_a");
  EXPECT_EQ((*found)[0].after, after_);
  ASSERT_THAT((*found)[0].records, SizeIs(300));
  EXPECT_EQ((*found)[0].records[299], (JournalRecord{6, "299"}));
  EXPECT_THAT((*found)[1].records, SizeIs(1));
  ASSERT_TRUE(log->Begin(2).ok());
  EXPECT_THAT(*log->ReadUnfinished(), IsEmpty());
}

TEST_F(DeltaLogTest, RecordsAfterAForgottenTurnRemain) {
  auto log = Open();
  Keep(*log, "conv_a", "first turn");
  log->Erase("conv_a");
  Keep(*log, "conv_a", "second turn");
  log->Flush();
  EXPECT_TRUE(log->Purge().ok());
  log = nullptr;
  const auto found = Open()->ReadUnfinished();
  ASSERT_THAT(*found, SizeIs(1));
  EXPECT_THAT(Texts((*found)[0]), ElementsAre("second turn"));
}

TEST_F(DeltaLogTest, OneProcessHasTheFolder) {
  const auto log = Open();
  EXPECT_EQ(DeltaLog::Open(folder_.path() / "answers", key_).status().code(), StatusCode::kBusy);
}

TEST_F(DeltaLogTest, KnowsItsPredecessorOnThisMachine) {
  EXPECT_EQ(Open()->Predecessor(), std::nullopt);
  ASSERT_TRUE(Open()->Begin(41).ok());
  EXPECT_EQ(Open()->Predecessor(), 41);
}

TEST_F(DeltaLogTest, ADamagedLogIsDropped) {
  Keep(*Open(), "conv_a", "text");
  std::ofstream(folder_.path() / "answers" / "CURRENT") << "no manifest\n";
  const auto log = Open();
  ASSERT_NE(log, nullptr);
  EXPECT_THAT(*log->ReadUnfinished(), IsEmpty());
  Keep(*log, "conv_a", "text");
  log->Flush();
  EXPECT_THAT(*log->ReadUnfinished(), SizeIs(1));
}

TEST_F(DeltaLogTest, WithAKeyTextIsSealed) {
  Keep(*Open(), "conv_a", "open text");
  EXPECT_THAT(Bytes(), HasSubstr("open text"));
  std::filesystem::remove_all(folder_.path() / "answers");
  key_ = SealKey::Random();
  Keep(*Open(), "conv_a", "secret text");
  EXPECT_THAT(Bytes(), Not(HasSubstr("secret text")));
  EXPECT_THAT(Texts(Open()->ReadUnfinished()->at(0)), ElementsAre("secret text"));
  key_ = SealKey::Random();
  EXPECT_THAT(*Open()->ReadUnfinished(), IsEmpty());
}

TEST_F(DeltaLogTest, DeliversInOrderOnceItMay) {
  std::mutex mutex;
  std::vector<std::string> delivered;
  std::atomic<DeltaLog::Delivery> delivery{DeltaLog::Delivery::kLater};
  const auto deliver = [&](const char* what) {
    return [&, what] {
      std::lock_guard lock(mutex);
      delivered.emplace_back(what);
    };
  };
  auto log = Open();
  log->DeliverIf([&] { return delivery.load(); });
  log->Append("conv_a", after_, {6, "a"}, deliver("a"));
  log->Erase("conv_a");
  log->Post(deliver("end"));
  EXPECT_FALSE(log->Flush(std::chrono::milliseconds(20)));
  EXPECT_THAT(delivered, IsEmpty());
  delivery = DeltaLog::Delivery::kNow;
  log->Flush();
  EXPECT_THAT(delivered, ElementsAre("a", "end"));
  delivery = DeltaLog::Delivery::kNever;
  log->Append("conv_a", after_, {6, "b"}, deliver("b"));
  log->Flush();
  delivery = DeltaLog::Delivery::kLater;
  log->Append("conv_a", after_, {6, "c"}, deliver("c"));
  log = nullptr;
  EXPECT_THAT(delivered, ElementsAre("a", "end")) << "dropped";
}

}  // namespace
}  // namespace ringside
