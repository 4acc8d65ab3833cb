// Recurrent mixers: against the plain recurrence in double, and bit for bit against themselves for every split into
// steps, batch, thread count and instruction set; a dropped tail leaves no trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/kernels/reference.h"

namespace ringside::testing {
namespace {

constexpr int64_t kChunk = StateShape::kChunk;
constexpr int kSlots = 4;

struct RecurrenceCase {
  RecurrenceShape sizes;
  int64_t length = 0;
  uint32_t seed = 1;
  bool bias = false, skip = false;
  int64_t layers = 1;

  std::vector<float> Inputs() const { return RandomFloats(Size(length * sizes.channels()), seed, 1); }
  std::vector<float> Rates() const { return RandomFloats(Size(length * sizes.decays()), seed + 1, 2); }
  std::vector<float> Betas() const { return RandomFloats(Size(length * sizes.value_heads), seed + 2, 2); }
  std::vector<float> Convolution() const { return RandomFloats(Size(sizes.kernel * sizes.channels()), 21, 0.7f); }
  std::vector<float> Bias() const { return RandomFloats(bias ? Size(sizes.channels()) : 0, 22, 0.5f); }
  std::vector<float> RateBias() const { return RandomFloats(Size(sizes.decays()), 23); }
  std::vector<float> Skip() const { return RandomFloats(skip ? Size(sizes.value_heads) : 0, 24); }
  std::vector<float> Rate() const {
    std::vector<float> rate = RandomFloats(Size(sizes.decays()), 25);
    for (float& r : rate) r = -0.02f - 0.3f * r * r;
    return rate;
  }
  int64_t out_columns() const { return sizes.mixer == Mixer::kConvolution ? sizes.channels() : sizes.values(); }
  KvShape Shape() const {
    KvShape shape{.layers = 1, .kv_heads = 1, .head_dim = 16, .ring_tiles = 1, .state = sizes.StateOf(layers)};
    shape.state.slots = kSlots;
    return shape;
  }

  static size_t Size(int64_t count) { return static_cast<size_t>(count); }
};

/// The plain recurrence, token by token, in double.
std::vector<double> PlainRecurrence(const RecurrenceCase& c) {
  const RecurrenceShape& s = c.sizes;
  const std::vector<float> x = c.Inputs(), rates = c.Rates(), betas = c.Betas(), w = c.Convolution(), bias = c.Bias(),
                           rate_bias = c.RateBias(), rate = c.Rate(), skip = c.Skip();
  const auto at = [](const std::vector<float>& v, int64_t i) { return static_cast<double>(v[static_cast<size_t>(i)]); };
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  std::vector<double> state(static_cast<size_t>(s.state_floats())), out;
  for (int64_t t = 0; t < c.length; ++t) {
    std::vector<double> y;
    for (int64_t i = 0; i < s.channels(); ++i) {
      double sum = c.bias ? at(bias, i) : 0;
      for (int64_t j = 0; j < s.kernel; ++j) {
        const int64_t from = t - s.kernel + 1 + j;
        if (from >= 0) sum += at(w, j * s.channels() + i) * at(x, from * s.channels() + i);
      }
      y.push_back(s.mixer == Mixer::kConvolution ? sum : sum * sigmoid(sum));
    }
    if (s.mixer == Mixer::kConvolution) {
      out.insert(out.end(), y.begin(), y.end());
      continue;
    }
    for (int64_t head = 0; head < s.value_heads; ++head) {
      const int64_t key_head = s.alternates ? head % s.key_heads : head / (s.value_heads / s.key_heads);
      const auto vector = [&](int64_t channel, bool normed, double scale) {
        std::vector<double> v(y.begin() + channel, y.begin() + channel + s.key_size);
        double squares = 1e-6;
        for (const double e : v) squares += e * e;
        for (double& e : v) e *= normed ? scale / std::sqrt(squares) : 1;
        return v;
      };
      const double scale = 1 / std::sqrt(static_cast<double>(s.key_size));
      const auto q = vector(s.query_channel() + key_head * s.key_size, s.corrects(), scale),
                 k = vector(s.key_channel() + key_head * s.key_size, s.corrects(), 1);
      double weight = s.corrects() ? s.largest_beta * sigmoid(at(betas, t * s.value_heads + head)) : 0;
      double* of_head = state.data() + head * s.key_size * s.value_size;
      for (int64_t i = 0; i < s.key_size; ++i) {
        const int64_t column = s.mixer == Mixer::kKda ? key_head * s.key_size + i : head;
        const double step = std::log1p(std::exp(at(rates, t * s.decays() + column) + at(rate_bias, column)));
        if (!s.corrects()) weight = step;
        for (int64_t j = 0; j < s.value_size; ++j) of_head[i * s.value_size + j] *= std::exp(at(rate, column) * step);
      }
      for (int64_t j = 0; j < s.value_size; ++j) {
        const double v = y[static_cast<size_t>(s.value_channel() + head * s.value_size + j)];
        double held = 0, result = 0;
        for (int64_t i = 0; i < s.key_size; ++i) held += of_head[i * s.value_size + j] * k[static_cast<size_t>(i)];
        const double update = weight * (s.corrects() ? v - held : v);
        for (int64_t i = 0; i < s.key_size; ++i) {
          of_head[i * s.value_size + j] += update * k[static_cast<size_t>(i)];
          result += of_head[i * s.value_size + j] * q[static_cast<size_t>(i)];
        }
        out.push_back(result + (c.skip ? at(skip, head) * v : 0));
      }
    }
  }
  return out;
}

/// A sequence on a backend, with hand-made slots: boundary b in slot (b / kChunk) % kSlots.
class Sequence {
 public:
  Sequence(Backend& backend, const RecurrenceCase& c, int64_t layer = 0)
      : case_(c),
        layer_(layer),
        slab_(std::move(backend.Allocate(static_cast<size_t>(c.Shape().slab_bytes())).value())) {
    auto* floats = static_cast<float*>(slab_.data());  // no stale value may be read
    std::fill_n(floats, c.Shape().state.bytes() / int64_t{sizeof(float)}, NAN);
  }
  Sequence(Backend& backend, const Sequence& other) : Sequence(backend, other.case_, other.layer_) {
    std::memcpy(slab_.data(), other.slab_.data(), slab_.bytes());
    position_ = other.position_;
  }

