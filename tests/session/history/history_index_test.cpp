#include "session/history/history_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HistoryIndexTest, HistoriesAreFoundOnlyForTheirOwner) {
  HistoryIndex index(10, 1 << 20);
  EXPECT_THAT(index.Set("me", "s1", "hello there", 0), IsEmpty());
  EXPECT_THAT(index.Set("other", "s2", "hello there, friend", 0), IsEmpty());
  EXPECT_EQ(index.Find("me", "hello there, friend").longest->session, "s1");
  EXPECT_EQ(index.Find("me", "hello there, friend").longest->shared, 11u);
  EXPECT_EQ(index.Find("me", "hello there, friend").longest->size, 11u);
  EXPECT_FALSE(index.Find("third", "hello there").longest.has_value());
  index.Erase("s1");
  EXPECT_FALSE(index.Find("me", "hello there").longest.has_value());
}

TEST(HistoryIndexTest, EvictsTheOldest) {
  HistoryIndex index(2, 1 << 20);
  index.Set("me", "s1", "one", 1);
  index.Set("me", "s2", "two", 2);
  index.Set("other", "s3", "three", 3);
  index.Set("me", "s1", "one, and more", 4);
  EXPECT_EQ(index.Oldest(), "s2");
  EXPECT_EQ(index.PickEvictionVictim("other"), "s3");
  EXPECT_FALSE(index.PickEvictionVictim("nobody").has_value());
  EXPECT_FALSE(index.Oldest(2).has_value());
  EXPECT_EQ(index.Oldest(3), "s2");
  EXPECT_THAT(index.Set("me", "s4", "four", 5), ElementsAre("s2"));
  EXPECT_FALSE(index.Find("me", "two").whole.has_value());
  EXPECT_TRUE(index.Find("me", "one, and more").whole.has_value());
}

TEST(HistoryIndexTest, EvictsSingleRequestsBeforeConversations) {
  HistoryIndex index(3, 1 << 20);
  index.Set("me", "conversation", "a long one", 1, {.continued = true});
  for (int i = 0; i < 100; ++i) {
    index.Set("me", "title" + std::to_string(i), "a title, number " + std::to_string(i), 2 + i);
    ASSERT_TRUE(index.Contains("conversation")) << i;
  }
  EXPECT_FALSE(index.Contains("title97"));
  EXPECT_TRUE(index.Contains("title99"));
  EXPECT_EQ(index.PickEvictionVictim("me"), "title98");
  EXPECT_EQ(index.PickEvictionVictim(std::nullopt), "title98");
  EXPECT_EQ(index.Oldest(), "conversation") << "where age alone counts";
  // Only conversations: the least recently used.
  for (int i = 0; i < 3; ++i) {
    index.Set("me", "other" + std::to_string(i), "another one, " + std::to_string(i), 200 + i, {.continued = true});
  }
  EXPECT_FALSE(index.Contains("conversation"));
  EXPECT_THAT(index.Set("me", "new", "a new one", 300), ElementsAre("other0")) << "the newest stays";
}

TEST(HistoryIndexTest, KeyBreaksTies) {
  HistoryIndex index(10, 1 << 20);
  index.Set("me", "s1", "hello", 1, {.key = "a"});
  index.Set("me", "s2", "hello", 2, {.key = "b"});
  index.Set("me", "s3", "hello, you", 3, {.key = "c"});
  index.Set("other", "s4", "hello, friend", 4, {.key = "a"});
  const auto whole = [&](const std::string& key) { return index.Find("me", "hello, friend", key).whole->session; };
  EXPECT_EQ(whole(""), "s1");
  EXPECT_EQ(whole("a"), "s1");
  EXPECT_EQ(whole("b"), "s2");
  EXPECT_EQ(whole("unknown"), "s1");
  EXPECT_EQ(index.Find("me", "hello, friend", "a").longest->session, "s3") << "it shares more";
  EXPECT_EQ(index.Find("me", "hell", "b").longest->session, "s2");
  EXPECT_EQ(index.Find("me", "hell", "c").longest->session, "s3");
  EXPECT_FALSE(index.Find("third", "hello", "a").longest.has_value()) << "a key opens nothing";
  index.Set("me", "s2", "hello", 5);
  EXPECT_EQ(whole("b"), "s1") << "it has no key any more";
  for (const char* session : {"s1", "s2", "s3", "s4"}) index.Erase(session);
  EXPECT_EQ(index.bytes(), 0u);
}

TEST(HistoryIndexTest, RespectsItsByteLimit) {
  HistoryIndex index(1000, 20'000);
  std::vector<std::string> given_up;
  for (int i = 0; i < 100; ++i) {
    const std::string name = std::to_string(i);
    for (std::string& gone : index.Set(i % 2 == 0 ? "me" : "other", name, name + std::string(1000, 'x'), i)) {
      given_up.push_back(std::move(gone));
    }
    EXPECT_LE(index.bytes(), 20'000u);
  }
  EXPECT_GT(given_up.size(), 50u);
  EXPECT_EQ(given_up.front(), "0");
  EXPECT_THAT(index.Set("me", "large", std::string(50'000, 'x'), 100), ::testing::Contains("99"));
  EXPECT_TRUE(index.Find("me", std::string(50'000, 'x')).whole.has_value());
  index.Erase("large");
  EXPECT_EQ(index.bytes(), 0u);
}

}  // namespace
}  // namespace ringside
