// SampleTokens on every kind of device against a direct implementation of the definition in
// kernels/row_sampling_params.h: edits, a full sort, sums in order. Tokens must be equal, except where another
// summation order may cross a threshold; the number of such cases is bounded.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kEdge = 1e-9;  // of the total

/// A choice and the lists it borrows.
struct OwnedChoice {
  RowSamplingParams choice;
  std::vector<int32_t> banned, repeated;
  std::vector<uint32_t> allowed;
  std::vector<std::pair<int32_t, float>> bias;
  std::vector<std::pair<int32_t, int32_t>> counted;

  RowSamplingParams view() const {
    RowSamplingParams out = choice;
    out.allowed = allowed;
    out.banned = banned, out.repeated = repeated, out.bias = bias, out.counted = counted;
    return out;
  }
};

struct Expected {
  SampledToken token;
  bool at_edge = false;  // a threshold is within kEdge of a sum
};

float Clamped(double x) {
  constexpr double kLimit = std::numeric_limits<float>::max();
  return static_cast<float>(std::min(std::max(x, -kLimit), kLimit));
}

/// False: the model's logits are unusable. `nothing_left`: the bans removed every token.
bool Edit(std::vector<float>& logits, const RowSamplingParams& choice, bool* nothing_left) {
  bool finite = false, left = false;
  for (const float l : logits) {
    if (std::isnan(l) || l == kInf) return false;
    finite |= l != -kInf;
  }
  const auto change = [&](int32_t id, const auto& to) {
    float& l = logits[static_cast<size_t>(id)];
    if (l != -kInf) l = Clamped(to(static_cast<double>(l)));
  };
  if (choice.edits_logprobs && finite) {
    const float max = *std::ranges::max_element(logits);
    double all = 0;
    for (const float l : logits) all += SoftmaxWeight(l, max, 1.0f);
    for (size_t id = 0; id < logits.size(); ++id) {
      change(static_cast<int32_t>(id), [&](double l) { return l - (max + std::log(all)); });
    }
  }
  for (const int32_t id : choice.banned) logits[static_cast<size_t>(id)] = -kInf;
  for (size_t id = 0; !choice.allowed.empty() && id < logits.size(); ++id) {
    if ((choice.allowed[id / 32] >> (id % 32) & 1) == 0) logits[id] = -kInf;
  }
  for (const auto& [id, bias] : choice.bias) change(id, [&, b = bias](double l) { return l + b; });
  const double r = choice.repetition_penalty;
  for (const int32_t id : choice.repeated) change(id, [&](double l) { return l < 0 ? l * r : l / r; });
  for (const auto& [id, n] : choice.counted) {
    change(id, [&, n = n](double l) { return l - choice.presence_penalty - choice.frequency_penalty * n; });
  }
  for (const float l : logits) left |= l != -kInf;
  *nothing_left = finite && !left;
  return left || finite;
}

