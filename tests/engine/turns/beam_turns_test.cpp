// Turns with beams: they find the reference implementation's results, the conversation continues as if the result had
// been the prompt, and its history is never copied.
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "engine/grammar/grammar_cache.h"
#include "tests/engine/counting_backend.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"
#include "tests/engine/model/model_run.h"
#include "tests/engine/tiers/tiers_harness.h"
#include "tests/engine/turns/acting_sink.h"
#include "tests/golden_folder.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

/// On devices that compute a row with the same bits in every batch.
class BeamTurnsTest : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr RingWindow kWindow{4, 256, Eviction::kTurn}, kSmallWindow{4, 40, Eviction::kTurn};

  void SetUp() override {
    if (!backend_.has_device()) GTEST_SKIP() << "no " << GetParam() << " here";
  }
  void Load(const std::string& name) {
    engine_.reset();
    auto model = Model::Load(GoldenFolder(name), backend_);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
    tokenizer_ = std::make_unique<LetterTokenizer>(model_->spec().vocab);
  }
  void Start(int64_t slots, int64_t memory_len = kWindow.memory_len, int64_t kv_bytes = 0,
             TieredStore* tiers = nullptr) {
    engine_.reset();
    const EngineOptions options{.slots = slots,
                                .kv_bytes = kv_bytes,
                                .memory_len = memory_len,
                                .pinned_max = 8,
                                .prefill_chunk = 32,
                                .step_tokens = 64,
                                .kv_dtype = backend_.activation_dtype()};
    auto started = Engine::Start(*model_, *tokenizer_, options, {.tiers = tiers, .fetch_deadline_ms = 60'000});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  void TearDown() override {
    engine_.reset();
    model_.reset();
  }

  std::vector<TokenId> Ids(size_t n, uint32_t seed) const { return ScatteredIds(n, model_->spec().vocab, seed); }
  SubmittedTurn Plain(TimelineId timeline, std::vector<TokenId> tokens, int64_t max_tokens = 6,
                      RingWindow window = kWindow) {
    std::vector<int64_t> starts;  // occasional message starts, also beyond the current tokens: equal in every turn
    for (int64_t at = 0; at < 4096; at += 17) starts.push_back(at);
    SubmittedTurn turn = GreedyTurn(++last_turn_, timeline, std::move(tokens), std::move(starts), window, max_tokens);
    turn.request.owner = "conv_" + std::to_string(timeline);
    return turn;
  }
  SubmittedTurn Beams(TimelineId timeline, std::vector<TokenId> tokens, int64_t width = 4, int64_t max_tokens = 20,
                      RingWindow window = kWindow) {
    SubmittedTurn turn = Plain(timeline, std::move(tokens), max_tokens, window);
    turn.request.sampling.beams.width = width;
    turn.request.stop_ids = {7, 11, 30};
    return turn;
  }
  std::vector<TokenId> Run(const SubmittedTurn& turn) {
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    if (!accepted.ok()) return {};
    const TurnEnd end = turn.sink->Wait();
    EXPECT_TRUE(end.reason == FinishReason::kLength || end.reason == FinishReason::kStop) << end.error.ToString();
    return end.output;
  }
  static std::vector<TokenId> Joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  /// Asserts that the timeline continues from its cache like another one that gets all tokens at once, down to the last
  /// bit of the log probabilities. `kept`: required number of reused tokens; -1 = any.
  void ExpectGoesOn(TimelineId timeline, const std::vector<TokenId>& said, int64_t kept, RingWindow window = kWindow) {
    const std::vector<TokenId> all = Joined(said, {5, 6, 7});
    SubmittedTurn continues_answer = Plain(timeline, all, 6, window), once = Plain(timeline + 1000, all, 6, window);
    for (SubmittedTurn* turn : {&continues_answer, &once}) turn->request.sampling.logprobs = 5;
    once.request.tenant = "another's, which shares nothing";
    const std::vector<TokenId> ids = Run(continues_answer);
    if (kept >= 0) {
      EXPECT_EQ(continues_answer.sink->start().tokens_reused, kept);
    }
    EXPECT_EQ(ids, Run(once));
    EXPECT_EQ(once.sink->start().tokens_reused, 0);
    EXPECT_EQ(continues_answer.sink->logprobs(), once.sink->logprobs());
    engine_->Close(timeline + 1000);
  }
  /// Waits until the engine has processed all messages: gauges are published between two polls of its inbox.
  EngineStats Stats() {
    for (int i = 0; i < 3; ++i) {
      std::promise<void> told;
      engine_->Ping([&] { told.set_value(); });
      told.get_future().wait();
    }
    return engine_->stats();
  }
  TurnEnd EndOf(const SubmittedTurn& turn) const {
    EXPECT_TRUE(engine_->Submit(turn.request).ok());
    return turn.sink->Wait();
  }
  void ExpectNothingHeld(int64_t timelines) {
    for (TimelineId timeline = 1; timeline <= static_cast<TimelineId>(timelines); ++timeline) engine_->Close(timeline);
    const EngineStats stats = Stats();
    EXPECT_EQ(stats.slots_used, 0);
    EXPECT_EQ(stats.kv_bytes_used, 0);
  }

  CountingBackend backend_{testing::MakeDevice(GetParam())};
  std::unique_ptr<Model> model_;
  std::unique_ptr<LetterTokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
  TurnId last_turn_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, BeamTurnsTest, ::testing::Values("cpu", "cuda_bf16_fixed"),
                         [](const auto& info) { return info.param; });

BeamParams ParamsOf(const nlohmann::json& search) {
  BeamParams beams{
      .width = search["width"], .length_penalty = search["length_penalty"], .diversity_rate = search["diversity_rate"]};
  using EarlyStopping = BeamParams::EarlyStopping;
  const auto& stopping = search["early_stopping"];
  if (stopping.is_string()) beams.early_stopping = EarlyStopping::kNever;
  if (stopping.is_boolean() && stopping.get<bool>()) beams.early_stopping = EarlyStopping::kYes;
  return beams;
}

void SetProcessors(const nlohmann::json& given, SamplingParams* sampling) {
  sampling->repetition_penalty = given.value("repetition_penalty", 1.0);
  sampling->min_tokens = given.value("min_new_tokens", int64_t{0});
  for (const auto& word : given.value("bad_words_ids", nlohmann::json::array())) {
    sampling->bad_words.push_back(word.get<std::vector<TokenId>>());
  }
  for (const auto& bias : given.value("sequence_bias", nlohmann::json::array())) {
    sampling->logit_bias.emplace_back(bias[0].get<TokenId>(), bias[1].get<float>());
  }
}

TEST_P(BeamTurnsTest, MatchTheReference) {
  if (GetParam() != "cpu") GTEST_SKIP() << "16 bits decide near ties otherwise";
  std::ifstream file(GoldenFolder("beams.json"));
  const auto cases = nlohmann::json::parse(file);
  ASSERT_GE(cases.size(), 60u);
  std::string loaded;
  TimelineId timeline = 0;
  for (const auto& search : cases) {
    if (const std::string name = search["model"]; name != loaded) {
      Load(loaded = name);
      Start(18);
    }
    SubmittedTurn turn = Beams(++timeline, search["prompt"], 2, search["max_tokens"], {0, 64});
    turn.request.sampling.beams = ParamsOf(search);
    if (search.contains("processors")) SetProcessors(search["processors"], &turn.request.sampling);
    turn.request.stop_ids = search["ends"].get<std::vector<TokenId>>();
    std::vector<TokenId> want = search["answer"];
    EXPECT_EQ(Run(turn), want) << search;
    const TurnEnd end = turn.sink->Wait();
    const bool ended = std::ranges::count(turn.request.stop_ids, want.back()) > 0;
    EXPECT_EQ(end.reason, ended ? FinishReason::kStop : FinishReason::kLength) << search;
    if (ended) want.pop_back();
    EXPECT_EQ(turn.sink->ids(), want) << search;
  }
}

TEST_P(BeamTurnsTest, CountsEveryRow) {
  Load("llama");
  Start(8);
  constexpr int64_t kPrompt = 30, kWidth = 4, kTokens = 12;
  const TurnEnd plain = EndOf(Plain(1, Ids(kPrompt, 1), kTokens));
  EXPECT_GE(plain.rows_computed, kPrompt + kTokens - 1);
  EXPECT_LE(plain.rows_computed, kPrompt + kTokens) << "the last token may have been fed ahead";
  SubmittedTurn beams = Beams(2, Ids(kPrompt, 2), kWidth, kTokens);
  beams.request.stop_ids = {};
  // All beams are computed in every step but the first, whose logits are the prompt's.
  EXPECT_EQ(EndOf(beams).rows_computed, kPrompt + kWidth * (kTokens - 1));
  EXPECT_EQ(EndOf(Plain(2, Ids(kPrompt, 2), 0)).rows_computed, 0) << "it was found in the cache";
}

// Every letter has several ids here; each ends an answer.
TEST_P(BeamTurnsTest, StopStringsAndStopIdsEndBeamsAlike) {
  Load("llama");
  Start(8);
  int ended = 0;
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SubmittedTurn ids = Beams(1, Ids(30, seed)), text = Beams(2, Ids(30, seed));
    for (SubmittedTurn* turn : {&ids, &text}) turn->request.sampling.beams.length_penalty = 0;
    ids.request.stop_ids = {10, 36, 62, 88};
    text.request.stop_ids = {};
    text.request.stop_strings = {"K"};
    EXPECT_EQ(Run(ids), Run(text));
    EXPECT_EQ(text.sink->text(), ids.sink->text());
    EXPECT_EQ(text.sink->text().find('K'), std::string::npos);
    ended += text.sink->Wait().stop_string == "K" ? 1 : 0;
  }
  EXPECT_GE(ended, 3);
}

