// Recurrent mixers on every device: against the plain recurrence in double, and bit for bit against themselves for
// every split into steps, batch, thread count and instruction set; a dropped tail leaves no trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "tests/kernels/devices.h"
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
  float decay = 1;  // factor of the decays

  std::vector<float> Inputs() const { return RandomFloats(Size(length * sizes.channels()), seed, 1); }
  std::vector<float> Rates() const { return RandomFloats(Size(length * sizes.decays()), seed + 1, 2); }
  std::vector<float> Betas() const { return RandomFloats(Size(length * sizes.value_heads), seed + 2, 2); }
  std::vector<float> Convolution() const { return RandomFloats(Size(sizes.kernel * sizes.channels()), 21, 0.7f); }
  std::vector<float> Bias() const { return RandomFloats(bias ? Size(sizes.channels()) : 0, 22, 0.5f); }
  std::vector<float> RateBias() const { return RandomFloats(Size(sizes.decays()), 23); }
  std::vector<float> Skip() const { return RandomFloats(skip ? Size(sizes.value_heads) : 0, 24); }
  std::vector<float> Rate() const {
    std::vector<float> rate = RandomFloats(Size(sizes.decays()), 25);
    for (float& r : rate) r = decay * (-0.02f - 0.3f * r * r);
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
  Sequence(Backend& backend, const RecurrenceCase& c)
      : case_(c),
        backend_(backend),
        slab_(std::move(backend.Allocate(static_cast<size_t>(c.Shape().slab_bytes())).value())),
        x_(c.Inputs()),
        rates_(c.Rates()),
        betas_(c.Betas()),
        convolution_(backend, c.Convolution()),
        bias_(backend, c.Bias()),
        rate_bias_(backend, c.RateBias()),
        rate_(backend, c.Rate()),
        skip_(backend, c.Skip()) {
    const std::vector<float> stale(slab_.bytes() / sizeof(float), NAN);  // must not be read
    backend.CopyToDevice(slab_.data(), stale.data(), slab_.bytes());
    backend.Synchronize();
  }
  Sequence(Backend& backend, const Sequence& other) : Sequence(backend, other.case_) {
    backend.CopyOnDevice(slab_.data(), other.slab_.data(), slab_.bytes());
    position_ = other.position_;
  }

  const RecurrenceCase& tokens() const { return case_; }
  const std::vector<float>& x() const { return x_; }
  const std::vector<float>& rates() const { return rates_; }
  const std::vector<float>& betas() const { return betas_; }
  RecurrenceWeights weights() const {
    return {.convolution = convolution_.data(),
            .convolution_bias = case_.bias ? bias_.data() : nullptr,
            .rate_bias = rate_bias_.data(),
            .rate = rate_.data(),
            .skip = case_.skip ? skip_.data() : nullptr};
  }
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
  /// The floats of the slab's state; NaN where none was stored.
  std::vector<float> State() const {
    std::vector<float> out(static_cast<size_t>(case_.Shape().state.bytes()) / sizeof(float));
    backend_.CopyToHost(out.data(), slab_.data(), out.size() * sizeof(float));
    backend_.Synchronize();
    return out;
  }

 private:
  // Two slots take turns.
  static int SlotOf(int64_t boundary) { return static_cast<int>(boundary / kChunk % kSlots); }

  const RecurrenceCase case_;
  Backend& backend_;
  Buffer slab_;
  const std::vector<float> x_, rates_, betas_;
  const DeviceFloats convolution_, bias_, rate_bias_, rate_, skip_;
  std::vector<StateWrite> writes_;
  int64_t position_ = 0;
};

/// Part of a step: rows of the case's inputs from `first` on.
struct StepRows {
  Sequence* sequence;
  int64_t first, rows;
};

/// How a step is run.
struct StepOptions {
  bool all_writes = true;  // stores every boundary, not only the last
  int64_t layer = 0;
  DType type = DType::kF32;  // of inputs and results
};