Expected Reference(std::vector<float> logits, const RowSamplingParams& choice) {
  Expected out;
  bool nothing_left = false;
  if (!Edit(logits, choice, &nothing_left)) return out.token.outcome = SampledToken::Outcome::kNonFinite, out;
  if (nothing_left) return out.token.outcome = SampledToken::Outcome::kNoTokenAllowed, out;
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return at(a) > at(b); });
  while (at(order.back()) == -kInf) order.pop_back();
  const float max = at(order[0]);
  out.token.id = order[0];
  double all = 0;
  for (const int32_t id : order) all += SoftmaxWeight(at(id), max, 1.0f);
  const double log_sum = choice.edits_logprobs ? 0 : max + std::log(all);
  const auto logprob = [&](int32_t id) { return static_cast<float>(at(id) - log_sum); };
  const auto best = std::min(order.size(), static_cast<size_t>(std::max<int64_t>(choice.logprobs, 0)));
  for (size_t i = 0; i < best; ++i) out.token.top[i] = {order[i], logprob(order[i])};
  out.token.tops = static_cast<int32_t>(best);

  if (!choice.greedy()) {
    const auto weight = [&](int32_t id) { return double{SoftmaxWeight(at(id), max, choice.inverse_temperature())}; };
    if (choice.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(choice.top_k)));
    double whole = 0, sum = 0;
    for (const int32_t id : order) whole += weight(id);
    if (choice.top_p < 1) {
      size_t kept = 0;
      while (kept < order.size() && (kept == 0 || sum < choice.top_p * whole)) {
        out.at_edge |= kept > 0 && std::fabs(sum - choice.top_p * whole) < kEdge * whole;
        sum += weight(order[kept++]);
      }
      out.at_edge |= std::fabs(sum - choice.top_p * whole) < kEdge * whole && kept < order.size();
      order.resize(kept);
    }
    std::erase_if(order, [&](int32_t id) { return weight(id) < choice.min_p; });
    std::sort(order.begin(), order.end());
    whole = sum = 0;
    for (const int32_t id : order) whole += weight(id);
    for (const int32_t id : order) {
      if (weight(id) <= 0) continue;
      out.token.id = id;
      out.at_edge |= std::fabs(sum - choice.uniform * whole) < kEdge * whole && sum > 0;
      sum += weight(id);
      if (choice.uniform * whole < sum) break;
    }
    out.at_edge |= std::fabs(sum - choice.uniform * whole) < kEdge * whole;
  }
  if (choice.scored >= 0) out.token.id = choice.scored;
  if (choice.logprobs >= 0) out.token.logprob = logprob(out.token.id);
  return out;
}

// Logit rows of many kinds: typical ones, and edge cases.
std::vector<float> MakeLogits(int kind, size_t vocab, std::mt19937& random) {
  std::vector<float> logits(vocab);
  std::normal_distribution<float> normal(0, kind == 1 ? 0.01f : kind == 2 ? 8.0f : 2.5f);
  for (size_t i = 0; i < vocab; ++i) {
    float& l = logits[i];
    l = normal(random);
    if (kind == 3) l = std::round(l * 2) / 2;           // ties, zeros of both signs
    if (kind == 4) l = 1.5f;                            // only ties
    if (kind == 5 && random() % 10 != 0) l = -kInf;     // most tokens excluded
    if (kind == 6) l = i == vocab / 3 ? 0.25f : -kInf;  // one token
    if (kind == 7)
      l = -std::ldexp(1.0f, -static_cast<int>(i % 140));                   // each closer to its neighbour than the
                                                                           // previous one
    if (kind == 8) l *= 1e37f;                                             // overflows where possible
    if (kind == 9 && i % 3 != 0) l = -3e38f;                               // masked by a large number
    if (kind == 10) l = i % 61 == 7 ? 3.0f : i % 2 == 0 ? -1.0f : -60.0f;  // ties at every cutoff
  }
  return logits;
}
constexpr int kKinds = 11;

template <class T>
T OneOf(std::initializer_list<T> values, std::mt19937& random) {
  return values.begin()[random() % values.size()];
}

