// Tiny models of every family with 8-bit weights: the error of rounding them, and that a GPU computes with the same
// values. A network's error amplification varies, so every bound is the error caused by random perturbations of the
// same size in the same network.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"
#include "tests/kernels/formats/quantized_weights.h"
#include "tests/kernels/formats/rounded_numbers.h"

namespace ringside {
namespace {

/// ||got - want|| / ||want||; infinite for NaN.
double NormError(const std::vector<float>& got, const std::vector<float>& want) {
  double off = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = double{got[i]} - double{want[i]};
    off += difference * difference, size += double{want[i]} * double{want[i]};
  }
  return std::isnan(off) ? INFINITY : std::sqrt(off / size);
}

struct TinyRun {
  std::vector<float> logits;
  Fingerprint fingerprint{};
  int64_t weight_bytes = 0;
};
TinyRun RunTiny(const std::string& name, Backend& backend, DType cache_dtype, int64_t chunk) {
  auto model = Model::Load(GoldenFolder(name), backend);
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  if (!model.ok()) return {};
  OwnCache cache(**model, {0, 64, Eviction::kToken}, 16, cache_dtype);
  return {RunAll(**model, cache.get(), GoldenIds(), chunk), (*model)->fingerprint(), (*model)->weight_bytes()};
}

TinyRun RunExact(const std::string& name, DType dtype, uint32_t seed = 0) {
  QuantizedWeights cpu(testing::MakeDevice("cpu"), dtype, seed);
  return RunTiny(name, cpu, DType::kF32, 16);
}

const char* const kDenseModels[] = {"llama", "llama_biases", "mistral", "qwen2", "qwen3", "gpt2"};

class QuantisedModel : public ::testing::TestWithParam<const char*> {
 protected:
  const DType dtype_ = *QuantizationNamed(GetParam());
};
INSTANTIATE_TEST_SUITE_P(All, QuantisedModel, ::testing::Values("int8", "fp8"),
                         [](const auto& info) { return std::string(info.param); });

// Individual random errors are within 30 % of their mean.
TEST_P(QuantisedModel, ErrorMatchesRandomRounding) {
  for (const char* name : kDenseModels) {
    const std::vector<float> want = ReadFloats(GoldenFolder(name) + "/logits.f32");
    const double error = NormError(RunExact(name, dtype_).logits, want);
    double random = 0;
    for (uint32_t seed = 1; seed <= 10; ++seed) random += NormError(RunExact(name, dtype_, seed).logits, want) / 10;
    std::printf("%s %s: %.2e from the reference, at random %.2e\n", GetParam(), name, error, random);
    EXPECT_LT(error, 1.3 * random) << name;
    EXPECT_GT(error, 0.7 * random) << name;
  }
}

// A GPU rounds weights (if rows are odd or many), activations and cache rows to its type, which the CPU can emulate; 50
// % more for rounding inside attention.
TEST_P(QuantisedModel, GpuErrorMatchesTheRoundingOfItsType) {
  for (const char* name : kDenseModels) {
    const TinyRun exact = RunExact(name, dtype_);
    for (const char* type : {"cuda_bf16", "cuda_f16"}) {
      const auto device = testing::MakeDevice(std::string(type) + "_" + GetParam());
      if (device == nullptr) GTEST_SKIP() << "no " << type << " here";
      const DType sixteen = device->activation_dtype();
      QuantizedWeights cpu(std::make_unique<RoundedNumbers>(testing::MakeDevice("cpu"), sixteen), dtype_);
      const double expected = NormError(RunTiny(name, cpu, sixteen, 16).logits, exact.logits);
      for (const int64_t chunk : {16, 1}) {
        const TinyRun got = RunTiny(name, *device, sixteen, chunk);
        const double apart = NormError(got.logits, exact.logits);
        std::printf("%s %s %s, chunks of %d: %.2e, by roundings %.2e\n", type, GetParam(), name,
                    static_cast<int>(chunk), apart, expected);
        EXPECT_LT(apart, 1.5 * expected) << name;
        EXPECT_NE(got.fingerprint, exact.fingerprint);
        EXPECT_LT(got.weight_bytes, exact.weight_bytes / 2);
      }
    }
  }
}

}  // namespace
}  // namespace ringside