/// Runs a step; returns each part's outputs.
std::vector<std::vector<float>> RunStep(Backend& backend, std::span<const StepRows> parts,
                                        const StepOptions& options = {}) {
  const RecurrenceCase& any = parts[0].sequence->tokens();
  const RecurrenceShape& sizes = any.sizes;
  std::vector<float> x, rates, betas;
  std::vector<AttentionSegment> segments;
  int64_t rows = 0;
  for (const StepRows& part : parts) {
    segments.push_back(part.sequence->Append(rows, part.rows, options.all_writes));
    rows += part.rows;
    const auto add = [&](std::vector<float>& to, const std::vector<float>& all, int64_t width) {
      to.insert(to.end(), all.begin() + part.first * width, all.begin() + (part.first + part.rows) * width);
    };
    add(x, part.sequence->x(), sizes.channels()), add(rates, part.sequence->rates(), sizes.decays());
    add(betas, part.sequence->betas(), sizes.value_heads);
  }
  const auto matrix = [&](DType type, int64_t cols, const std::vector<float>& values) {
    return DeviceMatrix(backend, type, rows, cols, values);
  };
  const auto nans = [&](int64_t cols) { return std::vector<float>(static_cast<size_t>(rows * cols), NAN); };
  const DeviceMatrix x_rows = matrix(options.type, sizes.channels(), x),
                     rate_rows = matrix(options.type, sizes.decays(), rates),
                     beta_rows = matrix(options.type, sizes.value_heads, betas),
                     mixed = matrix(DType::kF32, sizes.mixed_columns(), nans(sizes.mixed_columns())),
                     out = matrix(options.type, any.out_columns(), nans(any.out_columns()));
  backend.Recur({.sizes = sizes,
                 .weights = parts[0].sequence->weights(),
                 .x = x_rows.tensor(),
                 .rates = rate_rows.tensor(),
                 .betas = beta_rows.tensor(),
                 .mixed = mixed.tensor(),
                 .out = out.tensor(),
                 .layer = options.layer,
                 .shape = any.Shape(),
                 .segments = segments});
  const std::vector<float> all = out.Get();
  std::vector<std::vector<float>> results;
  auto from = all.begin();
  for (const StepRows& part : parts) {
    results.emplace_back(from, from + part.rows * any.out_columns());
    from += part.rows * any.out_columns();
  }
  return results;
}

/// The rest of the sequence's case in steps of `chunk` rows.
std::vector<float> Continue(Backend& backend, Sequence* sequence, int64_t chunk, const StepOptions& options = {}) {
  std::vector<float> out;
  const int64_t length = sequence->tokens().length;
  for (int64_t at = sequence->position(); at < length; at += chunk) {
    const StepRows part{sequence, at, std::min(chunk, length - at)};
    const std::vector<float> rows = RunStep(backend, {&part, 1}, options)[0];
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}
/// The whole case in steps of `chunk` rows.
std::vector<float> RunInSteps(Backend& backend, const RecurrenceCase& c, int64_t chunk,
                              const StepOptions& options = {}) {
  Sequence sequence(backend, c);
  return Continue(backend, &sequence, chunk, options);
}

/// The root mean square of the differences, relative to that of the values.
template <class Values>
double RelativeError(const std::vector<float>& got, const Values& want) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) error += std::pow(got[i] - want[i], 2), size += std::pow(want[i], 2);
  return std::sqrt(error / size);
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
    EXPECT_LT(RelativeError(got, want), 1e-5) << static_cast<int>(c.sizes.mixer);
  }
}