OwnedChoice MakeChoice(int64_t vocab, bool edits, std::mt19937& random) {
  OwnedChoice out;
  RowSamplingParams& c = out.choice;
  c.temperature = OneOf({0.0, 0.01, 0.7, 1.0, 1.0, 2.0, 1e-300}, random);
  c.top_k = OneOf<int64_t>({0, 0, 1, 2, 40, vocab - 1, vocab, vocab + 5, 500}, random);
  c.top_p = OneOf({1.0, 1.0, 0.9, 0.5, 0.999, 1e-6}, random);
  c.min_p = OneOf({0.0, 0.0, 0.05, 0.9, 1.0}, random);
  c.uniform = OneOf({0.0, 1 - 0x1p-53, 0.25, 0.5, static_cast<double>(random()) * 0x1p-32,
                     static_cast<double>(random()) * 0x1p-32, static_cast<double>(random()) * 0x1p-32},
                    random);
  c.logprobs = OneOf<int64_t>({-1, -1, 0, 5, limits::kMaxBestTokens}, random);
  if (c.greedy() && random() % 2 == 0) c.scored = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab));
  // All tokens but a few, a few, about half, none at all; bits beyond the vocabulary are ignored.
  if (const int kind = static_cast<int>(random() % 12); kind < 4) {
    out.allowed.assign(static_cast<size_t>(vocab + 31) / 32, kind == 0 ? UINT32_MAX : 0u);
    for (uint32_t& word : out.allowed) {
      if (kind == 0 && random() % 4 == 0) word &= static_cast<uint32_t>(random());
      if (kind == 1 && random() % 64 == 0) word = 1u << (random() % 32);
      if (kind == 2) word = static_cast<uint32_t>(random());
    }
  }
  if (!edits) return out;
  c.repetition_penalty = OneOf({1.3, 0.7, 1e-300}, random);
  c.presence_penalty = OneOf({0.0, 1.5, -2.0}, random);
  c.frequency_penalty = OneOf({0.0, 0.3}, random);
  const auto each = [&](int64_t most, const auto& take) {
    std::vector<uint8_t> seen(static_cast<size_t>(vocab));
    for (int64_t i = random() % most; i > 0; --i) {
      const auto id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab));
      if (seen[static_cast<size_t>(id)] != 0) continue;
      seen[static_cast<size_t>(id)] = 1;
      take(id);
    }
  };
  each(20, [&](int32_t id) { out.banned.push_back(id), out.banned.push_back(id); });
  each(600, [&](int32_t id) { out.bias.emplace_back(id, static_cast<float>(random() % 200) - 100); });
  each(3000, [&](int32_t id) { out.repeated.push_back(id); });
  each(700, [&](int32_t id) { out.counted.emplace_back(id, random() % 9 + 1); });
  return out;
}

class ChoiceTest : public DeviceTest {
 protected:
  /// Samples from all rows in one call.
  std::vector<SampledToken> Choose(const std::vector<std::vector<float>>& rows,
                                   const std::vector<RowSamplingParams>& choices) {
    std::vector<float> all;
    for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
    const auto vocab = static_cast<int64_t>(rows[0].size());
    DeviceMatrix logits(*backend_, DType::kF32, static_cast<int64_t>(rows.size()), vocab, all, vocab + 3);
    std::vector<SampledToken> chosen(rows.size());
    backend_->SampleTokens(logits.tensor(), choices, chosen);
    backend_->Synchronize();
    return chosen;
  }
  SampledToken ChooseOne(const std::vector<float>& logits, const RowSamplingParams& choice) {
    return Choose({logits}, {choice})[0];
  }
};

class SampleTokens : public ChoiceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, SampleTokens, ::testing::ValuesIn(DeviceNames()),
                         [](const auto& info) { return info.param; });

