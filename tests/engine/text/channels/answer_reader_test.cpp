// Ids to channels: special tokens without text still act as markers, and only the right ones end the answer.
#include "engine/text/channels/answer_reader.h"

#include <gtest/gtest.h>

#include "engine/text/channels/channel_families.h"
#include "engine/text/channels/continued_answer.h"
#include "engine/text/tokenizer_facts.h"

namespace ringside {
namespace {

class AnswerReaderTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Tokenizer> Make() {
    TokenizerData data = DummyTokenizer(256);
    data.types.resize(data.tokens.size(), TokenizerData::TokenType::kNormal);
    for (const char* name :
         {"<|channel|>", "<|start|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>", "[THINK]", "[/THINK]"}) {
      data.tokens.emplace_back(name);
      data.types.push_back(TokenizerData::TokenType::kControl);
    }
    return std::move(*MakeTokenizer(std::move(data)));
  }
  std::vector<TokenId> Ids(const std::string& text) const {
    const TextPiece piece{text, true};
    return tokenizer_->EncodeAll({&piece, 1});
  }
  std::vector<TokenId> Ends() const {
    return {*tokenizer_->FindSpecial("<|end|>"), *tokenizer_->FindSpecial("<|return|>"),
            *tokenizer_->FindSpecial("<|call|>")};
  }
  AnswerReader Reader(const char* family, const char* prompt, std::vector<std::string> stops = {}) const {
    ChannelFormat format = FormatAfter(*FamilyByName(family), prompt);
    format.call_open = "<call ";
    format.call_arguments = ">";
    format.call_close = "</call>";
    return {*tokenizer_, true, std::make_shared<const ChannelFormat>(format), StopRule(std::move(stops), Ends())};
  }
  struct Told {
    std::string reasoning, text;
    bool stop = false;
    int64_t reasoning_tokens = 0;
    size_t taken = 0;
  };
  static Told Read(AnswerReader reader, const std::vector<TokenId>& ids) {
    Told told;
    for (const TokenId id : ids) {
      const AnswerReader::Step step = reader.Push(id);
      ++told.taken;
      told.reasoning += step.reasoning;
      told.text += step.text;
      told.reasoning_tokens += step.reasoning_token ? 1 : 0;
      if ((told.stop = step.stop)) return told;
    }
    const AnswerReader::Step step = reader.Finish();
    told.reasoning += step.reasoning;
    told.text += step.text;
    return told;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = Make();
};

const std::string kAnalysis = "<|channel|>analysis<|message|>Thinking<|end|>";
const std::string kFinal = "<|start|>assistant<|channel|>final<|message|>";

TEST_F(AnswerReaderTest, EndOfAnalysisDoesNotEndTheTurn) {
  for (const std::string end : {"<|return|>", "<|end|>"}) {
    const Told told = Read(Reader("harmony", "<|start|>assistant"), Ids(kAnalysis + kFinal + "Paris" + end + "more"));
    EXPECT_EQ(told.reasoning, "Thinking");
    EXPECT_EQ(told.text, "Paris");
    EXPECT_TRUE(told.stop);
    EXPECT_EQ(told.reasoning_tokens, static_cast<int64_t>(Ids(kAnalysis + kFinal).size()));
  }
}

TEST_F(AnswerReaderTest, ToolCallEndsTheTurnComplete) {
  const Told told =
      Read(Reader("harmony", "<|start|>assistant"),
           Ids(kAnalysis + "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>x"));
  EXPECT_EQ(told.text, "<call f>{}</call>");
  EXPECT_TRUE(told.stop);
}

TEST_F(AnswerReaderTest, ReportsWhenTheAnswerHasBegun) {
  AnswerReader reader = Reader("harmony", "<|start|>assistant");
  for (const TokenId id : Ids(kAnalysis)) (void)reader.Push(id);
  EXPECT_FALSE(reader.answer_begun());
  for (const TokenId id : Ids(kFinal + "<|return|>")) (void)reader.Push(id);
  EXPECT_TRUE(reader.answer_begun());
  EXPECT_FALSE(reader.in_answer());
}

TEST_F(AnswerReaderTest, StopStringsApplyToTheAnswerOnly) {
  const Told told = Read(Reader("mistral", "", {"in"}), Ids("[THINK]Thinking[/THINK]Pa in"));
  EXPECT_EQ(told.reasoning, "Thinking");
  EXPECT_EQ(told.text, "Pa ");
  EXPECT_TRUE(told.stop);
}

TEST_F(AnswerReaderTest, IncompleteCharacterEndsBeforeAMarker) {
  std::vector<TokenId> ids = Ids("[THINK]a");
  ids.push_back(0xc3);
  for (const TokenId id : Ids("[/THINK]b")) ids.push_back(id);
  const Told told = Read(Reader("mistral", ""), ids);
  EXPECT_EQ(told.reasoning, "a\uFFFD");
  EXPECT_EQ(told.text, "b");
}

TEST_F(AnswerReaderTest, ContinuedAnswerResumesItsParserState) {
  const std::pair<const char*, std::string> cases[] = {
      {"harmony", "<|start|>assistant" + kAnalysis + kFinal + "Paris is"},
      {"mistral", "[THINK]Thinking a lot[/THINK]Paris is"},
      {"mistral", "Paris is"},
  };
  for (const auto& [family, message] : cases) {
    const std::vector<TokenId> ids = Ids(message);
    const size_t prompt = family == std::string("harmony") ? Ids("<|start|>assistant").size() : 0;
    const Told whole =
        Read(Reader(family, "<|start|>assistant"), {ids.begin() + static_cast<ptrdiff_t>(prompt), ids.end()});
    for (size_t cut = prompt; cut <= ids.size(); ++cut) {
      const auto at = ids.begin() + static_cast<ptrdiff_t>(cut);
      const Told before = Read(Reader(family, ""), {ids.begin() + static_cast<ptrdiff_t>(prompt), at});
      const ContinuedAnswer continued =
          ContinueAnswer(FormatAfter(*FamilyByName(family), ""), {ids.begin(), at}, !before.text.empty(), *tokenizer_);
      AnswerReader reader(*tokenizer_, false, continued.channels, StopRule({}, Ends()));
      (void)reader.Replay(continued.begun);
      const Told after = Read(reader, {at, ids.end()});
      ASSERT_EQ(before.reasoning + after.reasoning, whole.reasoning) << message << ' ' << cut;
      ASSERT_EQ(before.text + after.text, whole.text) << message << ' ' << cut;
    }
  }
}

TEST_F(AnswerReaderTest, MessageVocabularyHasMessageEnds) {
  TokenizerData data = DummyTokenizer(256);
  const auto first = static_cast<TokenId>(data.tokens.size());
  for (const char* name : {"<|return|>", "<|call|>", "<|end|>", "<|start|>"}) data.tokens.emplace_back(name);
  data.types.resize(data.tokens.size(), TokenizerData::TokenType::kNormal);
  CompleteSpecialTokens(&data);
  EXPECT_EQ(data.end_of_turn, (std::vector<TokenId>{first, first + 1, first + 2}));
}

TEST_F(AnswerReaderTest, WithoutChannelsItDetokenizesAndStops) {
  AnswerReader reader(*tokenizer_, true, nullptr, StopRule({"x"}, Ends()));
  EXPECT_TRUE(reader.in_answer());
  const Told told = Read(reader, Ids(kAnalysis));
  EXPECT_EQ(told.text, "analysisThinking");
  EXPECT_TRUE(told.stop);
  EXPECT_EQ(told.reasoning_tokens, 0);
}

}  // namespace
}  // namespace ringside
