// The numbers of the CPU's kernels are the same on x86-64 and AArch64: each instruction set of this machine gives the
// recorded digests. A change of the arithmetic changes them; record those that the test prints.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/instruction_sets.h"

namespace ringside::testing {
namespace {

using cpu::ActivationBlock;
using cpu::KernelTable;

constexpr uint64_t kRowOpsDigest = 1336174236722390101u, kEightBitsDigest = 4532419894432895575u,
                   kQ4Digest = 13019679037524553822u, kQ6Digest = 3595269176160565999u,
                   kHalfDigest = 18259523875168439174u;

/// FNV-1a.
class Digest {
 public:
  template <class T>
  void Add(const std::vector<T>& values) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    for (size_t i = 0; i < values.size() * sizeof(T); ++i) value_ = (value_ ^ bytes[i]) * 1099511628211u;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037u;
};

/// By integer arithmetic: the library's distributions may differ.
class Numbers {
 public:
  uint32_t Next() {
    return static_cast<uint32_t>((state_ = state_ * 6364136223846793005u + 1442695040888963407u) >> 33);
  }
  std::vector<float> Floats(size_t n, float scale) {
    std::vector<float> out(n);
    for (float& x : out) x = (static_cast<float>(Next() % 200001) - 100000.0f) * 1e-5f * scale;
    return out;
  }
  /// float16 numbers from 2^-7 to 2^-1, of either sign.
  std::vector<uint16_t> Halves(size_t n) {
    std::vector<uint16_t> out(n);
    for (uint16_t& x : out) x = static_cast<uint16_t>((Next() & 0x83ff) | (8 + Next() % 6) << 10);
    return out;
  }

 private:
  uint64_t state_ = 1;
};

class Processors : public ::testing::TestWithParam<std::string_view> {
 protected:
  const KernelTable& kernels() const { return *cpu::FindKernelTable(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, Processors, ::testing::ValuesIn(CpuInstructionSets().begin(), CpuInstructionSets().end()),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Processors, RowOperationsGiveTheRecordedBits) {
  constexpr int64_t n = 1003;
  Numbers numbers;
  std::vector<float> x = numbers.Floats(n, 12), y(n);
  const std::vector<float> w = numbers.Floats(n, 3), b = numbers.Floats(n, 3);
  x[5] = 1e-41f, x[7] = -90, x[8] = 95;
  Digest digest;
  kernels().rms_norm(x.data(), w.data(), 1e-5f, n, y.data());
  digest.Add(y);
  kernels().layer_norm(x.data(), w.data(), b.data(), 1e-5f, n, y.data());
  digest.Add(y);
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf,
                                      Activation::kReluSquared, Activation::kClampedSilu}) {
    kernels().multiply_activated(x.data(), w.data(), activation, n, y.data());
    digest.Add(y);
  }
  for (const GateKind kind : {GateKind::kSigmoid, GateKind::kSilu, GateKind::kSoftplus}) {
    y = x;
    kernels().gate(w.data(), kind, n, y.data());
    digest.Add(y);
  }
  kernels().soft_cap(x.data(), n, 30);
  digest.Add(x);
  EXPECT_EQ(digest.value(), kRowOpsDigest);
}

/// Panels of random integers; `header` float16 scales precede each `blocks` blocks, `scales` are the last of each.
std::vector<uint8_t> RandomPanels(int64_t units, int64_t header, int64_t blocks, int64_t bytes, int64_t scales,
                                  Numbers* numbers) {
  std::vector<uint8_t> out;
  const auto add_halves = [&](int64_t count) {
    for (const uint16_t half : numbers->Halves(static_cast<size_t>(count))) {
      out.push_back(static_cast<uint8_t>(half & 255)), out.push_back(static_cast<uint8_t>(half >> 8));
    }
  };
  for (int64_t i = 0; i < units; ++i) {
    add_halves(header);
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t j = 0; j < bytes; ++j) out.push_back(static_cast<uint8_t>(numbers->Next()));
      add_halves(scales);
    }
  }
  return out;
}

TEST_P(Processors, ProductsGiveTheRecordedBits) {
  constexpr int64_t kRows = 23, kCols = 512, kOutputs = 29, kPanels = 2;
  Numbers numbers;
  const std::vector<float> x = numbers.Floats(kRows * kCols, 3);
  std::vector<ActivationBlock> activations(kRows * kCols / 32);
  kernels().quantize(x.data(), kCols, 0, kRows, kRows, kCols, activations.data());
  Digest eight_bits;
  eight_bits.Add(activations);
  EXPECT_EQ(eight_bits.value(), kEightBitsDigest);
  const auto multiply = [&](DType dtype, const uint8_t* panels) {
    std::vector<float> y(kRows * kOutputs);
    kernels().linear({.dtype = dtype,
                      .panels = panels,
                      .outputs = kOutputs,
                      .cols = kCols,
                      .first_panel = 0,
                      .last_panel = kPanels,
                      .first_row = 0,
                      .last_row = kRows,
                      .all_rows = kRows,
                      .x = x.data(),
                      .x_stride = kCols,
                      .activations = activations.data(),
                      .bias = nullptr,
                      .y = y.data(),
                      .y_stride = kOutputs,
                      .accumulate = false});
    Digest digest;
    digest.Add(y);
    return digest.value();
  };
  EXPECT_EQ(multiply(DType::kQ4_0, RandomPanels(kPanels * kCols / 32, 0, 1, 256, 16, &numbers).data()), kQ4Digest);
  EXPECT_EQ(multiply(DType::kQ6_K, RandomPanels(kPanels * kCols / 256, 16, 8, 256 + 128 + 32, 0, &numbers).data()),
            kQ6Digest);
  const std::vector<uint16_t> halves = numbers.Halves(kPanels * kCols * 16);
  EXPECT_EQ(multiply(DType::kF16, reinterpret_cast<const uint8_t*>(halves.data())), kHalfDigest);
}

}  // namespace
}  // namespace ringside::testing