// In parts, each with every kind of row: a race detector needs a minute for one.
constexpr int kVocabularies[] = {1, 2, 31, 33, 64, 97, 1000, 4096, 32003, 50257}, kParts = 4;
using VocabularyAndPart = std::tuple<std::string, int, int>;
class SampleTokensOfVocabulary : public ChoiceTest, public ::testing::WithParamInterface<VocabularyAndPart> {
 protected:
  void SetUp() override { Use(std::get<0>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(All, SampleTokensOfVocabulary,
                         ::testing::Combine(::testing::ValuesIn(DeviceNames()), ::testing::ValuesIn(kVocabularies),
                                            ::testing::Range(0, kParts)),
                         NameOf);

void ExpectEqual(const SampledToken& got, const Expected& want) {
  ASSERT_EQ(got.outcome, want.token.outcome);
  if (got.outcome != SampledToken::Outcome::kChosen) return;
  ASSERT_EQ(got.tops, want.token.tops);
  for (int32_t i = 0; i < got.tops; ++i) {
    ASSERT_EQ(got.top[i].id, want.token.top[i].id) << "number " << i;
    ASSERT_NEAR(got.top[i].logprob, want.token.top[i].logprob, 1e-5 + 1e-6 * std::fabs(want.token.top[i].logprob));
  }
  if (want.at_edge) return;
  ASSERT_EQ(got.id, want.token.id);
  if (std::isinf(want.token.logprob)) {  // scored, and excluded
    ASSERT_EQ(got.logprob, want.token.logprob);
    return;
  }
  ASSERT_NEAR(got.logprob, want.token.logprob, 1e-5 + 1e-6 * std::fabs(want.token.logprob));
}

/// Rows of every kind with their choices, without and with edits.
struct Part {
  std::vector<std::vector<float>> rows;
  std::vector<OwnedChoice> owned;
  std::vector<RowSamplingParams> choices;  // views of `owned`
};
std::array<Part, 2> MakePart(int vocab, int part) {
  std::mt19937 random(static_cast<uint32_t>(kParts * vocab + part));
  std::array<Part, 2> out;
  for (const bool edits : {false, true}) {
    Part& made = out[edits ? 1 : 0];
    for (int i = 0; i < (vocab < 10000 ? 2 : 1) * kKinds; ++i) {
      made.rows.push_back(MakeLogits(i % kKinds, static_cast<size_t>(vocab), random));
      made.owned.push_back(MakeChoice(vocab, edits, random));
    }
    for (const OwnedChoice& choice : made.owned) made.choices.push_back(choice.view());
  }
  return out;
}

TEST_P(SampleTokensOfVocabulary, MatchesTheDefinition) {
  const std::array<Part, 2> made = MakePart(std::get<1>(GetParam()), std::get<2>(GetParam()));
  for (const bool edits : {false, true}) {
    const auto& [rows, owned, choices] = made[edits ? 1 : 0];
    const std::vector<SampledToken> got = Choose(rows, choices);
    for (size_t i = 0; i < rows.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "row " << i << " kind " << i % kKinds << " edits " << edits << " T "
                                        << choices[i].temperature << " top_k " << choices[i].top_k << " top_p "
                                        << choices[i].top_p << " min_p " << choices[i].min_p << " u "
                                        << choices[i].uniform << " logprobs " << choices[i].logprobs);
      ASSERT_NO_FATAL_FAILURE(ExpectEqual(got[i], Reference(rows[i], choices[i])));
    }
  }
}

TEST_P(SampleTokensOfVocabulary, EditsLogProbabilitiesOnRequest) {
  const std::array<Part, 2> parts = MakePart(std::get<1>(GetParam()), std::get<2>(GetParam()));
  const std::vector<std::vector<float>>& rows = parts[1].rows;
  std::vector<RowSamplingParams> choices = parts[1].choices;
  for (RowSamplingParams& choice : choices) {
    choice.temperature = 0;
    choice.scored = -1;
    choice.logprobs = limits::kMaxBestTokens;
    choice.edits_logprobs = true;
  }
  const std::vector<SampledToken> got = Choose(rows, choices);
  for (size_t i = 0; i < rows.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "row " << i << " kind " << i % kKinds);
    ASSERT_NO_FATAL_FAILURE(ExpectEqual(got[i], Reference(rows[i], choices[i])));
  }
}

// A ban does not renormalize: the other tokens keep their log probabilities.
TEST_P(SampleTokens, BanLeavesOtherLogProbabilities) {
  std::mt19937 random(5);
  const std::vector<float> logits = MakeLogits(0, 97, random);
  RowSamplingParams choice;
  choice.temperature = 0;
  choice.logprobs = 3;
  const SampledToken all = ChooseOne(logits, choice);
  const std::vector<int32_t> banned = {all.id};
  choice.banned = banned;
  choice.edits_logprobs = true;
  const SampledToken left = ChooseOne(logits, choice);
  EXPECT_EQ(left.id, all.top[1].id);
  EXPECT_NEAR(left.logprob, all.top[1].logprob, 1e-6);
  EXPECT_NEAR(left.top[1].logprob, all.top[2].logprob, 1e-6);
}

// Where a draw is at a threshold either of two tokens is right: most draws must not be.
TEST(SampleTokensDraws, RarelyFallOnABoundary) {
  int64_t choices_made = 0, at_edge = 0;
  for (const int vocab : kVocabularies) {
    for (int part = 0; part < kParts; ++part) {
      for (const Part& made : MakePart(vocab, part)) {
        for (size_t i = 0; i < made.rows.size(); ++i) {
          ++choices_made, at_edge += Reference(made.rows[i], made.choices[i]).at_edge ? 1 : 0;
        }
      }
    }
  }
  RecordProperty("at_edge", static_cast<int>(at_edge));
  EXPECT_LT(at_edge, choices_made / 4);  // draws of exactly 0.25 and 0.5 from even tokens
}

TEST_P(SampleTokens, DrawsFollowTheCumulativeSums) {
  std::mt19937 random(3);
  for (const size_t vocab : {500u, 32003u}) {
    const std::vector<float> logits = MakeLogits(0, vocab, random);
    std::vector<RowSamplingParams> choices(64);
    int at_edge = 0;
    for (RowSamplingParams& choice : choices) {
      choice.top_p = random() % 2 == 0 ? 1 : 0.95;
      choice.uniform = static_cast<double>(random()) * 0x1p-32;
    }
    const auto got = Choose(std::vector<std::vector<float>>(choices.size(), logits), choices);
    for (size_t i = 0; i < got.size(); ++i) {
      const Expected want = Reference(logits, choices[i]);
      at_edge += want.at_edge ? 1 : 0;
      ASSERT_NO_FATAL_FAILURE(ExpectEqual(got[i], want));
    }
    EXPECT_EQ(at_edge, 0);
  }
}

TEST_P(SampleTokens, BadRowDoesNotAffectOthers) {
  std::mt19937 random(5);
  const std::vector<float> sound = MakeLogits(0, 3001, random);
  const std::vector<int32_t> all_ids = [] {
    std::vector<int32_t> ids(3001);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }();
  const int32_t hidden[] = {1700};
  std::vector<std::vector<float>> rows(9, sound);
  std::vector<RowSamplingParams> choices(rows.size());
  for (size_t i = 0; i < rows.size(); i += 2) choices[i].top_p = 0.9, choices[i].uniform = 0.37;
  rows[1][3000] = kInf;
  rows[2][0] = std::nanf("");
  rows[3].assign(3001, -kInf);
  choices[4].banned = all_ids;
  rows[5][1700] = std::nanf(""), choices[5].banned = hidden;  // a ban does not hide it
  rows[6].assign(3001, -kInf), choices[6].banned = all_ids;
  using Outcome = SampledToken::Outcome;
  const Outcome want[] = {Outcome::kChosen,    Outcome::kNonFinite,      Outcome::kNonFinite,
                          Outcome::kNonFinite, Outcome::kNoTokenAllowed, Outcome::kNonFinite,
                          Outcome::kNonFinite, Outcome::kChosen,         Outcome::kChosen};
  const auto got = Choose(rows, choices);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(got[i].outcome, want[i]) << "row " << i;
    if (want[i] != Outcome::kChosen) continue;
    EXPECT_EQ(got[i].id, Reference(sound, choices[i]).token.id) << "row " << i;
  }
}

