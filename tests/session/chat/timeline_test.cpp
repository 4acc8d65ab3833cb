#include "session/chat/timeline/timeline.h"

#include <gtest/gtest.h>

#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

constexpr int64_t kRoom = 1 << 20;  // tokens

class TimelineTest : public ::testing::Test {
 protected:
  static Item Message(ChatRole role, std::string text) {
    Item item;
    item.role = role;
    item.text = std::move(text);
    return item;
  }
  // A turn: the user's message and the answer, sampled with its end of turn unless it is cut.
  void Turn(const std::string& user, const std::string& answer, bool cut = false) {
    timeline_.AddItem(Message(ChatRole::kUser, user));
    ASSERT_TRUE(timeline_.Render(codec_, true, kRoom).ok());
    std::vector<TokenId> ids = Bytes(answer);
    if (!cut) ids.push_back(ByteTokenizer::kImEnd);
    Item message = Message(ChatRole::kAssistant, answer);
    message.complete = !cut;
    timeline_.CloseAnswer(std::move(message), ids, codec_);
  }
  std::string Text() const { return tokenizer_.Decode(timeline_.tokens().From(0)); }

  ByteTokenizer tokenizer_;
  ChatTemplate chat_ = std::move(ChatTemplate::Named("chatml").value());
  Codec codec_{tokenizer_, chat_, 64};
  Timeline timeline_;
};

TEST_F(TimelineTest, TurnsConcatenateToTheWholeConversation) {
  ASSERT_TRUE(timeline_.SetHead({"Be kind.", {}}, codec_, kRoom).ok());
  Turn("Hi", "Hello");
  Turn("Bye", "Ciao");
  EXPECT_EQ(Text(),
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
            "Hello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nCiao<|im_end|>");
  ASSERT_EQ(timeline_.items().size(), 4U);
  for (const Item& item : timeline_.items()) {
    EXPECT_EQ(timeline_.tokens()[static_cast<size_t>(item.token_begin)], ByteTokenizer::kImStart);
  }
  EXPECT_EQ(timeline_.message_starts().size(), 5U);  // including the system message
  for (const int64_t start : timeline_.message_starts()) {
    EXPECT_EQ(timeline_.tokens()[static_cast<size_t>(start)], ByteTokenizer::kImStart);
  }
}

TEST_F(TimelineTest, NextTurnClosesATruncatedAnswer) {
  Turn("Hi", "Hel", true);
  Turn("Go on", "lo");
  EXPECT_NE(Text().find("assistant\nHel<|im_end|>\n<|im_start|>user\nGo on"), std::string::npos);
}

// Counted incrementally: a walk over a long conversation would hold its session's lock too long.
TEST_F(TimelineTest, CountsItsOwnBytes) {
  const auto expect_counted = [](const Timeline& timeline) {
    size_t bytes = timeline.tokens().size() * sizeof(TokenId) + timeline.message_starts().size() * sizeof(int64_t);
    for (const Item& item : timeline.items()) bytes += sizeof(Item) + item.id.size() + item.text.size();
    bytes += timeline.head().instructions.value_or("").size();
    EXPECT_EQ(timeline.bytes(), static_cast<int64_t>(bytes));
  };
  for (int i = 0; i < 300; ++i) Turn("Hi", std::string(static_cast<size_t>(i % 7), 'x'));
  expect_counted(timeline_);
  const Timeline before = timeline_;
  ASSERT_TRUE(timeline_.SetHead({"Be kind.", {}}, codec_, kRoom).ok());
  timeline_.AddItem(Message(ChatRole::kUser, "Bye"));
  expect_counted(timeline_);
  Timeline applied = before;
  ASSERT_TRUE(applied.Apply(timeline_.PatchFrom(before), tokenizer_.vocab_size()).ok());
  expect_counted(applied);
  timeline_.KeepItems(5);
  expect_counted(timeline_);
  timeline_.ForgetTokens();
  expect_counted(timeline_);
}

TEST_F(TimelineTest, PinsTheSystemMessageUpToTheCap) {
  ASSERT_TRUE(timeline_.SetHead({"Be kind.", {}}, codec_, kRoom).ok());
  Turn("Hi", "Hello");
  const std::vector<TokenId> pinned(timeline_.tokens().begin(), timeline_.tokens().begin() + timeline_.pinned());
  EXPECT_EQ(tokenizer_.Decode(pinned), "<|im_start|>system\nBe kind.<|im_end|>\n");

  Timeline capped;
  ASSERT_TRUE(capped.SetHead({std::string(200, 'x'), {}}, codec_, kRoom).ok());
  capped.AddItem(Message(ChatRole::kUser, "Hi"));
  ASSERT_TRUE(capped.Render(codec_, true, kRoom).ok());
  EXPECT_EQ(capped.pinned(), 64);
}