TEST_P(BeamTurnsTest, ConversationContinuesFromTheAnswer) {
  Load("llama");
  Start(8);
  std::vector<TokenId> said = Ids(37, 2);
  for (int turn = 0; turn < 4; ++turn) {  // each with a different end of the answer, and tile offset
    said = Joined(said, Run(Beams(1, said, 3 + turn, 9 + 5 * turn)));
    ExpectGoesOn(1, said, std::ssize(said) - 1);
    said = Joined(said, Ids(4, 40));
  }
}

TEST_P(BeamTurnsTest, ContinuesInAWrappedRing) {
  Load("llama");
  Start(8, kSmallWindow.memory_len);
  std::vector<TokenId> said = Ids(60, 3);
  for (int turn = 0; turn < 5; ++turn) {
    const std::vector<TokenId> answer = Run(Beams(1, said, 4, 40, kSmallWindow));
    SubmittedTurn once = Beams(2, said, 4, 40, kSmallWindow);
    once.request.tenant = "another's";
    EXPECT_EQ(Run(once), answer);
    said = Joined(said, answer);
    ExpectGoesOn(1, said, std::ssize(said) - 1, kSmallWindow);
    engine_->Close(2);
    said = Joined(said, Ids(21, 41));
  }
}

TEST_P(BeamTurnsTest, ConcurrentTurnsDoNotChangeTheResult) {
  Load("qwen3");
  Start(20);
  const std::vector<TokenId> alone = Run(Beams(1, Ids(50, 4)));
  std::vector<SubmittedTurn> others;
  for (TimelineId timeline = 2; timeline < 6; ++timeline) {
    others.push_back(Plain(timeline, Ids(20 * timeline, 5), 40));
    others.push_back(Beams(timeline + 10, Ids(30 * timeline, 6), 2));
  }
  for (const SubmittedTurn& other : others) ASSERT_TRUE(engine_->Submit(other.request).ok());
  EXPECT_EQ(Run(Beams(20, Ids(50, 4))), alone);
  for (const SubmittedTurn& other : others) other.sink->Wait();
}