// With many rows each gets fewer blocks.
TEST_P(SampleTokens, ChoiceIsIndependentOfTheBatch) {
  const std::array<Part, 2> made = MakePart(5003, 0);
  for (const Part& part : made) {
    const std::vector<SampledToken> alone = Choose(part.rows, part.choices);
    for (const size_t count : {50, 100, 150}) {
      std::vector<std::vector<float>> rows;
      std::vector<RowSamplingParams> choices;
      for (size_t i = 0; i < count; ++i) {
        rows.push_back(part.rows[i % part.rows.size()]), choices.push_back(part.choices[i % part.rows.size()]);
      }
      const std::vector<SampledToken> got = Choose(rows, choices);
      for (size_t i = 0; i < count; ++i) {
        const SampledToken& want = alone[i % part.rows.size()];
        ASSERT_EQ(got[i].outcome, want.outcome) << i << " of " << count;
        ASSERT_EQ(got[i].id, want.id) << i << " of " << count;
        ASSERT_EQ(std::memcmp(&got[i].logprob, &want.logprob, sizeof(float)), 0) << i << " of " << count;
      }
    }
  }
}

// A replayed graph reads the choices that are staged now.
TEST_P(SampleTokens, RepeatedStepsUseTheirOwnChoices) {
  std::mt19937 random(11);
  const std::vector<float> logits = MakeLogits(0, 5003, random);
  DeviceMatrix device(*backend_, DType::kF32, 1, 5003, logits);
  std::vector<int32_t> banned;
  for (int step = 0; step < 12; ++step) {
    RowSamplingParams choice;
    choice.temperature = step % 3;
    choice.uniform = 0.07 * step;
    choice.banned = banned;
    choice.logprobs = step % 2 == 0 ? 3 : -1;
    SampledToken token;
    backend_->SampleTokens(device.tensor(), {&choice, 1}, {&token, 1});
    backend_->Synchronize();
    ASSERT_NO_FATAL_FAILURE(ExpectEqual(token, Reference(logits, choice))) << "step " << step;
    banned.push_back(token.id);  // bans stay in the logits, so they grow
  }
}

