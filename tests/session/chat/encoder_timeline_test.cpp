// A conversation with an encoder-decoder model: every turn encodes it again, and the answer follows in the decoder.
#include <gtest/gtest.h>

#include "session/chat/timeline/timeline.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

constexpr int64_t kEncoderRoom = 1 << 20;  // tokens
constexpr TokenId kStart = ByteTokenizer::kImStart, kEnd = ByteTokenizer::kImEnd;

class EncoderTimelineTest : public ::testing::Test {
 protected:
  Status Ask(const std::string& text) {
    Item item;
    item.text = text;
    timeline_.AddItem(std::move(item));
    return timeline_.Render(codec_, true, kEncoderRoom);
  }
  void Answer(const std::string& text, bool cut = false) {
    std::vector<TokenId> ids = Bytes(text);
    if (!cut) ids.push_back(kEnd);
    Item item;
    item.text = text;
    item.complete = !cut;
    timeline_.CloseAnswer(std::move(item), ids, codec_);
  }
  /// The encoder's input, and the decoder tokens after it.
  std::pair<std::string, std::string> Parts() const {
    const std::vector<TokenId> tokens = timeline_.tokens().From(0);
    const auto border = tokens.begin() + timeline_.pinned();
    return {tokenizer_.Decode({tokens.begin(), border}), tokenizer_.Decode({border, tokens.end()})};
  }
  using Two = std::pair<std::string, std::string>;

  ByteTokenizer tokenizer_;
  ChatTemplate chat_ = std::move(ChatTemplate::ForEncoder("", {"", "<|im_end|>"}).value());
  Codec codec_{tokenizer_, chat_, 40, EncoderTokens{kEnd, kStart}};
  Timeline timeline_;
};

TEST_F(EncoderTimelineTest, InputIsTheWholeConversation) {
  ASSERT_TRUE(Ask("Hi").ok());
  EXPECT_EQ(Parts(), Two("Hi<|im_end|>", "<|im_start|>"));
  Answer("Hello");
  EXPECT_EQ(Parts(), Two("Hi<|im_end|>", "<|im_start|>Hello<|im_end|>"));
  ASSERT_TRUE(Ask("Bye").ok());
  EXPECT_EQ(Parts(), Two("Hi\nHello\nBye<|im_end|>", "<|im_start|>"));
  Answer("Ciao");
  EXPECT_EQ(timeline_.items().size(), 4U);
}

TEST_F(EncoderTimelineTest, TruncatedAnswerContinuesAfterTheSameInput) {
  ASSERT_TRUE(Ask("Hi").ok());
  Answer("Hel", /*cut=*/true);
  ASSERT_TRUE(timeline_.CanReopen());
  timeline_.ReopenAnswer();
  EXPECT_EQ(Parts(), Two("Hi<|im_end|>", "<|im_start|>Hel"));
  Answer("lo");
  EXPECT_EQ(std::string(timeline_.items()[1].text), "Hello");
  EXPECT_EQ(Parts(), Two("Hi<|im_end|>", "<|im_start|>Hello<|im_end|>"));
}

TEST_F(EncoderTimelineTest, DropsTheOldestHistoryFirst) {
  for (const char* text : {"0123456789", "abcdefghij", "klmnopqrst"}) {
    ASSERT_TRUE(Ask(text).ok());
    EXPECT_EQ(timeline_.left_out(), text[0] == 'k' ? 1 : 0) << text;
    Answer("yes");
  }
  ASSERT_TRUE(Ask("last").ok());
  EXPECT_EQ(timeline_.left_out(), 1);
  EXPECT_EQ(Parts().first, "yes\nabcdefghij\nyes\nklmnopqrst\nyes\nlast<|im_end|>");
  const Timeline before = timeline_;
  Answer("x");
  EXPECT_EQ(timeline_.left_out(), 1);
  Timeline applied = before;
  ASSERT_TRUE(applied.Apply(timeline_.PatchFrom(before), tokenizer_.vocab_size()).ok()) << "it can be stored";
  EXPECT_TRUE(applied.tokens() == timeline_.tokens());
  const Status refused = Ask(std::string(40, 'x'));
  EXPECT_EQ(refused.reason(), "context_length_exceeded");
  EXPECT_NE(refused.message().find("40"), std::string::npos) << refused.message();
}