TEST_P(BeamTurnsTest, DoesNotCopyTheHistory) {
  Load("llama");
  constexpr RingWindow kLong{4, 2048, Eviction::kTurn};
  Start(8, kLong.memory_len);
  std::vector<TokenId> said = Ids(2000, 7);
  said = Joined(said, Run(Plain(1, said, 1, kLong)));
  const KvShape shape = MakeKvShape(model_->spec().layers, model_->spec().kv_heads, model_->spec().head_dim,
                                    backend_.activation_dtype(), 8, kLong.memory_len, 32);
  backend_.copied = backend_.largest = 0;
  constexpr int64_t kTokens = 8;
  SubmittedTurn turn = Beams(1, said, 4, kTokens, kLong);
  said = Joined(said, Run(turn));
  EXPECT_EQ(turn.sink->start().tokens_reused, 2000);
  // Initially one tile per cache; then, at each token, at most two per diverging beam; finally the answer's.
  EXPECT_GT(backend_.copied, 0);
  EXPECT_LE(backend_.largest, 2 * shape.tile_bytes());
  EXPECT_LE(backend_.copied, (5 + kTokens * 4 * 2 + 2) * shape.tile_bytes());
  EXPECT_LT(backend_.copied, shape.HeldBytes(2000, 4));
  ExpectGoesOn(1, said, std::ssize(said) - 1, kLong);
}