TEST_F(TimelineTest, PinsFourTokensWithoutASystemMessage) {
  Turn("Hi", "Hello");
  EXPECT_EQ(timeline_.pinned(), 4);
}

TEST_F(TimelineTest, KeepItemsTruncatesTheIds) {
  Turn("Hi", "Hello");
  const SharedList<TokenId> one_turn = timeline_.tokens();
  Turn("Bye", "Ciao");
  timeline_.KeepItems(2);
  EXPECT_TRUE(timeline_.tokens() == one_turn);
  EXPECT_EQ(timeline_.message_starts().back(), timeline_.items()[1].token_begin);
  Turn("Bye", "Addio");
  EXPECT_NE(Text().find("Hello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nAddio"),
            std::string::npos);
}

TEST_F(TimelineTest, RegenerateOpensTheSameAnswer) {
  Turn("Hi", "Hello");
  std::vector<TokenId> prompt = timeline_.tokens().From(0);
  prompt.resize(prompt.size() - 6);  // Hello<|im_end|>
  timeline_.KeepItems(1);
  ASSERT_TRUE(timeline_.Render(codec_, true, kRoom).ok());
  EXPECT_EQ(timeline_.tokens().From(0), prompt);
}

TEST_F(TimelineTest, EmptyAnswerLeavesNoItem) {
  timeline_.AddItem(Message(ChatRole::kUser, "Hi"));
  ASSERT_TRUE(timeline_.Render(codec_, true, kRoom).ok());
  timeline_.CloseAnswer(Message(ChatRole::kAssistant, ""), {}, codec_);
  EXPECT_EQ(timeline_.items().size(), 1U);
  EXPECT_EQ(Text().substr(Text().size() - 13), "Hi<|im_end|>\n");
}

TEST_F(TimelineTest, ChangedInstructionsKeepTheSampledIds) {
  ASSERT_TRUE(timeline_.SetHead({"Be kind.", {}}, codec_, kRoom).ok());
  Turn("Hi", "Hello");
  Turn("Bye", "Ciao");
  Timeline fresh = timeline_;
  EXPECT_FALSE(timeline_.SetHead({"Be kind.", {}}, codec_, kRoom).value());
  EXPECT_TRUE(timeline_.SetHead({"Be brief, please.", {}}, codec_, kRoom).value());
  EXPECT_EQ(Text(),
            "<|im_start|>system\nBe brief, please.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
            "Hello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nCiao<|im_end|>");
  for (const Item& item : timeline_.items()) {
    EXPECT_EQ(timeline_.tokens()[static_cast<size_t>(item.token_begin)], ByteTokenizer::kImStart);
  }
  timeline_.KeepItems(2);
  fresh.KeepItems(2);
  EXPECT_EQ(timeline_.tokens().size(), fresh.tokens().size() + 9);
}

TEST_F(TimelineTest, RefusesOverlongInputWithoutChanges) {
  Turn("Hi", "Hello");
  const Timeline before = timeline_;
  timeline_.AddItem(Message(ChatRole::kUser, "Bye"));
  const Timeline added = timeline_;
  ASSERT_TRUE(timeline_.Render(codec_, true, kRoom).ok());
  const auto tokens = static_cast<int64_t>(timeline_.tokens().size());
  for (const int64_t room : {int64_t{-1}, int64_t{0}, static_cast<int64_t>(before.tokens().size()), tokens - 1}) {
    timeline_ = added;
    const Status status = timeline_.Render(codec_, true, room);
    EXPECT_EQ(status.reason(), "context_length_exceeded") << room;
    EXPECT_TRUE(timeline_.tokens() == before.tokens());
    EXPECT_TRUE(timeline_.items() == added.items());
  }
  EXPECT_TRUE(timeline_.Render(codec_, true, tokens).ok());
  Timeline instructed = before;
  EXPECT_EQ(instructed.SetHead({std::string(100, 'x'), {}}, codec_, 90).status().reason(), "context_length_exceeded");
}

TEST_F(TimelineTest, MarkupInAMessageIsText) {
  Turn("<|im_end|>", "x");
  EXPECT_EQ(std::count(timeline_.tokens().begin(), timeline_.tokens().end(), ByteTokenizer::kImEnd),
            std::count(timeline_.tokens().begin(), timeline_.tokens().end(), ByteTokenizer::kImStart));
}

TEST_F(TimelineTest, KeepingNothingStartsOver) {
  Turn("Hi", "Hello");
  timeline_.KeepItems(0);
  EXPECT_TRUE(timeline_.tokens().empty());
  EXPECT_EQ(timeline_.pinned(), 0);
  Turn("Hi", "Hello");
  EXPECT_EQ(timeline_.pinned(), 4);
}

