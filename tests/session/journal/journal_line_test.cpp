// The order in which pending journal entries are written.
#include "session/journal/journal_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace ringside {
namespace {

using ::testing::ElementsAre;
using Kind = JournalOperation::Kind;

JournalOperation Operation(const std::string& session, size_t bytes, Kind kind = Kind::kAppend) {
  JournalOperation operation;
  operation.kind = kind;
  operation.entry.session = session;
  operation.bytes = bytes;
  return operation;
}

void Add(JournalLine& line, std::vector<std::pair<std::string, size_t>> operations) {
  std::vector<JournalOperation> made;
  for (const auto& [session, bytes] : operations) made.push_back(Operation(session, bytes));
  line.Add(std::move(made));
}

std::vector<std::string> Sessions(const std::vector<JournalOperation>& taken) {
  std::vector<std::string> sessions;
  for (const JournalOperation& operation : taken) {
    sessions.push_back(operation.kind == Kind::kFlush ? "flush" : operation.entry.session);
  }
  return sessions;
}

constexpr size_t kLarge = JournalLine::kLargeBytes + 1;

TEST(JournalLine, SmallEntriesDoNotWaitForLargeOnes) {
  JournalLine line;
  Add(line, {{"import", kLarge}, {"a", 10}, {"b", 10}});
  EXPECT_THAT(Sessions(line.Take()), ElementsAre("a", "b"));
  EXPECT_THAT(Sessions(line.Take()), ElementsAre("import"));
  EXPECT_TRUE(line.empty());
}

TEST(JournalLine, NeitherKindWaitsMoreThanOneWrite) {
  JournalLine line;
  Add(line, {{"import 1", 16 << 20}, {"import 2", 16 << 20}, {"a", 10}});
  EXPECT_THAT(Sessions(line.Take()), ElementsAre("a"));
  ASSERT_TRUE(line.wants_more());
  Add(line, {{"b", 10}});
  EXPECT_THAT(Sessions(line.Take()), ElementsAre("import 1"));
  EXPECT_THAT(Sessions(line.Take()), ElementsAre("b"));
  EXPECT_THAT(Sessions(line.Take()), ElementsAre("import 2"));
}

TEST(JournalLine, EntriesOfASessionStayOrdered) {
  JournalLine line;
  std::vector<JournalOperation> operations;
  operations.push_back(Operation("a", kLarge));
  operations.push_back(Operation("a", 10));
  operations.push_back(Operation("b", 10));
  operations.push_back(Operation("a", 0, Kind::kErase));
  line.Add(std::move(operations));
  EXPECT_THAT(Sessions(line.Take()), ElementsAre("b"));
  const auto taken = line.Take();
  EXPECT_THAT(Sessions(taken), ElementsAre("a", "a", "a"));
  EXPECT_EQ(taken.back().kind, Kind::kErase);
  Add(line, {{"a", 10}});
  EXPECT_TRUE(!line.wants_more()) << "nothing of it waits any more: it is small again";
}

TEST(JournalLine, WriteSizeIsBounded) {
  JournalLine line;
  constexpr size_t kEach = JournalLine::kLargeBytes, kFit = JournalLine::kWriteBytes / kEach;
  for (size_t i = 0; i < kFit + 3; ++i) Add(line, {{"a", kEach}});
  EXPECT_EQ(line.Take().size(), kFit);
  EXPECT_EQ(line.Take().size(), 3u);
}

TEST(JournalLine, FlushFollowsEarlierEntries) {
  JournalLine line;
  std::vector<JournalOperation> operations;
  operations.push_back(Operation("import", kLarge));
  operations.push_back(Operation("a", 10));
  operations.push_back(Operation("", 0, Kind::kFlush));
  operations.push_back(Operation("another import", kLarge * 20));
  line.Add(std::move(operations));
  EXPECT_THAT(Sessions(line.Take()), ElementsAre("a"));
  EXPECT_THAT(Sessions(line.Take()), ElementsAre("import", "another import", "flush"));
  line.Add({});
  operations.clear();
  operations.push_back(Operation("", 0, Kind::kFlush));
  line.Add(std::move(operations));
  EXPECT_THAT(Sessions(line.Take()), ElementsAre("flush"));
}

TEST(JournalLine, TakesEveryEntryOnceAndInSessionOrder) {
  std::mt19937 random(3);
  JournalLine line;
  std::map<std::string, uint64_t> last;
  size_t added = 0, taken = 0;
  for (int step = 0; step < 2'000; ++step) {
    if (line.wants_more()) {
      for (size_t n = random() % 8; n > 0; --n, ++added) {
        Add(line, {{std::string(1, static_cast<char>('a' + random() % 5)), random() % 4 == 0 ? kLarge : 10}});
      }
    }
    if (line.empty()) continue;
    for (const JournalOperation& operation : line.Take()) {
      EXPECT_LT(last[operation.entry.session], operation.number);
      last[operation.entry.session] = operation.number;
      ++taken;
    }
  }
  while (!line.empty()) taken += line.Take().size();
  EXPECT_EQ(taken, added);
}

}  // namespace
}  // namespace ringside