TEST_P(BeamTurnsTest, SpillsAndRestores) {
  Load("gpt2");
  TieredStore tiers(std::make_unique<RamStore>(64 << 20), nullptr,
                    TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
  Start(4, 48, 0, &tiers);
  constexpr RingWindow kWide{0, 48, Eviction::kToken};
  std::vector<TokenId> said = Ids(15, 8);
  said = Joined(said, Run(Beams(1, said, 2, 12, kWide)));
  Run(Beams(2, Ids(20, 9), 2, 12, kWide));  // takes every slot
  const SubmittedTurn again = Plain(1, Joined(said, {3}), 6, kWide), once = Plain(3, Joined(said, {3}), 6, kWide);
  const std::vector<TokenId> ids = Run(again);
  EXPECT_EQ(again.sink->start().source, CacheSource::kHost);
  EXPECT_EQ(again.sink->start().tokens_reused, std::ssize(said) - 1);
  engine_->Close(1);
  EXPECT_EQ(Run(once), ids);
  EXPECT_EQ(once.sink->start().tokens_reused, 0);
  engine_.reset();
}

TEST_P(BeamTurnsTest, CancelKeepsTheAnswerSoFar) {
  Load("llama");
  Start(8);
  for (const size_t tokens : {0, 1, 2, 5, 17}) {
    SubmittedTurn turn = Beams(1, Ids(40, 10), 4, 200);
    turn.request.stop_ids = {};
    turn.request.sink = std::make_shared<ActingSink>(turn.sink, tokens, [&] { engine_->Cancel(turn.request.turn); });
    ASSERT_TRUE(engine_->Submit(turn.request).ok());
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kCancelled);
    EXPECT_EQ(end.output, turn.sink->ids());
    EXPECT_GE(end.output.size(), tokens);
    EXPECT_LT(end.output.size(), 200u);
    EXPECT_EQ(Stats().slots_used, 1);
    const std::vector<TokenId> said = Joined(turn.request.tokens, end.output);
    const SubmittedTurn continues_answer = Plain(1, Joined(said, {1}));
    const std::vector<TokenId> ids = Run(continues_answer);
    EXPECT_GE(continues_answer.sink->start().tokens_reused, tokens == 0 ? 0 : std::ssize(said) - 1);
    engine_->Close(1);
    EXPECT_EQ(ids, Run(Plain(2, Joined(said, {1}))));
    engine_->Close(2);
  }
}