TEST_P(RecurrenceOnEachSet, SameBitsForEverySplitAndThreadCount) {
  const auto portable = MakeBackend("portable", 1), one = MakeBackend(GetParam(), 1),
             three = MakeBackend(GetParam(), 3);
  for (const RecurrenceCase& c : Cases()) {
    const std::vector<float> want = RunInSteps(*portable, c, c.length);
    for (const int64_t chunk : {1, 7, 64, 100, 1000}) {
      EXPECT_EQ(RunInSteps(*one, c, chunk), want) << "chunk " << chunk;
      EXPECT_EQ(RunInSteps(*three, c, chunk, {.all_writes = false}), want) << "chunk " << chunk;
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
    EXPECT_EQ(RunInSteps(*backend, c, 9, {.layer = 1}), want);
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

// ---- devices

/// Cases with the sizes of real networks, and with heads that a block cannot hold.
std::vector<RecurrenceCase> LargeCases() {
  return {{.sizes = Sized(Mixer::kDeltaNet, 2, 6, 128, 128), .length = 300, .seed = 41},
          {.sizes = Sized(Mixer::kKda, 2, 2, 128, 128), .length = 200, .seed = 43},
          {.sizes = Sized(Mixer::kKda, 1, 1, 128, 32), .length = 140, .seed = 44, .decay = 60},
          {.sizes = Sized(Mixer::kDeltaNet, 1, 1, 128, 32), .length = 140, .seed = 44, .decay = 60},
          {.sizes = Sized(Mixer::kDeltaNet, 1, 1, 128, 64), .length = 140, .seed = 44, .decay = 60},
          {.sizes = Sized(Mixer::kDeltaNet, 1, 1, 128, 64), .length = 200, .seed = 44, .decay = 0.01f},
          {.sizes = Sized(Mixer::kMamba2, 1, 4, 128, 64), .length = 200, .seed = 45, .bias = true, .skip = true},
          {.sizes = Alternating(Sized(Mixer::kDeltaNet, 2, 6, 64, 48)), .length = 280, .seed = 46},
          {.sizes = Sized(Mixer::kDeltaNet, 1, 2, 192, 256), .length = 150, .seed = 47},
          {.sizes = Convolution(2048, 3), .length = 150, .seed = 49}};
}
std::vector<RecurrenceCase> AllCases() {
  std::vector<RecurrenceCase> all = Cases();
  for (RecurrenceCase& c : LargeCases()) all.push_back(std::move(c));
  return all;
}

std::ostream& operator<<(std::ostream& out, const RecurrenceCase& c) {
  return out << "mixer " << static_cast<int>(c.sizes.mixer) << ", " << c.sizes.key_heads << " and "
             << c.sizes.value_heads << " heads of " << c.sizes.key_size << " and " << c.sizes.value_size;
}

class DeviceRecurrence : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }
  bool fixed() const { return HasFixedOrder(GetParam()); }
  /// Bits are equal on devices with a fixed order; elsewhere numbers are about equal.
  void ExpectSame(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) const {
    ASSERT_EQ(got.size(), want.size());
    if (!fixed()) {
      EXPECT_LT(RelativeError(got, want), 2e-5) << what;
      return;
    }
    const auto [mine, other] = std::ranges::mismatch(got, want);
    EXPECT_TRUE(mine == got.end()) << what << ": element " << mine - got.begin() << " is " << *mine << ", not "
                                   << *other;
  }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceRecurrence, ::testing::Values("cpu", "cuda_bf16", "cuda_f16", "cuda_bf16_fixed"),
                         [](const auto& info) { return info.param; });

TEST_P(DeviceRecurrence, MatchesThePlainRecurrence) {
  for (const RecurrenceCase& c : AllCases()) {
    SCOPED_TRACE(c);
    const std::vector<double> want = PlainRecurrence(c);
    for (const int64_t chunk : {int64_t{1}, int64_t{48}, c.length}) {
      const std::vector<float> got = RunInSteps(*backend_, c, chunk);
      ASSERT_EQ(got.size(), want.size());
      EXPECT_LT(RelativeError(got, want), 1e-4) << "chunk " << chunk;
    }
  }
}

TEST_P(DeviceRecurrence, EverySplitGivesTheSameResult) {
  for (const RecurrenceCase& c : AllCases()) {
    SCOPED_TRACE(c);
    const std::vector<float> want = RunInSteps(*backend_, c, c.length);
    for (const int64_t chunk : {1, 7, 64, 100}) {
      ExpectSame(RunInSteps(*backend_, c, chunk, {.all_writes = chunk % 2 == 0}), want,
                 "chunk " + std::to_string(chunk));
    }
  }
}

// Boundaries, windows and tails, in a slab of two layers.
TEST_P(DeviceRecurrence, StoresTheStateOfTheReference) {
  const auto reference = MakeBackend("portable", 1);
  for (RecurrenceCase c : AllCases()) {
    SCOPED_TRACE(c);
    c.layers = 2, c.length -= 3;
    for (const int64_t chunk : {int64_t{1}, int64_t{23}, int64_t{90}, c.length}) {
      Sequence ours(*backend_, c), theirs(*reference, c);
      Continue(*backend_, &ours, chunk, {.layer = 1}), Continue(*reference, &theirs, chunk, {.layer = 1});
      const std::vector<float> got = ours.State(), want = theirs.State();
      double error = 0, size = 0;
      int64_t different = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        different += std::isnan(got[i]) != std::isnan(want[i]);
        if (std::isnan(got[i]) || std::isnan(want[i])) continue;
        error += std::pow(got[i] - want[i], 2), size += std::pow(want[i], 2);
      }
      EXPECT_EQ(different, 0) << "floats that only one of both stores, chunk " << chunk;
      EXPECT_LT(std::sqrt(error / size), 1e-5) << "chunk " << chunk;
    }
  }
}