// Items before the first sampled answer have no ids: code must not run past them.
TEST_F(TimelineTest, ChangedInstructionsLeaveItemsWithoutIds) {
  ASSERT_TRUE(timeline_.SetHead({"Be kind.", {}}, codec_, kRoom).ok());
  ASSERT_TRUE(timeline_.Render(codec_, false, kRoom).ok());
  timeline_.AddItem(Message(ChatRole::kUser, "Hi"));
  Item answer = Message(ChatRole::kAssistant, "Hello");
  answer.sampled = true;
  timeline_.AddItem(answer);
  EXPECT_TRUE(timeline_.SetHead({"Be brief.", {}}, codec_, kRoom).value());
  ASSERT_TRUE(timeline_.Render(codec_, false, kRoom).ok());
  EXPECT_EQ(Text(),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
            "Hello<|im_end|>\n");
}

TEST_F(TimelineTest, ContinuedAnswerIsOneItem) {
  Turn("Hi", "Hel", true);
  const Item cut = timeline_.items().back();
  Timeline base = timeline_;
  timeline_.ReopenAnswer();
  // The same through the journal's patch.
  ASSERT_TRUE(base.Apply(timeline_.PatchFrom(base), tokenizer_.vocab_size()).ok());
  for (Timeline* next : {&timeline_, &base}) {
    EXPECT_EQ(next->items().size(), 1U);
    std::vector<TokenId> ids = Bytes("lo");
    ids.push_back(ByteTokenizer::kImEnd);
    next->CloseAnswer(Message(ChatRole::kAssistant, "lo"), ids, codec_);
    ASSERT_EQ(next->items().size(), 2U);
    EXPECT_EQ(next->items().back().text, "Hello");
    EXPECT_EQ(next->items().back().id, cut.id);
    EXPECT_EQ(next->items().back().token_begin, cut.token_begin);
    EXPECT_EQ(tokenizer_.Decode(next->tokens().From(static_cast<size_t>(cut.token_begin))),
              "<|im_start|>assistant\nHello<|im_end|>");
  }
}

TEST_F(TimelineTest, AnswerCutAfterAnIgnoredEndContinues) {
  timeline_.AddItem(Message(ChatRole::kUser, "Hi"));
  ASSERT_TRUE(timeline_.Render(codec_, true, kRoom).ok());
  std::vector<TokenId> ids = Bytes("Hel");
  ids.push_back(ByteTokenizer::kImEnd);
  Item cut = Message(ChatRole::kAssistant, "Hel");
  cut.complete = false;
  timeline_.CloseAnswer(cut, ids, codec_);
  Timeline loaded = timeline_;
  ASSERT_TRUE(timeline_.CanReopen());
  timeline_.ReopenAnswer();
  ASSERT_TRUE(loaded.Apply(timeline_.PatchFrom(loaded), tokenizer_.vocab_size()).ok());
  for (Timeline* next : {&timeline_, &loaded}) {
    next->CloseAnswer(Message(ChatRole::kAssistant, "lo"), Bytes("lo"), codec_);
    EXPECT_EQ(next->items().back().text, "Hello");
    EXPECT_EQ(tokenizer_.Decode(next->tokens().From(static_cast<size_t>(next->items().back().token_begin))),
              "<|im_start|>assistant\nHel<|im_end|>lo");
  }
}

TEST_F(TimelineTest, PatchCannotContinueACompleteAnswer) {
  Turn("Hi", "Hel", true);
  Timeline next = timeline_;
  next.ReopenAnswer();
  const TimelinePatch patch = next.PatchFrom(timeline_);
  Timeline whole;
  whole.AddItem(Message(ChatRole::kUser, "Hi"));
  ASSERT_TRUE(whole.Render(codec_, true, kRoom).ok());
  std::vector<TokenId> ids = Bytes("Hel");
  ids.push_back(ByteTokenizer::kImEnd);
  Item answer = Message(ChatRole::kAssistant, "Hel");
  whole.CloseAnswer(answer, ids, codec_);
  EXPECT_EQ(whole.Apply(patch, tokenizer_.vocab_size()).code(), StatusCode::kCorruption);
}

TEST_F(TimelineTest, PatchCannotHaveASampledItemWithoutIds) {
  Turn("Hi", "Hello");
  TimelinePatch patch = timeline_.PatchFrom(Timeline());
  patch.items[1].token_begin = patch.items[1].token_end = -1;
  Timeline other;
  EXPECT_EQ(other.Apply(patch, tokenizer_.vocab_size()).code(), StatusCode::kCorruption);
  patch.items[1].sampled = false;
  EXPECT_TRUE(other.Apply(patch, tokenizer_.vocab_size()).ok());
}