TEST_P(BeamTurnsTest, ManyTurnsFinishWithFewerSlotsThanBeams) {
  if (GetParam() != "cpu") GTEST_SKIP() << "a page holds more than a slab of these";
  Load("llama");
  const KvShape shape = MakeKvShape(model_->spec().layers, model_->spec().kv_heads, model_->spec().head_dim,
                                    DType::kF32, 8, kWindow.memory_len, 32);
  constexpr int64_t kTimelines = 8;
  std::vector<std::vector<TokenId>> alone;
  for (const int64_t kv_bytes : {int64_t{0}, KvPool::SlabBytes(backend_, shape)}) {  // memory of all slots, of one
    Start(kv_bytes == 0 ? 8 : 7, kWindow.memory_len, kv_bytes);
    std::vector<std::vector<TokenId>> found;
    for (int64_t timeline = 1; kv_bytes == 0 && timeline <= kTimelines; ++timeline) {
      alone.push_back(Run(Beams(static_cast<TimelineId>(timeline), Ids(30, static_cast<uint32_t>(timeline)))));
    }
    // Those that have caches wait for slots with them, and for each other's.
    std::vector<SubmittedTurn> turns, plain;
    for (int64_t timeline = 1; timeline <= kTimelines; ++timeline) {
      turns.push_back(Beams(static_cast<TimelineId>(timeline), Ids(30, static_cast<uint32_t>(timeline))));
      plain.push_back(Plain(static_cast<TimelineId>(20 + timeline), Ids(40, 50), 60));
      ASSERT_TRUE(engine_->Submit(turns.back().request).ok());
      ASSERT_TRUE(engine_->Submit(plain.back().request).ok());
    }
    for (const SubmittedTurn& turn : turns) found.push_back(turn.sink->Wait().output);
    EXPECT_EQ(found, alone);
    std::vector<TokenId> same = plain.front().sink->Wait().output;
    EXPECT_EQ(same.size(), 60u);
    for (const SubmittedTurn& turn : plain) EXPECT_EQ(turn.sink->Wait().output, same);
    ExpectNothingHeld(20 + kTimelines);
  }
}

// Short turns of another tenant preempt them repeatedly: the results are the same, and the conversation continues.
TEST_P(BeamTurnsTest, PreemptedSearchGivesTheSameResult) {
  Load("llama");
  TieredStore tiers(std::make_unique<RamStore>(64 << 20), nullptr,
                    TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
  for (TieredStore* store : {&tiers, static_cast<TieredStore*>(nullptr)}) {  // without tiers the prompt is recomputed
    Start(6, kWindow.memory_len, 0, store);
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      const auto search = [&](TimelineId timeline) {
        SubmittedTurn turn = Beams(timeline, Ids(40, seed), 4, 160);  // all slots
        turn.request.stop_ids = {};
        turn.request.tenant = "beams";
        return turn;
      };
      const SubmittedTurn alone = search(1);
      const std::vector<TokenId> found = Run(alone);
      const std::optional<int64_t> rows = alone.sink->Wait().rows_computed;
      engine_->Close(1);
      const uint64_t before = Stats().turns_preempted;
      SubmittedTurn turn = search(2), first = Plain(99, Ids(10, 60), 3);
      first.request.tenant = "other's";
      turn.request.sink = std::make_shared<ActingSink>(turn.sink, 0, [&] { engine_->Submit(first.request).ok(); });
      ASSERT_TRUE(engine_->Submit(turn.request).ok());
      EXPECT_EQ(first.sink->Wait().output.size(), 3u);
      for (TimelineId other = 100; other < 120; ++other) {
        SubmittedTurn plain = Plain(other, Ids(10, 60), 3);
        plain.request.tenant = "other's";
        EXPECT_EQ(Run(plain).size(), 3u);
        engine_->Close(other);
      }
      const TurnEnd end = turn.sink->Wait();
      EXPECT_EQ(end.output, found) << seed;
      EXPECT_EQ(end.rows_computed, rows) << "what is computed again costs nothing";
      EXPECT_GE(Stats().turns_preempted, before + 1);
      ExpectGoesOn(2, Joined(turn.request.tokens, found), -1);
      engine_->Close(2);
      engine_->Close(99);
    }
    engine_.reset();
  }
}

