#include "engine/vision/resize.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ringside {
namespace {

constexpr int kFractionBits = 22;
constexpr int64_t kChannels = 3;

double Triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

// Keys' cubic convolution with a = -0.5 (Keys 1981).
double Cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

/// The source pixels of one output pixel, with their weights in fixed point.
struct Taps {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<Taps> MakeTaps(const ResizeAxis& axis, Resampling resampling) {
  const bool cubic = resampling == Resampling::kBicubic;
  const double scale = static_cast<double>(axis.in) / static_cast<double>(axis.out), widened = std::max(scale, 1.0),
               support = (cubic ? 2.0 : 1.0) * widened;
  std::vector<Taps> all;
  for (int64_t i = axis.first; i < axis.first + axis.count; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    Taps& taps = all.emplace_back();
    taps.first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const int64_t end = std::min(axis.in, static_cast<int64_t>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int64_t x = taps.first; x < end; ++x) {
      const double distance = (static_cast<double>(x) - center + 0.5) / widened;
      sum += weights.emplace_back(cubic ? Cubic(distance) : Triangle(distance));
    }
    for (const double weight : weights) {
      const double fixed = (sum != 0 ? weight / sum : weight) * (1 << kFractionBits);
      taps.weights.push_back(static_cast<int32_t>(fixed < 0 ? fixed - 0.5 : fixed + 0.5));
    }
  }
  return all;
}

/// The weighted sum of pixels that are `stride` values apart.
uint8_t Sum(const uint8_t* from, int64_t stride, std::span<const int32_t> weights) {
  int32_t sum = 1 << (kFractionBits - 1);
  for (const int32_t weight : weights) {
    sum += *from * weight;
    from += stride;
  }
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

}  // namespace

std::vector<uint8_t> Resize(std::span<const uint8_t> rgb, const ResizeAxis& x, const ResizeAxis& y,
                            Resampling resampling) {
  CHECK_EQ(std::ssize(rgb), x.in * y.in * kChannels);
  CHECK(x.first >= 0 && x.first + x.count <= x.out && y.first >= 0 && y.first + y.count <= y.out);
  const std::vector<Taps> across = MakeTaps(x, resampling), down = MakeTaps(y, resampling);
  // Rows that the second pass reads.
  const int64_t begin = down.front().first, end = down.back().first + std::ssize(down.back().weights);
  std::vector<uint8_t> narrow(static_cast<size_t>((end - begin) * x.count * kChannels));
  uint8_t* out = narrow.data();
  for (int64_t row = begin; row < end; ++row) {
    for (const Taps& taps : across) {
      const uint8_t* from = rgb.data() + (row * x.in + taps.first) * kChannels;
      for (int64_t c = 0; c < kChannels; ++c) *out++ = Sum(from + c, kChannels, taps.weights);
    }
  }
  const int64_t stride = x.count * kChannels;
  std::vector<uint8_t> resized(static_cast<size_t>(y.count * stride));
  out = resized.data();
  for (const Taps& taps : down) {
    const uint8_t* from = narrow.data() + (taps.first - begin) * stride;
    for (int64_t i = 0; i < stride; ++i) *out++ = Sum(from + i, stride, taps.weights);
  }
  return resized;
}

}  // namespace ringside
