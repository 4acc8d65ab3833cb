// The backends on which a test suite runs: the CPU, and CUDA in both of its element types if this program supports it
// and the machine has a device. A test's tensors are on the device and are compared on the host.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/backend.h"
#include "kernels/formats/row_quantization.h"
#include "kernels/ranks/ranks.h"
#include "tests/kernels/reference.h"

namespace ringside::testing {

/// Index of an element in a matrix with `cols` columns.
inline size_t At(int64_t row, int64_t cols, int64_t col) { return static_cast<size_t>(row * cols + col); }

/// "cpu", "cuda_bf16", "cuda_f16".
inline std::vector<std::string> DeviceNames() { return {"cpu", "cuda_bf16", "cuda_f16"}; }

/// A device and a test-specific number, to split long tests: "cuda_bf16_64".
using DeviceAndNumber = std::tuple<std::string, int64_t>;
/// Name of a device with any numbers.
inline constexpr auto NameOf = [](const auto& info) {
  return std::apply([](const std::string& device,
                       const auto&... numbers) { return (device + ... + ("_" + std::to_string(numbers))); },
                    info.param);
};

/// DeviceNames(), CUDA with a fixed summation order, "cuda_bf16_fixed", and ranks that share a network: its layers
/// split into stages, each layer over ranks, "cpu_3_ranks", "cpu_2_ranks_2_stages".
inline std::vector<std::string> EngineDeviceNames() {
  return {"cpu",       "cpu_2_ranks", "cpu_3_ranks",     "cpu_2_stages",      "cpu_2_ranks_2_stages",
          "cuda_bf16", "cuda_f16",    "cuda_bf16_fixed", "cuda_bf16_2_ranks", "cuda_bf16_2_stages"};
}

/// CUDA with quantized weights: "cuda_bf16_int8" ...
inline std::vector<std::string> W8DeviceNames() {
  return {"cuda_bf16_int8", "cuda_bf16_fp8", "cuda_f16_int8", "cuda_f16_fp8"};
}
inline std::optional<DType> QuantizationOf(const std::string& device) {
  for (const char* name : {"int8", "fp8"}) {
    if (device.find(name) != std::string::npos) return QuantizationNamed(name);
  }
  return std::nullopt;
}

/// Devices that compute a row with the same bits in every batch.
inline bool HasFixedOrder(const std::string& device) { return device.starts_with("cpu") || device.ends_with("_fixed"); }

/// Null if this machine has no such device.
inline std::unique_ptr<Backend> MakeDevice(const std::string& name, bool graphs = true) {
  auto made = name == "cpu" ? MakeCpuBackend({.threads = 1})
                            : MakeCudaBackend({.dtype = name.starts_with("cuda_f16") ? DType::kF16 : DType::kBF16,
                                               .quantization = QuantizationOf(name),
                                               .keeps_blocks = !name.ends_with("_unpacked"),
                                               .keeps_small_blocks = true,
                                               .memory_bytes = size_t{768} << 20,
                                               .graphs = graphs,
                                               .deterministic = name.ends_with("_fixed")});
  if (!made.ok()) {
    EXPECT_EQ(made.status().code(), StatusCode::kUnavailable) << made.status().ToString();
    return nullptr;
  }
  return std::move(*made);
}

/// Ranks that share a network, on all available devices; empty if there is no such device. "cuda_bf16_nccl": using
/// NCCL.
inline std::vector<std::unique_ptr<Backend>> MakeTestRanks(const std::string& name, const RankLayout& layout,
                                                           std::chrono::milliseconds timeout = std::chrono::minutes(2),
                                                           AllReduce all_reduce = AllReduce::kOwn) {
  const int devices = name == "cpu" ? 1 : CountCudaDevices();
  if (devices == 0) return {};
  auto made = MakeRanks(layout, timeout, [&](int rank, RankComms comms) {
    return name == "cpu" ? MakeCpuBackend({.threads = 1}, std::move(comms))
                         : MakeCudaBackend({.device = rank % devices,
                                            .dtype = name == "cuda_f16" ? DType::kF16 : DType::kBF16,
                                            .memory_bytes = size_t{768} << 20,
                                            .all_reduce = name.ends_with("_nccl") ? AllReduce::kNccl : all_reduce},
                                           std::move(comms));
  });
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return made.ok() ? std::move(*made) : std::vector<std::unique_ptr<Backend>>();
}
/// "cpu_2_ranks_3_stages": 2 ranks for each of 3 stages.
inline RankLayout LayoutOf(const std::string& name) {
  const auto number = [&](const char* what) {
    const size_t at = name.find(what);
    return at == std::string::npos ? 1 : name[at - 1] - '0';
  };
  return {.tensor = number("_ranks"), .stages = number("_stages")};
}

/// A test on a device; skipped if it is unavailable.
class DeviceTest : public ::testing::Test {
 protected:
  /// For SetUp. A test that switches to another device must return at once if it IsSkipped() then.
  void Use(const std::string& device) {
    backend_ = MakeDevice(device);
    if (backend_ == nullptr) GTEST_SKIP() << "no " << device << " here";
    type_ = backend_->activation_dtype();
  }
  /// Values that this type represents.
  std::vector<float> RandomRounded(int64_t n, uint32_t seed, float scale = 1) const;

  std::unique_ptr<Backend> backend_;
  DType type_ = DType::kF32;  // of its activations
};

/// One rounding of the type, relative.
inline double Rounding(DType dtype) {
  return dtype == DType::kF32 ? 1e-6 : dtype == DType::kF16 ? 1.0 / 2048 : 1.0 / 256;
}

/// The value after a round trip through the type.
float Rounded(DType dtype, float x);

/// Whether a layer's rows are converted to E4M3 on this device, too.
bool MultipliesInE4M3(const Backend& device, DType weights, int64_t rows, int64_t outputs, int64_t cols);
/// The values that such rows represent.
std::vector<float> RoundedToE4M3(const std::vector<float>& rows, int64_t cols);
/// Error bound of a sum over `cols` products on the tensor cores, relative to the terms' magnitudes: each step of 32
/// products truncates the partial sum, which grows as its terms' root mean square times sqrt(k), at 2^-13 of it.
inline double E4M3SumError(int64_t cols) { return 3e-5 * std::sqrt(static_cast<double>(cols)) + 3e-6; }

/// A matrix on a device.
class DeviceMatrix {
 public:
  DeviceMatrix(Backend& backend, DType dtype, int64_t rows, int64_t cols, const std::vector<float>& values,
               int64_t stride = 0);
  Tensor tensor() const { return tensor_; }
  std::vector<float> Get() const;

 private:
  Backend& backend_;
  Buffer buffer_;
  Tensor tensor_;
};

/// A float32 vector on a device.
class DeviceFloats {
 public:
  DeviceFloats(Backend& backend, const std::vector<float>& values);
  const float* data() const { return static_cast<const float*>(buffer_.data()); }

 private:
  Buffer buffer_;
};

}  // namespace ringside::testing
