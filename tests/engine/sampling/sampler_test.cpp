// The sampler's contract (kernels/row_sampling_params.h, engine/sampling/sampler.cpp), on the reference backend: the
// effect of each parameter, their order, and that draws follow the claimed distribution.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "base/philox.h"
#include "tests/engine/sampling/sample_once.h"

namespace ringside {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
using Logits = std::vector<float>;
using Probabilities = std::map<TokenId, double>;

OneSample SampleOne(Sampler& sampler, Logits logits, int64_t position = 0) {
  auto token = SampleOnce(sampler, logits, position);
  EXPECT_TRUE(token.ok()) << token.status().ToString();
  return token.ok() ? *token : OneSample{.id = -1};
}

OneSample SampleWith(const SamplingParams& params, const Logits& logits, std::vector<TokenId> history = {},
                     std::vector<TokenId> end_of_turn = {}, int64_t position = 0) {
  Sampler sampler(params, static_cast<int64_t>(logits.size()), history, end_of_turn);
  return SampleOne(sampler, logits, position);
}

SamplingParams Greedy() { return {.temperature = 0}; }

Logits RandomLogits(size_t vocab, unsigned seed, float spread = 2.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, spread);
  Logits logits(vocab);
  for (float& logit : logits) logit = normal(generator);
  return logits;
}

// Counts of `draws` samples at positions 0, 1, 2, ...
std::map<TokenId, int> DrawMany(const SamplingParams& params, const Logits& logits, int draws,
                                const std::vector<TokenId>& appended = {}) {
  Sampler sampler(params, static_cast<int64_t>(logits.size()), {}, {});
  for (const TokenId id : appended) sampler.Append(id);
  std::map<TokenId, int> counts;
  Logits scratch(logits.size());
  for (int i = 0; i < draws; ++i) {
    scratch = logits;
    auto token = SampleOnce(sampler, scratch, i);
    EXPECT_TRUE(token.ok());
    if (token.ok()) ++counts[token->id];
  }
  return counts;
}

// Pearson's chi-square against `expected`, as a number of standard deviations; any token outside it is a failure.
void ExpectFollows(const std::map<TokenId, int>& counts, const Probabilities& expected, int draws) {
  for (const auto& [id, count] : counts) {
    ASSERT_TRUE(expected.contains(id)) << "token " << id << " was cut and yet drawn " << count << " times";
  }
  double chi_square = 0, rest_expected = 0, rest_seen = 0;
  int cells = 0;
  for (const auto& [id, p] : expected) {
    const auto found = counts.find(id);
    const double seen = found == counts.end() ? 0 : found->second;
    if (p * draws < 8) {  // small cells are pooled
      rest_expected += p * draws;
      rest_seen += seen;
      continue;
    }
    chi_square += (seen - p * draws) * (seen - p * draws) / (p * draws);
    ++cells;
  }
  if (rest_expected >= 8) {
    chi_square += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
    ++cells;
  }
  ASSERT_GE(cells, 2);
  const double freedom = cells - 1;
  EXPECT_LT((chi_square - freedom) / std::sqrt(2 * freedom), 4.5) << "chi-square " << chi_square << " in " << cells;
  EXPECT_GT((chi_square - freedom) / std::sqrt(2 * freedom), -4.5) << "suspiciously even";
}

// A direct implementation of the definition: softmax at the temperature, then top_k, top_p, min_p over a full sort.
Probabilities Reference(const Logits& logits, const SamplingParams& params) {
  std::vector<std::pair<double, TokenId>> order;
  for (size_t i = 0; i < logits.size(); ++i) order.emplace_back(logits[i], static_cast<TokenId>(i));
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
  const double best = order.front().first;
  double whole = 0;
  for (auto& [logit, id] : order) whole += logit = std::exp((logit - best) / params.temperature);
  size_t kept = 0;
  for (double sum = 0; kept < order.size() && sum < params.top_p * whole; ++kept) sum += order[kept].first;
  if (params.top_p < 1) order.resize(kept);
  std::erase_if(order, [&](const auto& entry) { return entry.first < params.min_p; });
  whole = 0;
  for (const auto& entry : order) whole += entry.first;
  Probabilities result;
  for (const auto& [weight, id] : order) {
    if (weight > 0) result[id] = weight / whole;
  }
  return result;
}