// Two submissions are in flight; the second consumes the tokens sampled by the first before the host knows them.
TEST_P(SampleTokens, NextStepReadsChoicesOnTheDevice) {
  std::mt19937 random(13);
  constexpr int64_t kVocab = 300, kRows = 4, kWidth = 32;
  const RandomWeight weight = MakeRandomWeight(DType::kF32, kVocab, kWidth, 5);
  const Weight table = std::move(backend_->LoadWeight(weight.host()).value());
  std::vector<std::vector<float>> logits;
  std::vector<float> all;
  for (int64_t i = 0; i < 8 * kRows; ++i) {
    logits.push_back(MakeLogits(0, kVocab, random));
    all.insert(all.end(), logits.back().begin(), logits.back().end());
  }
  DeviceMatrix device(*backend_, DType::kF32, 8 * kRows, kVocab, all),
      y(*backend_, DType::kF32, 8 * kRows, kWidth, std::vector<float>(8 * kRows * kWidth));
  const std::vector<RowSamplingParams> choices(kRows, RowSamplingParams{.temperature = 0});
  std::vector<SampledToken> chosen(8 * kRows);
  uint64_t last = 0;
  for (int64_t step = 0; step < 8; ++step) {
    // Row r of a step embeds the token sampled by row r + 1 of the previous step; the last row a known token.
    const std::vector<int32_t> ids = {~1, ~2, ~3, 7};
    const std::vector<int32_t> known = {4, 5, 6, 7};
    backend_->Embed(table, step == 0 ? known : ids, 1, y.tensor().Rows(step * kRows, kRows));
    backend_->SampleTokens(device.tensor().Rows(step * kRows, kRows), choices,
                           std::span(chosen).subspan(static_cast<size_t>(step * kRows), kRows));
    const uint64_t submission = backend_->Submit();
    ASSERT_NE(submission, 0u);
    if (step > 0) backend_->WaitFor(last);
    for (int64_t i = (step - 1) * kRows; step > 0 && i < step * kRows; ++i) {
      const auto row = static_cast<size_t>(i);
      ASSERT_EQ(chosen[row].id, Reference(logits[row], choices[0]).token.id) << "row " << i;
    }
    last = submission;
  }
  backend_->WaitFor(last);
  const std::vector<float> got = y.Get();
  for (int64_t row = 0; row < 8 * kRows; ++row) {
    int64_t id = row < kRows ? row + 4 : 7;
    if (row >= kRows && row % kRows < 3) id = chosen[static_cast<size_t>(row - kRows + 1)].id;
    for (int64_t c = 0; c < kWidth; ++c) {
      const double want = weight.values[static_cast<size_t>(id * kWidth + c)];
      ASSERT_NEAR(got[static_cast<size_t>(row * kWidth + c)], want, std::fabs(want) / 128 + 1e-6) << "row " << row;
    }
  }
}

}  // namespace
}  // namespace ringside::testing
