// The server with a zero-cost model: --device cuda selects a device that computes nothing and always samples the same
// letter, immediately or after STEP_US microseconds in which the CPU is idle. The remaining cost per token is
// everything around the model. For scripts/bench_wire, with the system tests' tiny model, whose tokens are bytes. These
// definitions take precedence over the kernels' own.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "kernels/ranks/process_devices.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

constexpr int32_t kToken = 'x';

class FreeBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  std::string Describe() const override { return "a device that computes nothing"; }
  void Embed(const Weight&, std::span<const int32_t>, float, Tensor) override {}
  void AddPositions(const Weight&, std::span<const int64_t>, Tensor) override {}
  void RmsNorm(Tensor, const float*, float, Tensor) override {}
  void RmsNormHeads(Tensor, int64_t, const float*, float) override {}
  void LayerNorm(Tensor, const float*, const float*, float, Tensor) override {}
  void Linear(const LinearArgs&) override {}
  void Attention(const AttentionArgs&) override {}
  void MultiplyActivated(Tensor, Activation, Tensor) override {}
  void Activate(Tensor, Activation) override {}
  void Experts(const ExpertsArgs&) override {}
  void Add(Tensor, Tensor) override {}
  void SoftCap(Tensor, float) override {}
  void GatherRows(Tensor, std::span<const int64_t>, Tensor) override {}
  void SampleTokens(Tensor, std::span<const RowSamplingParams>, std::span<SampledToken> chosen) override {
    for (SampledToken& one : chosen) one = {.id = kToken};
    if (step_.count() > 0) std::this_thread::sleep_for(step_);
  }

 private:
  static std::chrono::microseconds StepTime() {
    const char* time = std::getenv("STEP_US");
    return std::chrono::microseconds(time == nullptr ? 0 : std::atoi(time));
  }
  const std::chrono::microseconds step_ = StepTime();
};

}  // namespace

std::vector<std::string> CudaDeviceIds() { return {}; }

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions&, RankComms) {
  ASSIGN_OR_RETURN(auto cpu, MakeCpuBackend({.threads = 1}));
  return std::unique_ptr<Backend>(std::make_unique<FreeBackend>(std::move(cpu)));
}

}  // namespace ringside