TEST(Philox, MatchesThePublishedTestVectors) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsInRangeAndUnbiased) {
  int cells[10] = {};
  for (uint64_t i = 0; i < 100000; ++i) {
    const double u = UniformAt(7, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++cells[static_cast<int>(u * 10)];
  }
  double chi_square = 0;
  for (const int count : cells) chi_square += (count - 10000.0) * (count - 10000.0) / 10000;
  EXPECT_LT(chi_square, 33.7);  // 9 degrees of freedom, 1 in 10,000
}

TEST(Philox, DependsOnEveryBitOfSeedAndPosition) {
  std::set<double> draws;
  for (int bit = 0; bit < 64; ++bit) {
    draws.insert(UniformAt(uint64_t{1} << bit, 0));
    draws.insert(UniformAt(0, uint64_t{1} << bit));
  }
  EXPECT_EQ(draws.size(), 128u);
}

TEST(ExpNegative, IsCloseToExp) {
  for (double x = 0; x > -87; x -= 0.00137) {
    const float f = static_cast<float>(x);
    ASSERT_NEAR(ExpNegative(f) / std::exp(double{f}), 1.0, 3e-7) << x;
  }
  EXPECT_EQ(ExpNegative(0), 1.0f);
  EXPECT_EQ(ExpNegative(-88), 0.0f);
  EXPECT_EQ(ExpNegative(-kInf), 0.0f);
  EXPECT_EQ(ExpNegative(std::numeric_limits<float>::lowest()), 0.0f);
}

TEST(Sampler, GreedyTakesTheBestAndTheLowestIdOnTies) {
  for (const size_t vocab : {1u, 2u, 63u, 64u, 65u, 1000u, 49152u}) {
    Logits logits = RandomLogits(vocab, static_cast<unsigned>(vocab));
    const auto best = std::max_element(logits.begin(), logits.end());
    EXPECT_EQ(SampleWith(Greedy(), logits).id, best - logits.begin());
    for (size_t i = 0; i < vocab; i += 1 + vocab / 7) {  // ties within one block and across blocks
      Logits tied = logits;
      tied[i] = tied[vocab - 1] = *best + 1;
      EXPECT_EQ(SampleWith(Greedy(), tied).id, static_cast<TokenId>(i));
    }
  }
  EXPECT_EQ(SampleWith(Greedy(), Logits(100, 0.0f)).id, 0);
  EXPECT_EQ(SampleWith(Greedy(), {-0.0f, 0.0f}).id, 0);
}

TEST(Sampler, TopOneIsGreedyAtAnyTemperature) {
  const Logits logits = RandomLogits(1000, 3);
  SamplingParams params{.temperature = 2, .top_k = 1};
  const TokenId best = SampleWith(Greedy(), logits).id;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(SampleWith(params, logits, {}, {}, i).id, best);
}

TEST(Sampler, RefusesNanAndInfinityAndAcceptsTheModelsOwnExclusions) {
  for (const float bad : {std::nanf(""), kInf}) {
    for (const size_t place : {0u, 77u, 199u}) {
      Logits logits = RandomLogits(200, 1);
      logits[place] = bad;
      Sampler sampler({}, 200, {}, {});
      EXPECT_EQ(SampleOnce(sampler, logits, 0).status().code(), StatusCode::kUnavailable);
    }
  }
  EXPECT_EQ(SampleWith(Greedy(), {-kInf, -5, -kInf}).id, 1);
  Logits none(10, -kInf);
  Sampler sampler({}, 10, {}, {});
  EXPECT_EQ(SampleOnce(sampler, none, 0).status().code(), StatusCode::kUnavailable);
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  const Logits logits = RandomLogits(200, 11);
  for (const double temperature : {0.3, 1.0, 1.7}) {
    const SamplingParams params{.temperature = temperature, .seed = 5};
    ExpectFollows(DrawMany(params, logits, 40000), Reference(logits, params), 40000);
  }
}

TEST(Sampler, CutsFollowTheirDefinitions) {
  const Logits logits = RandomLogits(333, 12);
  std::vector<SamplingParams> cases;
  cases.push_back({.top_k = 2});
  cases.push_back({.top_k = 50});
  cases.push_back({.top_k = 332});
  cases.push_back({.top_p = 0.3});
  cases.push_back({.temperature = 1.5, .top_p = 0.9});
  cases.push_back({.top_p = 0.999});
  cases.push_back({.min_p = 0.1});
  cases.push_back({.temperature = 0.5, .min_p = 0.02});
  cases.push_back({.temperature = 1.2, .top_k = 40, .top_p = 0.8});
  cases.push_back({.temperature = 1.2, .top_k = 40, .top_p = 0.95, .min_p = 0.05});
  cases.push_back({.top_p = 0.9, .min_p = 0.05});
  for (SamplingParams& params : cases) {
    SCOPED_TRACE(::testing::Message() << "T " << params.temperature << " k " << params.top_k << " p " << params.top_p
                                      << " min " << params.min_p);
    params.seed = 99;
    const Probabilities expected = Reference(logits, params);
    const auto counts = DrawMany(params, logits, 30000);
    ExpectFollows(counts, expected, 30000);
  }
}

// The strictest check: with enough draws every kept token of a small vocabulary appears, and no other.
TEST(Sampler, KeepsExactlyTheTokensOfTheDefinition) {
  std::mt19937 generator(4);
  for (int round = 0; round < 60; ++round) {
    const size_t vocab = 2 + generator() % 150;
    const Logits logits = RandomLogits(vocab, generator(), 0.3f);
    SamplingParams params{.temperature = 0.5 + (generator() % 100) / 100.0, .seed = generator()};
    if (generator() % 2) params.top_k = 1 + generator() % (vocab + 2);
    if (generator() % 2) params.top_p = 0.05 + (generator() % 90) / 100.0;
    if (generator() % 2) params.min_p = (generator() % 100) / 100.0;
    std::set<TokenId> expected, seen;
    for (const auto& [id, p] : Reference(logits, params)) expected.insert(id);
    for (const auto& [id, count] : DrawMany(params, logits, 10000)) seen.insert(id);
    EXPECT_EQ(seen, expected) << "round " << round;
  }
}

TEST(Sampler, TopKTiesKeepTheLowestIds) {
  const SamplingParams params{.top_k = 3};
  const auto counts = DrawMany(params, Logits(100, 1.0f), 2000);
  ASSERT_EQ(counts.size(), 3u);
  EXPECT_EQ(counts.begin()->first, 0);
  EXPECT_EQ(counts.rbegin()->first, 2);
}

TEST(Sampler, TopPKeepsTheBoundaryToken) {
  // Probabilities 0.5, 0.3, 0.2: top_p 0.6 keeps two tokens at 5:3. Truncating the second one's probability would give
  // 5:1.
  const Logits logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  ExpectFollows(DrawMany({.top_p = 0.6}, logits, 20000), {{0, 0.625}, {1, 0.375}}, 20000);
}

TEST(Sampler, TopPAppliesAfterTopK) {
  // From 0.4, 0.3, 0.3 top_k 2 leaves 4/7 and 3/7: the first alone reaches top_p 0.5, although 0.4 < 0.5.
  const Logits logits = {std::log(0.4f), std::log(0.3f), std::log(0.3f)};
  EXPECT_EQ(DrawMany({.top_k = 2, .top_p = 0.5}, logits, 500).size(), 1u);
  EXPECT_EQ(DrawMany({.top_p = 0.5}, logits, 500).size(), 2u);
}

TEST(Sampler, LargeVocabularyMatchesTheDefinition) {
  Logits logits = RandomLogits(49152, 21, 3.0f);
  for (int i = 0; i < 6; ++i) logits[i * 8191] = 14.0f + static_cast<float>(i) * 0.3f;
  for (SamplingParams params : {SamplingParams{.temperature = 0.8}, SamplingParams{.top_p = 0.5},
                                SamplingParams{.top_k = 40, .top_p = 0.95}, SamplingParams{.min_p = 0.05}}) {
    params.seed = 3;
    ExpectFollows(DrawMany(params, logits, 3000), Reference(logits, params), 3000);
  }
}

TEST(Sampler, SeedAndPositionDecideTheDraw) {
  const Logits logits = RandomLogits(500, 31);
  const SamplingParams one{.seed = 1}, two{.seed = 2};
  int differ_by_seed = 0, differ_by_position = 0;
  for (int64_t position = 0; position < 200; ++position) {
    const TokenId id = SampleWith(one, logits, {}, {}, position).id;
    EXPECT_EQ(id, SampleWith(one, logits, {}, {}, position).id);
    differ_by_seed += id != SampleWith(two, logits, {}, {}, position).id;
    differ_by_position += id != SampleWith(one, logits, {}, {}, position + 1).id;
  }
  EXPECT_GT(differ_by_seed, 100);
  EXPECT_GT(differ_by_position, 100);
}

TEST(Sampler, OtherSamplersInTheBatchChangeNothing) {
  const Logits logits = RandomLogits(500, 32), other = RandomLogits(500, 33);
  const SamplingParams params{.temperature = 0.9, .top_p = 0.9, .repetition_penalty = 1.2, .seed = 8};
  Sampler alone(params, 500, {}, {}), together(params, 500, {}, {}), neighbour({.seed = 8}, 500, {}, {});
  for (int64_t position = 10; position < 60; ++position) {
    const TokenId id = SampleOne(alone, logits, position).id;
    SampleOne(neighbour, other, position);
    EXPECT_EQ(SampleOne(together, logits, position).id, id);
    SampleOne(neighbour, other, position + 1000);
    alone.Append(id);
    together.Append(id);
    neighbour.Append(5);
  }
}

TEST(Sampler, RebuildingFromIdsContinuesIdentically) {
  const Logits logits = RandomLogits(300, 41);
  const SamplingParams params{.temperature = 0.9,
                              .top_p = 0.9,
                              .repetition_penalty = 1.3,
                              .presence_penalty = 0.4,
                              .frequency_penalty = 0.2,
                              .seed = 8,
                              .min_tokens = 15,
                              .top_p_decay = 0.9,
                              .top_p_min = 0.1,
                              .bad_words = {{1, 2}, {7}}};
  const std::vector<TokenId> history = {1, 2, 3, 1}, ends = {9, 10};
  Sampler first(params, 300, history, ends);
  std::vector<TokenId> answer;
  for (int64_t position = 4; position < 44; ++position) {
    Sampler rebuilt(params, 300, history, ends);
    for (const TokenId id : answer) rebuilt.Append(id);
    const TokenId id = SampleOne(first, logits, position).id;
    ASSERT_EQ(SampleOne(rebuilt, logits, position).id, id);
    first.Append(id);
    answer.push_back(id);
  }
}

TEST(Sampler, TinyTemperatureIsGreedyAndHugeLogitsAreSafe) {
  const Logits logits = RandomLogits(100, 51);
  const TokenId best = SampleWith(Greedy(), logits).id;
  for (const double temperature : {1e-300, 1e-40, 1e-5}) {
    EXPECT_EQ(SampleWith({.temperature = temperature}, logits).id, best);
    EXPECT_EQ(SampleWith({.temperature = temperature, .top_p = 0.5}, logits).id, best);
    EXPECT_EQ(SampleWith({.temperature = temperature, .top_k = 5, .min_p = 0.1}, logits).id, best);
  }
  const float huge = std::numeric_limits<float>::max();
  EXPECT_EQ(SampleWith({.logprobs = 2, .logit_bias = {{1, 100.0f}}}, {0, huge, -huge}).id, 1);
  EXPECT_EQ(SampleWith({.repetition_penalty = 1e-300}, {0, 1, 2}, {1}).id, 1);
}

TEST(Sampler, LogitBiasMovesTheChoice) {
  EXPECT_EQ(SampleWith({.temperature = 0, .logit_bias = {{2, 1.5f}}}, {0, 1, 0}).id, 2);
  EXPECT_EQ(SampleWith({.temperature = 0, .logit_bias = {{1, -100.0f}}}, {0, 1, -1}).id, 0);
}

TEST(Sampler, RepetitionPenaltyAppliesOncePerDistinctToken) {
  const Logits logits = {3, 2.9f, -1, -1.1f};
  EXPECT_EQ(SampleWith(Greedy(), logits, {0}).id, 0);
  SamplingParams params{.temperature = 0, .repetition_penalty = 1.5, .logprobs = 4};
  EXPECT_EQ(SampleWith(params, logits, {0}).id, 1);
  // 3 / 1.5 = 2, once although it occurs three times; -1 * 1.5 = -1.5 falls behind -1.1.
  const OneSample token = SampleWith(params, logits, {0, 2, 0, 0});
  ASSERT_EQ(token.top.size(), 4u);
  EXPECT_NEAR(token.top[0].logprob - token.top[1].logprob, 0.9, 1e-5);
  EXPECT_EQ(token.top[2].id, 3);
  EXPECT_NEAR(token.top[2].logprob - token.top[3].logprob, 0.4, 1e-5);
  // Generated tokens count as well.
  Sampler sampler(params, 4, {}, {});
  sampler.Append(0);
  EXPECT_EQ(SampleOne(sampler, logits).id, 1);
}

TEST(Sampler, PresenceAndFrequencyCountThisTurnsTokensOnly) {
  const Logits logits = {1.0f, 0.5f, 0.0f};
  for (const bool frequency : {false, true}) {
    SamplingParams params{.temperature = 0, .logprobs = 3};
    (frequency ? params.frequency_penalty : params.presence_penalty) = 0.3;
    EXPECT_EQ(SampleWith(params, logits, {0, 0, 0, 0}).id, 0) << "the prompt is not penalised";
    Sampler sampler(params, 3, {}, {});
    sampler.Append(0);
    EXPECT_EQ(SampleOne(sampler, logits).id, 0);
    sampler.Append(0);
    const OneSample token = SampleOne(sampler, logits);
    EXPECT_EQ(token.id, frequency ? 1 : 0);
    const double lead = frequency ? 1.0 - 0.6 - 0.5 : 1.0 - 0.3 - 0.5;
    const double first = token.top[0].id == 0 ? token.top[0].logprob : token.top[1].logprob;
    const double second = token.top[0].id == 0 ? token.top[1].logprob : token.top[0].logprob;
    EXPECT_NEAR(first - second, lead, 1e-5);
  }
}

TEST(Sampler, PenaltiesComeBeforeTemperature) {
  // The penalty is applied before the temperature: at T 0.5 a presence penalty of 1 must weigh exp(-1 / 0.5), not
  // exp(-1).
  const SamplingParams params{.temperature = 0.5, .presence_penalty = 1.0};
  const double w = std::exp(-2.0);
  ExpectFollows(DrawMany(params, {0, 0}, 20000, {0}), {{0, w / (1 + w)}, {1, 1 / (1 + w)}}, 20000);
}

TEST(Sampler, BiasComesBeforeRepetitionPenalty) {
  // (1 + 1) / 2 = 1 loses to 1.2; 1 / 2 + 1 = 1.5 would win.
  EXPECT_EQ(SampleWith({.temperature = 0, .repetition_penalty = 2, .logit_bias = {{0, 1.0f}}}, {1, 1.2f}, {0}).id, 1);
}

TEST(Sampler, BansBeatBias) {
  EXPECT_EQ(SampleWith({.temperature = 0, .logit_bias = {{0, 100.0f}}, .bad_words = {{0}}}, {1, 0}).id, 1);
}

TEST(Sampler, BadWordsBanTheLastIdIfTheRestMatches) {
  const Logits logits = {5, 4, 3, 2};
  SamplingParams params{.temperature = 0, .bad_words = {{2, 3, 0}}};
  EXPECT_EQ(SampleWith(params, logits, {2, 3}).id, 1);
  EXPECT_EQ(SampleWith(params, logits, {1, 2, 3}).id, 1);
  EXPECT_EQ(SampleWith(params, logits, {3, 2}).id, 0);
  EXPECT_EQ(SampleWith(params, logits, {3}).id, 0) << "shorter than the word";
  EXPECT_EQ(SampleWith(params, logits, {2, 3, 1}).id, 0) << "no longer at the end";
  params.bad_words = {{0}, {1}};
  EXPECT_EQ(SampleWith(params, logits).id, 2) << "id 0 can be banned";
  // Across the boundary between prompt and answer, and after the tail has moved on.
  params.bad_words = {{2, 3, 0}};
  const std::vector<TokenId> history = {1, 1, 2};
  Sampler sampler(params, 4, history, {});
  EXPECT_EQ(SampleOne(sampler, logits).id, 0);
  sampler.Append(3);
  EXPECT_EQ(SampleOne(sampler, logits).id, 1);
  sampler.Append(3);
  EXPECT_EQ(SampleOne(sampler, logits).id, 0);
}

TEST(Sampler, BanningEveryTokenIsAClientError) {
  Logits logits = {1, 2};
  Sampler sampler({.bad_words = {{0}, {1}}}, 2, {}, {});
  const Status status = SampleOnce(sampler, logits, 0).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.param(), "bad_words");
}