// Long rows next to single ones, and sequences that begin next to those that continue.
TEST_P(DeviceRecurrence, BatchMatesChangeNothing) {
  for (const RecurrenceCase& c : AllCases()) {
    SCOPED_TRACE(c);
    RecurrenceCase other = c;
    other.seed = 77;
    const std::vector<float> want = RunInSteps(*backend_, c, 50), others = RunInSteps(*backend_, other, 1);
    Sequence first(*backend_, c), second(*backend_, other);
    std::vector<float> got, got_other;
    const auto step = [&](int64_t rows, int64_t other_rows) {
      const StepRows parts[] = {{&second, second.position(), other_rows}, {&first, first.position(), rows}};
      const auto results = RunStep(*backend_, parts);
      got_other.insert(got_other.end(), results[0].begin(), results[0].end());
      got.insert(got.end(), results[1].begin(), results[1].end());
    };
    step(70, 1), step(1, 1), step(1, 1), step(1, 40), step(5, 30);
    ExpectSame(got, {want.begin(), want.begin() + std::ssize(got)}, "first");
    ExpectSame(got_other, {others.begin(), others.begin() + std::ssize(got_other)}, "second");
  }
}

TEST_P(DeviceRecurrence, DroppedRowsLeaveNoTrace) {
  for (const RecurrenceCase& c : {Cases()[0], Cases()[3], Cases()[5], Cases()[6], LargeCases()[0]}) {
    SCOPED_TRACE(c);
    const std::vector<float> want = RunInSteps(*backend_, c, 1);
    Sequence sequence(*backend_, c);
    std::vector<float> got;
    while (sequence.position() < c.length) {
      const int64_t t = sequence.position(), draft = std::min<int64_t>(4, kChunk - 1 - t % kChunk);
      if (draft > 0) {
        const StepRows rejected{&sequence, 40, draft};
        RunStep(*backend_, {&rejected, 1});
        sequence.DropRows(draft);
      }
      const StepRows next{&sequence, t, 1};
      const std::vector<float> row = RunStep(*backend_, {&next, 1})[0];
      got.insert(got.end(), row.begin(), row.end());
    }
    ExpectSame(got, want, "after rejected drafts");
  }
}

// One row of each of many sequences, at many positions of a chunk: the sizes of blocks depend on the number of rows.
TEST_P(DeviceRecurrence, ManySingleRowsMatchSequencesAlone) {
  constexpr int64_t kSequences = 34, kApart = 2;
  for (const RecurrenceCase& c : {LargeCases()[0], LargeCases()[1], Cases()[3]}) {
    SCOPED_TRACE(c);
    const std::vector<float> want = RunInSteps(*backend_, c, 50);
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<StepRows> parts;
    for (int64_t i = 0; i < kSequences; ++i) {
      sequences.push_back(std::make_unique<Sequence>(*backend_, c));
      const StepRows prompt{sequences.back().get(), 0, 1 + i * kApart};
      RunStep(*backend_, {&prompt, 1});
      parts.push_back({prompt.sequence, prompt.rows, 1});
    }
    const auto results = RunStep(*backend_, parts);
    for (int64_t i = 0; i < kSequences; ++i) {
      const auto row = want.begin() + parts[static_cast<size_t>(i)].first * c.out_columns();
      ExpectSame(results[static_cast<size_t>(i)], {row, row + c.out_columns()}, "sequence " + std::to_string(i));
    }
  }
}

// More whole chunks than the scratch memory of a device has room for.
TEST_P(DeviceRecurrence, LongPromptsMatchTheReference) {
  const auto reference = MakeBackend(CpuInstructionSets().back(), 2);
  for (const RecurrenceShape& sizes :
       {Sized(Mixer::kDeltaNet, 1, 48, 64, 16), Sized(Mixer::kDeltaNet, 2, 48, 128, 64)}) {
    const RecurrenceCase c{.sizes = sizes, .length = 6000, .seed = 51};
    SCOPED_TRACE(c);
    const std::vector<float> want = RunInSteps(*reference, c, c.length);
    for (const int64_t chunk : {c.length, int64_t{5900}}) {
      EXPECT_LT(RelativeError(RunInSteps(*backend_, c, chunk, {.all_writes = false}), want), 2e-5) << "chunk " << chunk;
    }
  }
}

// Inputs and results in the type of activations, as networks pass them.
TEST_P(DeviceRecurrence, TakesActivations) {
  for (const RecurrenceCase& c : AllCases()) {
    SCOPED_TRACE(c);
    const std::vector<double> want = PlainRecurrence(c);
    for (const int64_t chunk : {int64_t{1}, c.length}) {
      const std::vector<float> got = RunInSteps(*backend_, c, chunk, {.type = type_});
      // Rates and inputs are rounded too, and the state amplifies their errors.
      EXPECT_LT(RelativeError(got, want), 1e-5 + 20 * Rounding(type_)) << "chunk " << chunk;
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