  const RecurrenceCase& tokens() const { return case_; }
  int64_t position() const { return position_; }
  /// The rows [first, first + rows) of the case's inputs as a segment at the end.
  AttentionSegment Append(int64_t first_row, int64_t rows, bool all_writes) {
    writes_.clear();
    for (int64_t b = StateShape::BoundaryBefore(position_) + kChunk; b <= position_ + rows; b += kChunk) {
      if (!all_writes && b + kChunk <= position_ + rows) continue;
      writes_.push_back({b, SlotOf(b)});
    }
    const int64_t boundary = StateShape::BoundaryBefore(position_);
    const AttentionSegment segment{.first_row = first_row,
                                   .rows = rows,
                                   .position = position_,
                                   .slab = slab_.data(),
                                   .state_slot = boundary == 0 ? -1 : SlotOf(boundary),
                                   .state_writes = writes_};
    position_ += rows;
    return segment;
  }
  void DropRows(int64_t rows) { position_ -= rows; }

 private:
  // Two slots take turns.
  static int SlotOf(int64_t boundary) { return static_cast<int>(boundary / kChunk % kSlots); }

  const RecurrenceCase case_;
  const int64_t layer_;
  Buffer slab_;
  std::vector<StateWrite> writes_;
  int64_t position_ = 0;
};

/// Part of a step: rows of the case's inputs from `first` on.
struct StepRows {
  Sequence* sequence;
  int64_t first, rows;
};

/// Runs a step; returns each part's outputs.
std::vector<std::vector<float>> RunStep(Backend& backend, std::span<const StepRows> parts, bool all_writes = true,
                                        int64_t layer = 0) {
  const RecurrenceCase& any = parts[0].sequence->tokens();
  const RecurrenceShape& sizes = any.sizes;
  std::vector<float> x, rates, betas, w = any.Convolution(), bias = any.Bias(), rate_bias = any.RateBias(),
                                      rate = any.Rate(), skip = any.Skip();
  std::vector<AttentionSegment> segments;
  int64_t rows = 0;
  for (const StepRows& part : parts) {
    const RecurrenceCase& c = part.sequence->tokens();
    segments.push_back(part.sequence->Append(rows, part.rows, all_writes));
    rows += part.rows;
    const auto add = [&](std::vector<float>& to, const std::vector<float>& all, int64_t width) {
      to.insert(to.end(), all.begin() + part.first * width, all.begin() + (part.first + part.rows) * width);
    };
    add(x, c.Inputs(), sizes.channels()), add(rates, c.Rates(), sizes.decays());
    add(betas, c.Betas(), sizes.value_heads);
  }
  std::vector<float> mixed(static_cast<size_t>(rows * sizes.mixed_columns()), NAN),
      out(static_cast<size_t>(rows * any.out_columns()));
  backend.Recur({.sizes = sizes,
                 .weights = {.convolution = w.data(),
                             .convolution_bias = bias.empty() ? nullptr : bias.data(),
                             .rate_bias = rate_bias.data(),
                             .rate = rate.data(),
                             .skip = skip.empty() ? nullptr : skip.data()},
                 .x = AsTensor(x, rows, sizes.channels()),
                 .rates = AsTensor(rates, rows, sizes.decays()),
                 .betas = AsTensor(betas, rows, sizes.value_heads),
                 .mixed = AsTensor(mixed, rows, sizes.mixed_columns()),
                 .out = AsTensor(out, rows, any.out_columns()),
                 .layer = layer,
                 .shape = any.Shape(),
                 .segments = segments});
  std::vector<std::vector<float>> results;
  auto from = out.begin();
  for (const StepRows& part : parts) {
    results.emplace_back(from, from + part.rows * any.out_columns());
    from += part.rows * any.out_columns();
  }
  return results;
}

/// The whole case in steps of `chunk` rows.
std::vector<float> RunInSteps(Backend& backend, const RecurrenceCase& c, int64_t chunk, bool all_writes = true,
                              int64_t layer = 0) {
  Sequence sequence(backend, c, layer);
  std::vector<float> out;
  for (int64_t at = 0; at < c.length; at += chunk) {
    const StepRows part{&sequence, at, std::min(chunk, c.length - at)};
    const std::vector<float> rows = RunStep(backend, {&part, 1}, all_writes, layer)[0];
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

RecurrenceShape Sized(Mixer mixer, int64_t key_heads, int64_t value_heads, int64_t key_size, int64_t value_size,
                      int64_t kernel = 4) {
  return {mixer, key_heads, value_heads, key_size, value_size, kernel};
}
RecurrenceShape Alternating(RecurrenceShape sizes) {
  sizes.alternates = true;
  sizes.largest_beta = 2;
  return sizes;
}
RecurrenceShape Convolution(int64_t width, int64_t kernel) {
  return {.mixer = Mixer::kConvolution, .kernel = kernel, .width = width};
}

std::vector<RecurrenceCase> Cases() {
  return {{.sizes = Sized(Mixer::kDeltaNet, 2, 4, 24, 16), .length = 230},
          {.sizes = Sized(Mixer::kDeltaNet, 1, 1, 32, 80, 2), .length = 150, .seed = 5},
          {.sizes = Alternating(Sized(Mixer::kDeltaNet, 2, 6, 16, 16)), .length = 130, .seed = 33},
          {.sizes = Sized(Mixer::kMamba2, 1, 3, 16, 32), .length = 200, .seed = 9, .bias = true, .skip = true},
          {.sizes = Sized(Mixer::kMamba2, 2, 4, 20, 48, 3), .length = 140, .seed = 13, .layers = 2},
          {.sizes = Sized(Mixer::kKda, 2, 2, 24, 32), .length = 210, .seed = 17},
          {.sizes = Convolution(40, 3), .length = 150, .seed = 25},
          {.sizes = Convolution(17, 16), .length = 150, .bias = true}};
}

class RecurrenceOnEachSet : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, RecurrenceOnEachSet, ::testing::ValuesIn(InstructionSets()),
                         [](const auto& info) { return info.param; });

TEST_P(RecurrenceOnEachSet, MatchesThePlainRecurrence) {
  const auto backend = MakeBackend(GetParam(), 2);
  for (const RecurrenceCase& c : Cases()) {
    const std::vector<double> want = PlainRecurrence(c);
    const std::vector<float> got = RunInSteps(*backend, c, c.length);
    ASSERT_EQ(got.size(), want.size());
    double error = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) error += std::pow(got[i] - want[i], 2), size += std::pow(want[i], 2);
    EXPECT_LT(std::sqrt(error / size), 1e-5) << static_cast<int>(c.sizes.mixer);
  }
}

TEST_P(RecurrenceOnEachSet, SameBitsForEverySplitAndThreadCount) {
  const auto portable = MakeBackend("portable", 1), one = MakeBackend(GetParam(), 1),
             three = MakeBackend(GetParam(), 3);
  for (const RecurrenceCase& c : Cases()) {
    const std::vector<float> want = RunInSteps(*portable, c, c.length);
    for (const int64_t chunk : {1, 7, 64, 100, 1000}) {
      EXPECT_EQ(RunInSteps(*one, c, chunk), want) << "chunk " << chunk;
      EXPECT_EQ(RunInSteps(*three, c, chunk, false), want) << "chunk " << chunk;
    }
  }
}

TEST_P(RecurrenceOnEachSet, ResultIsIndependentOfTheBatchAndTheLayer) {
  const auto backend = MakeBackend(GetParam(), 2);
  for (RecurrenceCase c : Cases()) {
    c.layers = 2;
    RecurrenceCase other = c;
    other.seed = 77;
    const std::vector<float> want = RunInSteps(*backend, c, 50), others = RunInSteps(*backend, other, 1);
    EXPECT_EQ(RunInSteps(*backend, c, 9, true, 1), want);
    Sequence first(*backend, c), second(*backend, other);
    std::vector<float> got, got_other;
    for (int64_t at = 0; at < c.length; at += 30) {
      const int64_t rows = std::min<int64_t>(30, c.length - at);
      const StepRows parts[] = {{&second, at, rows}, {&first, at, rows}};
      const auto results = RunStep(*backend, parts);
      got_other.insert(got_other.end(), results[0].begin(), results[0].end());
      got.insert(got.end(), results[1].begin(), results[1].end());
    }
    EXPECT_EQ(got, want);
    EXPECT_EQ(got_other, others);
  }
}

// At every position: a rejected draft is dropped, and the next token's output is that of a sequence without it.
TEST_P(RecurrenceOnEachSet, DroppedRowsLeaveNoTrace) {
  const auto backend = MakeBackend(GetParam(), 1);
  for (const RecurrenceCase& c : Cases()) {
    const std::vector<float> want = RunInSteps(*backend, c, 1);
    Sequence sequence(*backend, c);
    for (int64_t t = 0; t < c.length; ++t) {
      Sequence copy(*backend, sequence);
      const int64_t draft = std::min<int64_t>(4, kChunk - 1 - t % kChunk);
      if (draft > 0) {
        const StepRows rejected{&copy, 40, draft};
        RunStep(*backend, {&rejected, 1});
        copy.DropRows(draft);
      }
      const StepRows next{&copy, t, 1}, own{&sequence, t, 1};
      const std::vector<float> got = RunStep(*backend, {&next, 1})[0];
      ASSERT_TRUE(std::equal(got.begin(), got.end(), want.begin() + t * c.out_columns())) << t;
      RunStep(*backend, {&own, 1});
    }
  }
}

TEST_P(RecurrenceOnEachSet, GateMultiplies) {
  const auto backend = MakeBackend(GetParam(), 2), portable = MakeBackend("portable", 1);
  const std::function<double(double)> functions[] = {[](double g) { return 1 / (1 + std::exp(-g)); },
                                                     [](double g) { return g / (1 + std::exp(-g)); },
                                                     [](double g) { return g; }};
  for (size_t kind = 0; kind < 3; ++kind) {
    for (const int64_t n : {1, 16, 37, 400}) {
      std::vector<float> gate = RandomFloats(static_cast<size_t>(5 * n), 1, 4), x = RandomFloats(gate.size(), 2), y = x,
                         z = x;
      backend->Gate(AsTensor(gate, 5, n), static_cast<GateKind>(kind), AsTensor(y, 5, n));
      portable->Gate(AsTensor(gate, 5, n), static_cast<GateKind>(kind), AsTensor(z, 5, n));
      EXPECT_EQ(y, z);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i], x[i] * functions[kind](gate[i]), 1e-5);
    }
  }
}

}  // namespace
}  // namespace ringside::testing