TEST(Sampler, MinTokensDelaysTheEndOfTurn) {
  const Logits logits = {9, 8, 1};
  const SamplingParams params{.temperature = 0, .min_tokens = 2};
  const std::vector<TokenId> ends = {0, 1};
  Sampler sampler(params, 3, {}, ends);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(SampleOne(sampler, logits).id, 2);
    sampler.Append(2);
  }
  EXPECT_EQ(SampleOne(sampler, logits).id, 0);
}

TEST(Sampler, LogprobsAreTheLogSoftmaxOfThePenalisedLogits) {
  Logits logits = RandomLogits(1000, 61);
  const SamplingParams params{
      .temperature = 0.2, .top_k = 3, .presence_penalty = 1, .logprobs = 5, .logit_bias = {{7, 6.0f}}};
  Sampler sampler(params, 1000, {}, {});
  sampler.Append(3);
  const OneSample token = SampleOne(sampler, logits, 9);
  logits[7] += 6;
  logits[3] -= 1;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  EXPECT_NEAR(token.logprob, logits[token.id] - std::log(sum), 1e-5);
  std::vector<std::pair<float, TokenId>> order;
  for (size_t i = 0; i < logits.size(); ++i) order.emplace_back(-logits[i], static_cast<TokenId>(i));
  std::sort(order.begin(), order.end());
  ASSERT_EQ(token.top.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(token.top[i].id, order[i].second);
    EXPECT_NEAR(token.top[i].logprob, -order[i].first - std::log(sum), 1e-5);
  }
}

