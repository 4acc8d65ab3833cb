// The backends that one suite of tests runs on: the CPU, and CUDA in both of its element types where this program has
// it and the machine a device. Tensors of a test live on the device and are compared on the host.
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
#include "kernels/formats/row_quantisation.h"
#include "kernels/ranks/ranks.h"
#include "tests/kernels/reference.h"

namespace ringside::testing {

/// Where an element lies in a matrix of so many columns.
inline size_t At(int64_t row, int64_t cols, int64_t col) { return static_cast<size_t>(row * cols + col); }

/// "cpu", "cuda_bf16", "cuda_f16".
inline std::vector<std::string> DeviceNames() { return {"cpu", "cuda_bf16", "cuda_f16"}; }

/// A device and a number of the test's own, for tests that would be long in one piece: "cuda_bf16_64".
using DeviceAndNumber = std::tuple<std::string, int64_t>;
/// Of a device and any numbers.
inline constexpr auto NameOf = [](const auto& info) {
  return std::apply([](const std::string& device,
                       const auto&... numbers) { return (device + ... + ("_" + std::to_string(numbers))); },
                    info.param);
};

/// These, CUDA with a fixed order of summation, "cuda_bf16_fixed", and ranks that share a network: its layers among
/// stages, each layer among ranks, "cpu_3_ranks", "cpu_2_ranks_2_stages".
inline std::vector<std::string> EngineDeviceNames() {
  return {"cpu",       "cpu_2_ranks", "cpu_3_ranks",     "cpu_2_stages",      "cpu_2_ranks_2_stages",
          "cuda_bf16", "cuda_f16",    "cuda_bf16_fixed", "cuda_bf16_2_ranks", "cuda_bf16_2_stages"};
}

/// CUDA with quantised weights: "cuda_bf16_int8" ...
inline std::vector<std::string> QuantisedDeviceNames() {
  return {"cuda_bf16_int8", "cuda_bf16_fp8", "cuda_f16_int8", "cuda_f16_fp8"};
}
inline std::optional<DType> QuantizationOf(const std::string& device) {
  for (const char* name : {"int8", "fp8"}) {
    if (device.find(name) != std::string::npos) return QuantizationNamed(name);
  }
  return std::nullopt;
}

/// Devices that compute a row with the same bits whatever else is in the step.
inline bool HasFixedOrder(const std::string& device) { return device.starts_with("cpu") || device.ends_with("_fixed"); }

/// Null if there is no such device here.
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

/// Ranks that share a network, on as many devices as there are; none if there is no such device here. "cuda_bf16_nccl":
/// by NCCL.
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

/// A test on a device; skipped where that is not.
class DeviceTest : public ::testing::Test {
 protected:
  /// For SetUp. A test that changes to another device returns at once if it IsSkipped() then.
  void Use(const std::string& device) {
    backend_ = MakeDevice(device);
    if (backend_ == nullptr) GTEST_SKIP() << "no " << device << " here";
    type_ = backend_->activation_dtype();
  }

  std::unique_ptr<Backend> backend_;
  DType type_ = DType::kF32;  // of its activations
};

/// One rounding of the type, relative.
inline double Rounding(DType dtype) {
  return dtype == DType::kF32 ? 1e-6 : dtype == DType::kF16 ? 1.0 / 2048 : 1.0 / 256;
}

/// The value after a round trip through the type.
float Rounded(DType dtype, float x);

/// Whether a layer's rows become E4M3 on this device, too.
bool MultipliesInE4M3(const Backend& device, DType weights, int64_t rows, int64_t outputs, int64_t cols);
/// What such rows stand for.
std::vector<float> RoundedToE4M3(const std::vector<float>& rows, int64_t cols);
/// What a sum over `cols` products on the tensor cores may lose, of the terms' magnitudes: in each step of 32 of them
/// the sum so far, which grows as its terms' root mean square times sqrt(k), and 2^-13 of it.
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