class SpliceTest : public TimelineTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(timeline_.SetHead({"Be kind.", {}}, codec_, kRoom).ok());
    for (const char* word : {"One", "Two", "Three"}) Turn(word, std::string("re ") + word);
  }
  // The result equals a timeline of the same messages in this order.
  void Splice(size_t at, size_t removed, std::vector<Item> added) {
    const Timeline before = timeline_;
    const std::vector<Item> items = before.items().From(0);
    ASSERT_TRUE(timeline_.Splice(at, removed, added, codec_, kRoom).ok());
    Timeline fresh;
    ASSERT_TRUE(fresh.SetHead({"Be kind.", {}}, codec_, kRoom).ok());
    for (const Item& item : timeline_.items()) fresh.AddItem(Message(item.role, item.text));
    ASSERT_TRUE(fresh.Render(codec_, false, kRoom).ok());
    EXPECT_TRUE(tokenizer_.Decode(fresh.tokens().From(0)).starts_with(Text())) << Text();
    EXPECT_EQ(timeline_.message_starts().From(0), fresh.message_starts().From(0));
    EXPECT_EQ(timeline_.pinned(), fresh.pinned());
    for (size_t i = 0; i < timeline_.items().size(); ++i) {
      EXPECT_EQ(timeline_.items()[i].token_begin, fresh.items()[i].token_begin) << i;
    }
    Timeline applied = before;
    ASSERT_TRUE(applied.Apply(timeline_.PatchFrom(before), tokenizer_.vocab_size()).ok());
    EXPECT_EQ(applied.tokens().From(0), timeline_.tokens().From(0));
    EXPECT_EQ(applied.items().From(0), timeline_.items().From(0));
    EXPECT_EQ(applied.bytes(), timeline_.bytes());
    for (int more = 0; more < 2; ++more) Turn("More", "Yes");
  }
};

TEST_F(SpliceTest, RemovesAnyItem) {
  const Timeline whole = timeline_;
  for (size_t at = 0; at < whole.items().size(); ++at) {
    timeline_ = whole;
    Splice(at, 1, {});
    EXPECT_EQ(timeline_.items().size(), whole.items().size() - 1 + 4);
  }
}

TEST_F(SpliceTest, InsertsItemsAnywhere) {
  const Timeline whole = timeline_;
  for (const ChatRole role : {ChatRole::kUser, ChatRole::kAssistant, ChatRole::kSystem}) {
    for (size_t at = 0; at < whole.items().size(); ++at) {
      timeline_ = whole;
      Splice(at, 0, {Message(role, "new"), Message(ChatRole::kUser, "newer")});
    }
  }
}

TEST_F(SpliceTest, ReplacesAnItem) {
  Splice(2, 1, {Message(ChatRole::kUser, "Four")});
  EXPECT_NE(Text().find("Four<|im_end|>\n<|im_start|>assistant\nre Two"), std::string::npos);
}

TEST_F(SpliceTest, PinsTheFirstTokensWithoutInstructions) {
  timeline_ = {};
  for (const char* word : {"One", "Two"}) Turn(word, word);
  ASSERT_TRUE(timeline_.Splice(0, 1, {}, codec_, kRoom).ok());
  EXPECT_EQ(timeline_.pinned(), kPinnedWithoutSystem);
  ASSERT_TRUE(timeline_.Splice(0, 3, {}, codec_, kRoom).ok());
  EXPECT_EQ(timeline_.tokens().size(), 0u);
  Turn("Hi", "Yo");
  EXPECT_TRUE(Text().starts_with("<|im_start|>user\nHi"));
}

// A sampled id that no tokenizer produces for the answer's text.
TEST_F(SpliceTest, KeepsSampledIdsOfLaterAnswers) {
  timeline_.AddItem(Message(ChatRole::kUser, "Odd"));
  ASSERT_TRUE(timeline_.Render(codec_, true, kRoom).ok());
  timeline_.CloseAnswer(Message(ChatRole::kAssistant, "answer"), std::vector<TokenId>{'~'}, codec_);
  const size_t size = timeline_.tokens().size();
  ASSERT_TRUE(timeline_.Splice(1, 1, {}, codec_, kRoom).ok());
  EXPECT_LT(timeline_.tokens().size(), size);
  EXPECT_EQ(timeline_.tokens().back(), TokenId{'~'});
  EXPECT_TRUE(timeline_.items().back().sampled);
}

TEST_F(SpliceTest, RespectsTheLimit) {
  const auto tokens = static_cast<int64_t>(timeline_.tokens().size());
  Timeline next = timeline_;
  EXPECT_EQ(next.Splice(2, 0, {Message(ChatRole::kUser, std::string(100, 'x'))}, codec_, tokens + 99).reason(),
            "context_length_exceeded");
}

}  // namespace
}  // namespace ringside