TEST(Sampler, LogprobsOnlyOnRequestAndUpToTheVocabulary) {
  const Logits logits = {1, -kInf, 0};
  EXPECT_EQ(SampleWith({.temperature = 0, .logprobs = -1}, logits).logprob, 0.0f);
  EXPECT_NEAR(SampleWith({.temperature = 0, .logprobs = 0}, logits).logprob, -0.31326, 1e-4);
  EXPECT_TRUE(SampleWith({.temperature = 0, .logprobs = 0}, logits).top.empty());
  EXPECT_EQ(SampleWith({.temperature = 0, .logprobs = 20}, logits).top.size(), 2u);
}

TEST(Sampler, TopPDecaysIsBoundedAndResets) {
  const Logits logits(10, 0.0f);  // ten equally likely tokens: top_p p keeps ceil(10 p)
  SamplingParams params{.top_p = 0.75, .top_p_decay = 0.5, .top_p_min = 0.15, .top_p_reset = 4};
  Sampler sampler(params, 10, {}, {});
  const auto kept = [&] {
    std::set<TokenId> ids;
    for (int64_t position = 0; position < 400; ++position) ids.insert(SampleOne(sampler, logits, position).id);
    return ids.size();
  };
  EXPECT_EQ(kept(), 8u);  // 0.75
  sampler.Append(1);
  EXPECT_EQ(kept(), 4u);  // 0.375
  sampler.Append(1);
  EXPECT_EQ(kept(), 2u);  // 0.1875
  sampler.Append(1);
  sampler.Append(1);
  EXPECT_EQ(kept(), 2u);  // the minimum, 0.15
  sampler.Append(4);
  EXPECT_EQ(kept(), 8u);
}