// Only the end of an overlong message is read, after the tokens that precede all messages; if not even one token
// fits, the message is refused as usual.
TEST_F(EncoderTimelineTest, TruncatesAnOverlongMessageAtItsStartOnRequest) {
  ASSERT_TRUE(Ask("Hi").ok());
  Answer("Hello");
  Timeline other = timeline_;
  const std::string text = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const auto ask = [&](Timeline& timeline) {
    Item item;
    item.text = text;
    timeline.AddItem(std::move(item));
    return timeline.Render(codec_, true, kEncoderRoom, /*cuts=*/true);
  };
  ASSERT_TRUE(ask(timeline_).ok());
  EXPECT_EQ(Parts(), Two(text.substr(text.size() - 39) + "<|im_end|>", "<|im_start|>"));
  EXPECT_EQ(timeline_.left_out(), 3) << "two, and the beginning of one";
  Answer("yes");
  EXPECT_EQ(std::string(timeline_.items()[2].text), text);
  ASSERT_TRUE(Ask("short").ok());
  EXPECT_EQ(Parts().first, "yes\nshort<|im_end|>");
  EXPECT_EQ(timeline_.left_out(), 3) << "the long one is left out as a whole";

  timeline_ = other;
  ASSERT_TRUE(timeline_.SetHead({"Be kind.", {}}, codec_, kEncoderRoom).ok());
  ASSERT_TRUE(ask(timeline_).ok());
  EXPECT_EQ(Parts().first, "Be kind.\n" + text.substr(text.size() - 30) + "<|im_end|>");
  timeline_ = other;
  ASSERT_TRUE(timeline_.SetHead({std::string(50, 'k'), {}}, codec_, kEncoderRoom).ok());
  EXPECT_EQ(ask(timeline_).reason(), "context_length_exceeded");

  timeline_ = Timeline();
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "\u00e4";
  Item item;
  item.text = umlauts;
  timeline_.AddItem(std::move(item));
  ASSERT_TRUE(timeline_.Render(codec_, true, kEncoderRoom, /*cuts=*/true).ok());
  EXPECT_EQ(Parts().first, umlauts.substr(0, 38) + "<|im_end|>") << "of whole characters";

  const std::vector<TokenId> prompt = Bytes(text);
  EXPECT_EQ(Timeline::OfPrompt(prompt, codec_).status().reason(), "context_length_exceeded");
  timeline_ = Timeline::OfPrompt(prompt, codec_, /*cuts=*/true).value();
  EXPECT_EQ(Parts(), Two(text.substr(text.size() - 39) + "<|im_end|>", "<|im_start|>"));
}

TEST_F(EncoderTimelineTest, InstructionsPrecedeTheKeptHistory) {
  ASSERT_TRUE(timeline_.SetHead({"Be kind.", {}}, codec_, kEncoderRoom).ok());
  ASSERT_TRUE(Ask("0123456789").ok());
  Answer("0123456789");
  ASSERT_TRUE(Ask("now then!").ok());
  EXPECT_EQ(Parts().first, "Be kind.\n0123456789\nnow then!<|im_end|>");
}

TEST_F(EncoderTimelineTest, LongHistoriesAreNotReadEntirely) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(Ask(std::string(39, 'x')).ok());
    Answer(std::string(100'000, 'y'));
  }
  ASSERT_TRUE(Ask("end").ok());
  EXPECT_EQ(Parts().first, "end<|im_end|>");
}

// Messages with equal text are kept apart.
TEST_F(EncoderTimelineTest, ItemPositionsMatchTheirTexts) {
  ASSERT_TRUE(Ask("Hi").ok());
  Answer("Hi");
  ASSERT_TRUE(Ask("Hi").ok());
  std::vector<std::pair<int64_t, int64_t>> places;
  for (const Item& item : timeline_.items()) places.emplace_back(item.token_begin, item.token_end);
  EXPECT_EQ(places, (std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {2, 5}, {5, 9}}));
}

TEST_F(EncoderTimelineTest, RefusesToolsByName) {
  ASSERT_TRUE(timeline_.SetHead({{}, SharedText("{\"name\":\"f\"}")}, codec_, kEncoderRoom).ok());
  const Status refused = Ask("Hi");
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("tools"), std::string::npos) << refused.message();
}

TEST_F(EncoderTimelineTest, RawPromptIsTheInput) {
  timeline_ = std::move(Timeline::OfPrompt(Bytes("translate"), codec_).value());
  EXPECT_EQ(Parts(), Two("translate<|im_end|>", "<|im_start|>"));
  Answer("ja");
  EXPECT_EQ(Parts(), Two("translate<|im_end|>", "<|im_start|>ja<|im_end|>"));
  EXPECT_EQ(Timeline::OfPrompt(Bytes(std::string(40, 'x')), codec_).status().reason(), "context_length_exceeded");
}

}  // namespace
}  // namespace ringside
