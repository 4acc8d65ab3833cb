// Turns whose answers have channels: the scope of each rule, budgets, and continued answers, on the hash network, which
// shows that forced tokens enter the cache like sampled ones.
#include <gtest/gtest.h>

#include "engine/grammar/grammar_cache.h"
#include "engine/text/channels/channel_format.h"
#include "engine/text/channels/continued_answer.h"
#include "tests/engine/hash_engine.h"

namespace ringside {
namespace {

constexpr TokenId kForcedClose = 1;  // "B", which ends reasoning; as 27, 53 and 79 do

class ChannelSink final : public TokenSink {
 public:
  explicit ChannelSink(std::shared_ptr<TokenSink> sink) : sink_(std::move(sink)) {}
  void OnStart(const CacheReport& report) override { sink_->OnStart(report); }
  void OnTokens(const TokenDelta& delta) override {
    EXPECT_LE(delta.reasoning_tokens, std::ssize(delta.tokens));
    EXPECT_TRUE(reasoning_ended_ || !delta.reasoning.empty() || delta.reasoning_ended || delta.text.empty());
    reasoning_ += delta.reasoning;
    reasoning_ended_ |= delta.reasoning_ended;
    reasoning_tokens_ += delta.reasoning_tokens;
    sink_->OnTokens(delta);
  }
  void OnEnd(const TurnEnd& end) override { sink_->OnEnd(end); }

  // Read after the end.
  const std::string& reasoning() const { return reasoning_; }
  bool reasoning_ended() const { return reasoning_ended_; }
  int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  std::shared_ptr<TokenSink> sink_;
  std::string reasoning_;
  bool reasoning_ended_ = false;
  int64_t reasoning_tokens_ = 0;
};

std::string LettersOf(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += static_cast<char>('A' + id % 26);
  return text;
}

class ReasoningTurnsTest : public HashEngineTest {
 protected:
  void SetUp() override { Start({.slots = 4}); }

