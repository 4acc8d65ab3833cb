// The search in the texts of messages: matches, excerpts, pages, bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/request_watch.h"
#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;

class SearchTest : public DurableSessionTest {
 protected:
  std::string Add(std::vector<std::string> texts) {
    clock.AdvanceMs(1000);  // the order of creation survives a restart
    std::vector<NewItem> items;
    for (std::string& text : texts) {
      items.push_back({items.size() % 2 == 0 ? ChatRole::kUser : ChatRole::kAssistant, std::move(text)});
    }
    return table->CreateSession(me, {}, {}, std::move(items))->id;
  }
  static std::vector<std::string> Ids(const SearchPage& page) {
    std::vector<std::string> ids;
    for (const SearchMatch& match : page.matches) ids.push_back(match.session);
    return ids;
  }
};

TEST_F(SearchTest, FindsTextsOfAnyCaseNewestFirst) {
  const std::string old = Add({"Where is the ZEBRA?", "Behind the house."});
  Add({"Nothing here."});
  const std::string fresh = Add({"Hello", "A zebra\n\n  crosses the street."});
  const SearchPage page = *table->Search(me, {"zeBRa"});
  EXPECT_THAT(Ids(page), ElementsAre(fresh, old));
  EXPECT_EQ(page.matches[0].before, "A ");
  EXPECT_EQ(page.matches[0].match, "zebra");
  EXPECT_EQ(page.matches[0].after, " crosses the street.");
  EXPECT_EQ(page.matches[0].role, ChatRole::kAssistant);
  EXPECT_EQ(page.matches[1].match, "ZEBRA");
  EXPECT_FALSE(page.has_more);
  EXPECT_THAT(Ids(*table->Search(me, {"lion"})), ElementsAre());
}

TEST_F(SearchTest, ExcerptsKeepWholeCharacters) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "ä";
  text += "ÜBER";
  for (int i = 0; i < 200; ++i) text += "ö";
  Add({text});
  const SearchPage page = *table->Search(me, {"über"});
  ASSERT_EQ(page.matches.size(), 1U);
  EXPECT_EQ(page.matches[0].match, "ÜBER");
  EXPECT_TRUE(page.matches[0].before.starts_with("…ä"));
  EXPECT_TRUE(page.matches[0].after.ends_with("ö…"));
}

TEST_F(SearchTest, IllFormedTextsAreRefused) {
  for (const char* text : {"\xff", "a\xc3", "\xed\xa0\x80"}) {
    EXPECT_EQ(table->Search(me, {text}).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST_F(SearchTest, PagesContinueAfterARestart) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.insert(ids.begin(), Add({"needle " + std::to_string(i)}));
  const SearchPage first = *table->Search(me, {"needle", "", 2});
  EXPECT_THAT(Ids(first), ElementsAre(ids[0], ids[1]));
  EXPECT_TRUE(first.has_more);
  Restart();
  const SearchPage second = *table->Search(me, {"needle", first.last_id, 10});
  EXPECT_THAT(Ids(second), ElementsAre(ids[2], ids[3], ids[4]));
  EXPECT_FALSE(second.has_more);
  EXPECT_EQ(table->Search(me, {"needle", "conv_unknown", 2}).status().code(), StatusCode::kNotFound);
}

TEST_F(SearchTest, OneRequestReadsABoundedNumberOfConversations) {
  for (int64_t i = 0; i <= kMaxSearchedConversations; ++i) NewConversation();
  const SearchPage page = *table->Search(me, {"x"});
  EXPECT_TRUE(page.has_more);
  EXPECT_FALSE(page.last_id.empty());
  EXPECT_FALSE(table->Search(me, {"x", page.last_id})->has_more);
}

TEST_F(SearchTest, FindsNothingOfOthers) {
  Add({"secret needle"});
  const SearchPage page = *table->Search({"another", 9}, {"needle"});
  EXPECT_TRUE(page.matches.empty());
  EXPECT_EQ(page.last_id, "");
}

TEST_F(SearchTest, EndsWhenTheClientLeaves) {
  Add({"needle"});
  const RequestWatch watch([] { return true; });
  EXPECT_EQ(table->Search(me, {"needle"}).status().code(), StatusCode::kCancelled);
}

TEST_F(SearchTest, LeavesRoomForTheOwner) {
  options.transcript_bytes = 100'000;
  Restart();
  for (int i = 0; i < 60; ++i) Add({std::string(3000, 'q') + " needle"});
  EXPECT_EQ(table->Search(me, {"needle", "", 50})->matches.size(), 50U);
  EXPECT_LT(table->stats().loaded, 60);
}

}  // namespace
}  // namespace ringside