// Searches of several tenants that take all slots, alongside plain turns that would hold them for long.
TEST_P(BeamTurnsTest, AccountsWithAndWithoutBeamsShareSlots) {
  if (GetParam() != "cpu") GTEST_SKIP() << "a page holds more than a slab of these";
  Load("llama");
  TieredStore tiers(std::make_unique<RamStore>(64 << 20), nullptr,
                    TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
  Start(6, kWindow.memory_len, 0, &tiers);
  std::vector<SubmittedTurn> turns;
  std::vector<std::vector<TokenId>> alone, found;
  for (const bool together : {false, true}) {
    for (uint32_t i = 0; i < 12; ++i) {
      const TimelineId timeline = i + 1;
      SubmittedTurn turn = i % 3 == 0 ? Beams(timeline, Ids(30, i), 4, 60) : Plain(timeline, Ids(20, i), 150);
      turn.request.stop_ids = {};
      turn.request.tenant = "tenant " + std::to_string(i % 4);
      if (!together) {
        alone.push_back(Run(turn));
        engine_->Close(timeline);
      } else {
        ASSERT_TRUE(engine_->Submit(turn.request).ok());
        turns.push_back(turn);
      }
    }
  }
  for (const SubmittedTurn& turn : turns) found.push_back(turn.sink->Wait().output);
  EXPECT_EQ(found, alone);
  ExpectNothingHeld(12);
  engine_.reset();
}

TEST_P(BeamTurnsTest, ClosingEndsBeamTurns) {
  Load("llama");
  Start(8);
  SubmittedTurn turn = Beams(1, Ids(40, 11), 4, 200);
  turn.request.stop_ids = {};
  turn.request.sink = std::make_shared<ActingSink>(turn.sink, 1, [&] { engine_->Close(1); });
  ASSERT_TRUE(engine_->Submit(turn.request).ok());
  EXPECT_EQ(turn.sink->Wait().reason, FinishReason::kCancelled);
  ExpectNothingHeld(1);
}

TEST_P(BeamTurnsTest, RefusesOptionsThatBeamsLack) {
  if (GetParam() != "cpu") GTEST_SKIP() << "a page holds more than a slab of these";
  Load("llama");
  Start(6);
  const auto refusal = [&](const std::function<void(TurnRequest&)>& change) {
    SubmittedTurn turn = Beams(1, Ids(20, 12));
    change(turn.request);
    const Status status = engine_->Submit(turn.request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    return status.param();
  };
  EXPECT_EQ(refusal([](TurnRequest& r) { r.sampling.temperature = 1; }), "temperature");
  EXPECT_EQ(refusal([](TurnRequest& r) { r.sampling.logprobs = 0; }), "top_logprobs");
  EXPECT_EQ(refusal([](TurnRequest& r) { r.sampling.beams.width = 17; }), "beam_width");
  EXPECT_EQ(refusal([](TurnRequest& r) { r.sampling.beams.width = 0; }), "beam_width");
  EXPECT_EQ(refusal([](TurnRequest& r) { r.sampling.beams.width = 5; }), "beam_width");  // a width of 5 needs 7 slots;
                                                                                         // there are 6
  EXPECT_EQ(refusal([](TurnRequest& r) { r.sampling.beams.length_penalty = 11; }), "length_penalty");
  EXPECT_EQ(refusal([](TurnRequest& r) { r.sampling.beams.diversity_rate = -1; }), "beam_search_diversity_rate");
  EXPECT_EQ(refusal([](TurnRequest& r) { r.max_tokens = 257; }), "max_output_tokens");
  EXPECT_EQ(refusal([](TurnRequest& r) { r.tokens.resize(3); }), "beam_width");  // fewer than the 4 pinned tokens
  GrammarCache grammars(*tokenizer_);
  const auto grammar = grammars.Get({.kind = AnswerFormat::Kind::kRegex, .text = "A+"});
  ASSERT_TRUE(grammar.ok());
  EXPECT_EQ(refusal([&](TurnRequest& r) { r.grammar = *grammar; }), "beam_width");
  const KvShape shape = MakeKvShape(model_->spec().layers, model_->spec().kv_heads, model_->spec().head_dim,
                                    DType::kF32, 8, kWindow.memory_len, 32);
  Start(6, kWindow.memory_len, KvPool::SlabBytes(backend_, shape));
  EXPECT_EQ(refusal([](TurnRequest& r) { r.max_tokens = 200; }), "beam_width");  // memory of one slot
  HashNetwork hashes(backend_, /*runs_ahead=*/false, /*branches=*/false);
  auto started = Engine::Start(hashes, *tokenizer_, {.slots = 8, .memory_len = 256, .pinned_max = 8});
  ASSERT_TRUE(started.ok());
  engine_ = std::move(*started);
  EXPECT_EQ(refusal([](TurnRequest&) {}), "beam_width");
  engine_.reset();
}

}  // namespace
}  // namespace ringside
