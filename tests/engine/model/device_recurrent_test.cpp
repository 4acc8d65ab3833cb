// Families with recurrent layers on CUDA, if there is a device, over more than two chunks of state: near the CPU's
// logits; and with a fixed order bit for bit the same for every split into steps, with batch-mates, and after a
// rolled-back draft.
#include <gtest/gtest.h>

#include "tests/engine/model/family_names.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

constexpr RingWindow kWhole{4, 256, Eviction::kToken};
constexpr int64_t kMost = 100;  // rows of a step

class DeviceRecurrentModel : public ::testing::TestWithParam<const char*> {
 protected:
  /// Skips the test without the device.
  void Load(const std::string& device) {
    model_.reset();  // before its backend
    backend_ = testing::MakeDevice(device);
    if (backend_ == nullptr) GTEST_SKIP() << "no " << device << " here";
    auto model = Model::Load(FamilyFolder(GetParam()), *backend_);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
    ids_ = GoldenIds(150);
  }
  std::vector<float> Run(int64_t chunk) const {
    OwnCache cache(*model_, kWhole, kMost, backend_->activation_dtype());
    return RunAll(*model_, cache.get(), ids_, chunk);
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::vector<TokenId> ids_;
};
INSTANTIATE_TEST_SUITE_P(All, DeviceRecurrentModel, ::testing::ValuesIn(kRecurrentFamilies),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(DeviceRecurrentModel, IsNearTheCpu) {
  const auto cpu = MakeTestBackend();
  auto reference = Model::Load(FamilyFolder(GetParam()), *cpu);
  ASSERT_TRUE(reference.ok());
  for (const char* device : {"cuda_bf16", "cuda_f16"}) {
    Load(device);
    if (IsSkipped() || HasFatalFailure()) return;
    OwnCache cache(**reference, kWhole, kMost);
    const std::vector<float> want = RunAll(**reference, cache.get(), ids_, kMost);
    for (const int64_t chunk : {1, 7, 100}) {
      const double error = NormError(Run(chunk), want);
      std::printf("%s %s: %.2e in chunks of %d\n", device, GetParam(), error, static_cast<int>(chunk));
      // A mixture's random routers have near-ties, which a rounding decides.
      if (model_->spec().experts == 0) {
        EXPECT_LT(error, 8 * testing::Rounding(backend_->activation_dtype())) << device << ", chunk " << chunk;
      }
    }
  }
}

TEST_P(DeviceRecurrentModel, EverySplitGivesTheSameBits) {
  Load("cuda_bf16_fixed");
  if (IsSkipped() || HasFatalFailure()) return;
  const std::vector<float> want = Run(1);
  for (const int64_t chunk : {7, 64, 100}) EXPECT_TRUE(Run(chunk) == want) << "chunk " << chunk;
}

TEST_P(DeviceRecurrentModel, BatchMatesChangeNothing) {
  Load("cuda_bf16_fixed");
  if (IsSkipped() || HasFatalFailure()) return;
  const std::vector<TokenId> other = ScatteredIds(150, model_->spec().vocab);
  const DType type = backend_->activation_dtype();
  OwnCache cache(*model_, kWhole, kMost, type), mate(*model_, kWhole, kMost, type);
  const auto vocab = static_cast<size_t>(model_->spec().vocab);
  std::vector<float> together;
  for (size_t t = 0; t < ids_.size(); t += 30) {
    std::vector<float> logits(31 * vocab);
    const StepPart parts[] = {{mate.get(), std::span(other).subspan(t, 30), StepPart::Logits::kLast},
                              {cache.get(), std::span(ids_).subspan(t, 30), StepPart::Logits::kAll}};
    model_->Forward(parts, logits);
    together.insert(together.end(), logits.begin() + static_cast<std::ptrdiff_t>(vocab), logits.end());
  }
  EXPECT_TRUE(together == Run(1));
}

TEST_P(DeviceRecurrentModel, RolledBackDraftsChangeNothing) {
  Load("cuda_bf16_fixed");
  if (IsSkipped() || HasFatalFailure()) return;
  OwnCache cache(*model_, kWhole, kMost, backend_->activation_dtype());
  std::vector<float> got;
  RunWithRejectedDrafts(*model_, cache.get(), ids_, &got);
  if (HasFatalFailure()) return;
  EXPECT_TRUE(got == Run(1));
}

}  // namespace
}  // namespace ringside