TEST(SamplingParams, DefaultsAreValid) { EXPECT_TRUE(SamplingParams{}.Validate(100).ok()); }

TEST(SamplingParams, BoundsAreInclusiveIfDocumented) {
  SamplingParams params{.temperature = 2,
                        .top_k = 1 << 30,
                        .top_p = 1e-9,
                        .min_p = 1,
                        .repetition_penalty = 10,
                        .presence_penalty = -2,
                        .frequency_penalty = 2,
                        .logprobs = 20,
                        .top_p_reset = 99,
                        .logit_bias = {{0, -100.0f}, {99, 100.0f}},
                        .bad_words = {{99, 0}}};
  EXPECT_TRUE(params.Validate(100).ok()) << params.Validate(100).ToString();
}

TEST(SamplingParams, EveryBoundNamesItsParameter) {
  const double nan = std::nan("");
  const std::vector<std::pair<const char*, SamplingParams>> bad = {
      {"temperature", {.temperature = -0.1}},
      {"temperature", {.temperature = 2.01}},
      {"temperature", {.temperature = nan}},
      {"top_k", {.top_k = -1}},
      {"top_p", {.top_p = 0}},
      {"top_p", {.top_p = 1.001}},
      {"top_p", {.top_p = nan}},
      {"min_p", {.min_p = -0.1}},
      {"min_p", {.min_p = 1.1}},
      {"repetition_penalty", {.repetition_penalty = 0}},
      {"repetition_penalty", {.repetition_penalty = 10.1}},
      {"repetition_penalty", {.repetition_penalty = nan}},
      {"presence_penalty", {.presence_penalty = 2.1}},
      {"frequency_penalty", {.frequency_penalty = -2.1}},
      {"min_tokens", {.min_tokens = -1}},
      {"top_logprobs", {.logprobs = 21}},
      {"top_logprobs", {.logprobs = -2}},
      {"top_p_decay", {.top_p_decay = 0}},
      {"top_p_decay", {.top_p_decay = 1.1}},
      {"top_p_min", {.top_p_min = 0}},
      {"top_p_reset", {.top_p_reset = 100}},
      {"top_p_reset", {.top_p_reset = -2}},
      {"logit_bias", {.logit_bias = {{100, 0.0f}}}},
      {"logit_bias", {.logit_bias = {{-1, 0.0f}}}},
      {"logit_bias", {.logit_bias = {{1, 100.5f}}}},
      {"logit_bias", {.logit_bias = {{1, std::nanf("")}}}},
      {"logit_bias", {.logit_bias = std::vector<std::pair<TokenId, float>>(1025, {1, 0.0f})}},
      {"bad_words", {.bad_words = {{}}}},
      {"bad_words", {.bad_words = {{1, 100}}}},
      {"bad_words", {.bad_words = {{-1}}}},
      {"bad_words", {.bad_words = std::vector<std::vector<TokenId>>(257, {1})}},
  };
  for (const auto& [param, params] : bad) {
    const Status status = params.Validate(100);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << param;
    EXPECT_EQ(status.param(), param);
    EXPECT_NE(status.message().find(param == std::string("bad_words") ? "bad" : param), std::string::npos);
  }
}

}  // namespace
}  // namespace ringside