  static std::shared_ptr<ChannelFormat> Format(ChannelFormat::Start start = ChannelFormat::Start::kReasoning) {
    auto format = std::make_shared<ChannelFormat>();
    format->start = start;
    format->open = start == ChannelFormat::Start::kUndecided ? "A" : "<";
    format->close = "B";
    format->forced_close = "B";
    return format;
  }
  struct Turn {
    SubmittedTurn submitted;
    std::shared_ptr<ChannelSink> channels;
    TurnEnd end;
    std::string text() const { return submitted.sink->text(); }
  };
  Turn Prepare(uint32_t seed, int64_t max_tokens, std::vector<TokenId> tokens = {}) {
    if (tokens.empty()) tokens = Tokens(20, seed);
    Turn turn{GreedyTurn(next_turn_, next_turn_, std::move(tokens), {}, kWindow, max_tokens), nullptr, {}};
    ++next_turn_;
    turn.channels = std::make_shared<ChannelSink>(turn.submitted.sink);
    turn.submitted.request.sink = turn.channels;
    turn.submitted.request.channels = Format();
    return turn;
  }
  void Run(Turn* turn) {
    Submit(turn->submitted);
    turn->end = turn->submitted.sink->Wait();
  }
  /// A prompt after which reasoning takes at least 12 tokens and at most 40.
  uint32_t LongSeed() {
    for (uint32_t seed = 1;; ++seed) {
      Turn turn = Prepare(seed, 60);
      Run(&turn);
      const size_t close = LettersOf(turn.end.output).find('B');
      if (close != std::string::npos && close >= 12 && close <= 40) return seed;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(All, ReasoningTurnsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(ReasoningTurnsTest, SeparatesChannels) {
  Turn turn = Prepare(LongSeed(), 60);
  Run(&turn);
  ExpectRight(turn.submitted, turn.end);
  const std::string all = LettersOf(turn.end.output);
  const size_t close = all.find('B');
  EXPECT_EQ(turn.channels->reasoning(), all.substr(0, close));
  EXPECT_EQ(turn.text(), all.substr(close + 1));
  EXPECT_TRUE(turn.channels->reasoning_ended());
  EXPECT_EQ(turn.end.reasoning_tokens, static_cast<int64_t>(close + 1));
  EXPECT_EQ(turn.channels->reasoning_tokens(), turn.end.reasoning_tokens);
  EXPECT_FALSE(turn.end.cut_in_reasoning);
  EXPECT_EQ(turn.end.reason, FinishReason::kLength) << "max_tokens counts reasoning";
  EXPECT_EQ(turn.end.output.size(), 60u);
}

TEST_P(ReasoningTurnsTest, AnswerTruncatedInReasoningReportsIt) {
  Turn turn = Prepare(LongSeed(), 5);
  Run(&turn);
  EXPECT_TRUE(turn.end.cut_in_reasoning);
  EXPECT_FALSE(turn.channels->reasoning_ended());
  EXPECT_EQ(turn.channels->reasoning(), LettersOf(turn.end.output));
  EXPECT_EQ(turn.text(), "");
  EXPECT_EQ(turn.end.reasoning_tokens, 5);
}

TEST_P(ReasoningTurnsTest, BudgetEndsReasoningAndTheAnswerFollows) {
  const uint32_t seed = LongSeed();
  for (const int64_t budget : {0, 1, 7, 11}) {
    Turn turn = Prepare(seed, 30);
    turn.submitted.request.reasoning_budget = budget;
    Run(&turn);
    ASSERT_EQ(turn.end.output.size(), 30u);
    EXPECT_EQ(turn.end.output[static_cast<size_t>(budget)], kForcedClose);
    EXPECT_EQ(turn.end.reasoning_tokens, budget + 1);
    EXPECT_EQ(turn.channels->reasoning(), LettersOf(turn.end.output).substr(0, static_cast<size_t>(budget)));
    EXPECT_EQ(turn.text(), LettersOf(turn.end.output).substr(static_cast<size_t>(budget) + 1));
    std::vector<TokenId> tokens = turn.submitted.request.tokens;
    for (size_t i = 0; i < turn.end.output.size(); ++i) {
      if (i != static_cast<size_t>(budget)) {
        ASSERT_EQ(turn.end.output[i], HashNetwork::Expected(tokens, {}, kWindow)) << i;
      }
      tokens.push_back(turn.end.output[i]);
    }
  }
}

TEST_P(ReasoningTurnsTest, UnusedBudgetChangesNothing) {
  const uint32_t seed = LongSeed();
  Turn free = Prepare(seed, 50), limited = Prepare(seed, 50);
  limited.submitted.request.reasoning_budget = 45;
  Run(&free);
  Run(&limited);
  EXPECT_EQ(free.end.output, limited.end.output);
}

TEST_P(ReasoningTurnsTest, StopStringsMatchInTheAnswerOnly) {
  const uint32_t seed = LongSeed();
  Turn whole = Prepare(seed, 60);
  Run(&whole);
  const std::string all = LettersOf(whole.end.output);
  Turn turn = Prepare(seed, 60);
  turn.submitted.request.stop_strings = {all.substr(2, 2), whole.text().substr(3, 2)};
  Run(&turn);
  EXPECT_EQ(turn.channels->reasoning(), whole.channels->reasoning());
  EXPECT_LE(turn.text().size(), 3u);
  EXPECT_EQ(turn.end.reason, FinishReason::kStop);
}

TEST_P(ReasoningTurnsTest, PenaltiesAndBadWordsApplyToTheAnswerOnly) {
  const uint32_t seed = LongSeed();
  Turn whole = Prepare(seed, 60);
  Run(&whole);
  const size_t close = LettersOf(whole.end.output).find('B');
  Turn turn = Prepare(seed, 60);
  SamplingParams& sampling = turn.submitted.request.sampling;
  sampling.presence_penalty = 2;
  sampling.repetition_penalty = 1.5;
  for (const TokenId id : whole.end.output) sampling.bad_words.push_back({id});
  Run(&turn);
  ASSERT_GT(turn.end.output.size(), close + 2) << turn.end.error.ToString();
  for (size_t i = 0; i <= close; ++i) ASSERT_EQ(turn.end.output[i], whole.end.output[i]) << i;
  EXPECT_NE(turn.end.output[close + 1], whole.end.output[close + 1]);
}

TEST_P(ReasoningTurnsTest, GrammarAppliesToTheAnswerOnly) {
  GrammarCache grammars(tokenizer_);
  Turn turn = Prepare(LongSeed(), 100);
  turn.submitted.request.grammar = *grammars.Get({.kind = AnswerFormat::Kind::kRegex, .text = "(XYZ|QR){2}"});
  turn.submitted.request.stop_ids = {90};
  Run(&turn);
  EXPECT_EQ(turn.end.reason, FinishReason::kStop) << turn.end.error.ToString();
  GrammarMatcher matcher(turn.submitted.request.grammar);
  EXPECT_TRUE(matcher.Append(turn.text()).ok() && matcher.may_end()) << turn.text();
  EXPECT_GE(turn.channels->reasoning().size(), 12u);
  EXPECT_EQ(turn.channels->reasoning() + "B" + turn.text(), LettersOf(turn.end.output));
}

TEST_P(ReasoningTurnsTest, GrammarAndBudgetCombine) {
  GrammarCache grammars(tokenizer_);
  Turn turn = Prepare(LongSeed(), 100);
  turn.submitted.request.grammar = *grammars.Get({.kind = AnswerFormat::Kind::kRegex, .text = "XYZ"});
  turn.submitted.request.reasoning_budget = 3;
  auto format = Format();
  format->forced_close = "BC";  // the rest after the marker is markup, too
  format->answer_open = "C";
  turn.submitted.request.channels = format;
  Run(&turn);
  EXPECT_EQ(turn.text(), "XYZ");
  EXPECT_EQ(LettersOf(turn.end.output).substr(3), "BCXYZ");
  EXPECT_EQ(turn.end.reason, FinishReason::kStop) << turn.end.error.ToString();
}

TEST_P(ReasoningTurnsTest, ReasoningIsOptionalUnderAGrammar) {
  GrammarCache grammars(tokenizer_);
  for (uint32_t seed = 1; seed < 12; ++seed) {
    Turn turn = Prepare(seed, 300);
    turn.submitted.request.channels = Format(ChannelFormat::Start::kUndecided);
    turn.submitted.request.grammar = *grammars.Get({.kind = AnswerFormat::Kind::kRegex, .text = "XYZ"});
    Run(&turn);
    ASSERT_EQ(turn.end.reason, FinishReason::kStop) << turn.end.error.ToString();
    EXPECT_EQ(turn.text(), "XYZ");
    const bool reasoned = turn.end.output.front() % 26 == 0;
    EXPECT_EQ(reasoned, turn.end.reasoning_tokens > 0);
  }
}

TEST_P(ReasoningTurnsTest, PermissiveGrammarLeavesReasoningOptional) {
  GrammarCache grammars(tokenizer_);
  for (uint32_t seed = 1; seed < 20; ++seed) {
    Turn plain = Prepare(seed, 40), free = Prepare(seed, 40), turn = Prepare(seed, 40);
    plain.submitted.request.channels = nullptr;
    plain.submitted.request.sink = plain.submitted.sink;
    Run(&plain);
    // A marker of two tokens, with which the answer begins, or whose beginning it shares.
    const bool reasons = seed % 2 == 0;
    const std::string begin = plain.text().substr(0, 2);
    auto format = Format(ChannelFormat::Start::kUndecided);
    format->open = reasons ? begin : begin.substr(0, 1) + (begin[1] == 'A' ? 'C' : 'A');
    free.submitted.request.channels = turn.submitted.request.channels = format;
    turn.submitted.request.grammar = *grammars.Get({.kind = AnswerFormat::Kind::kRegex, .text = "[A-Z]*"});
    Run(&free);
    Run(&turn);
    EXPECT_EQ(turn.end.output, plain.end.output);
    EXPECT_EQ(free.end.output, plain.end.output);
    EXPECT_EQ(turn.channels->reasoning(), free.channels->reasoning());
    EXPECT_EQ(turn.text(), free.text());
    EXPECT_EQ(reasons, turn.end.reasoning_tokens > 0) << format->open << ' ' << plain.text();
    EXPECT_EQ(turn.channels->reasoning_tokens(), turn.end.reasoning_tokens);
    EXPECT_EQ(turn.submitted.sink->ids(), turn.end.output) << "each token is sent once";
  }
}

TEST_P(ReasoningTurnsTest, AnswerTruncatedInReasoningContinuesInIt) {
  const uint32_t seed = LongSeed();
  Turn whole = Prepare(seed, 40);
  whole.submitted.request.reasoning_budget = 9;
  Run(&whole);
  for (const size_t cut : {size_t{1}, size_t{5}, size_t{9}, size_t{10}, size_t{14}}) {
    std::vector<TokenId> tokens = whole.submitted.request.tokens;
    const std::vector<TokenId> begun(whole.end.output.begin(), whole.end.output.begin() + static_cast<ptrdiff_t>(cut));
    tokens.insert(tokens.end(), begun.begin(), begun.end());
    Turn turn = Prepare(0, static_cast<int64_t>(40 - cut), tokens);
    turn.submitted.request.continues_answer = true;
    turn.submitted.request.begun_ids = begun;
    turn.submitted.request.reasoning_budget = 9;
    Run(&turn);
    std::vector<TokenId> all = begun;
    all.insert(all.end(), turn.end.output.begin(), turn.end.output.end());
    EXPECT_EQ(all, whole.end.output) << cut;
    EXPECT_EQ(LettersOf(all).substr(std::min<size_t>(cut, 9), 9 - std::min<size_t>(cut, 9)),
              turn.channels->reasoning());
  }
}

TEST_P(ReasoningTurnsTest, BeamsSupportChannels) {
  size_t answered = 0;
  for (uint32_t seed = 1; seed < 12; ++seed) {
    Turn turn = Prepare(seed, 30);
    turn.submitted.request.sampling.beams.width = 2;
    turn.submitted.request.stop_strings = {"Z"};
    turn.submitted.request.reasoning_budget = 3;  // beams have none
    Run(&turn);
    const std::string all = LettersOf(turn.end.output);
    const size_t close = all.find('B');
    EXPECT_EQ(turn.channels->reasoning(), all.substr(0, close));
    EXPECT_EQ(turn.end.cut_in_reasoning, close == std::string::npos);
    if (close == std::string::npos) continue;
    EXPECT_EQ(turn.text(), all.substr(close + 1, all.find('Z', close) - close - 1));
    ++answered;
  }
  EXPECT_GT(answered, 0u);
}

TEST_P(ReasoningTurnsTest, PreemptedTurnsResumeInTheirChannel) {
  std::vector<Turn> alone, together;
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    for (std::vector<Turn>* turns : {&alone, &together}) {
      turns->push_back(Prepare(seed, 200));
      turns->back().submitted.request.reasoning_budget = seed % 2 == 0 ? 40 : -1;
    }
  }
  for (Turn& turn : alone) Run(&turn);
  engine_.reset();
  Start({.slots = 4, .kv_bytes = 6 * 4096});
  for (Turn& turn : together) Submit(turn.submitted);
  for (size_t i = 0; i < alone.size(); ++i) {
    together[i].end = together[i].submitted.sink->Wait();
    EXPECT_EQ(together[i].end.reason, FinishReason::kLength) << together[i].end.error.ToString();
    EXPECT_EQ(together[i].end.output, alone[i].end.output);
    EXPECT_EQ(together[i].channels->reasoning(), alone[i].channels->reasoning());
    EXPECT_EQ(together[i].text(), alone[i].text());
  }
}

TEST_P(ReasoningTurnsTest, TurnsWithChannelsShareSteps) {
  std::vector<Turn> alone, together;
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    for (std::vector<Turn>* turns : {&alone, &together}) {
      turns->push_back(Prepare(seed, 40));
      turns->back().submitted.request.reasoning_budget = seed % 2 == 0 ? 4 : -1;
    }
  }
  for (Turn& turn : alone) Run(&turn);
  for (Turn& turn : together) Submit(turn.submitted);
  for (size_t i = 0; i < alone.size(); ++i) {
    together[i].end = together[i].submitted.sink->Wait();
    EXPECT_EQ(together[i].end.output, alone[i].end.output);
    EXPECT_EQ(together[i].channels->reasoning(), alone[i].channels->reasoning());
    EXPECT_EQ(together[i].text(), alone[i].text());
  }
}

}  // namespace
}  // namespace ringside
