// Several devices in one process: every thread selects a backend's device before it calls it, whatever was selected for
// another backend meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "cache/store/ram_store.h"
#include "cache/store/tiered_store.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

/// Counts calls from threads that have selected another device, or none.
class OwnDeviceBackend final : public ForwardingBackend {
 public:
  OwnDeviceBackend() : ForwardingBackend(MakeTestBackend()) { selected = this; }

  void MakeCurrent() override { selected = this; }
  Result<Buffer> Allocate(size_t bytes) override {
    Look();
    return ForwardingBackend::Allocate(bytes);
  }
  void CopyToDevice(void* to, const void* from, size_t bytes) override {
    Look();
    ForwardingBackend::CopyToDevice(to, from, bytes);
  }
  void Synchronize() override {
    Look();
    ForwardingBackend::Synchronize();
  }
  CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) override {
    ++saves;
    Look();
    return ForwardingBackend::SaveSlab(shape, slab, runs);
  }
  bool PinHost(void* /*data*/, size_t /*bytes*/) override {
    Look();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // longer than a step
    pinned = true;
    return false;
  }
  Result<Weight> LoadWeight(const HostTensor& host) override {
    Look();
    return ForwardingBackend::LoadWeight(host);
  }
  void Linear(const LinearArgs& args) override {
    ++linears;
    early += pinned ? 0 : 1;
    Look();
    ForwardingBackend::Linear(args);
  }

  std::atomic<int> strange{0}, linears{0}, early{0}, saves{0};
  std::atomic<bool> pinned{false};

 private:
  void Look() { strange += selected != this; }
  static thread_local const OwnDeviceBackend* selected;
};
thread_local const OwnDeviceBackend* OwnDeviceBackend::selected = nullptr;

TEST(DeviceSelection, EveryThreadSelectsItsDevice) {
  constexpr size_t kDevices = 2;
  OwnDeviceBackend backends[kDevices];  // the last one created is selected
  TieredStore tiers(std::make_unique<RamStore>(1 << 20), nullptr, {.sweep_ms = 0});
  std::unique_ptr<Model> models[kDevices];
  for (size_t i = 0; i < kDevices; ++i) {
    auto model = Model::Load(GoldenFolder("llama"), backends[i]);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    models[i] = std::move(*model);
  }
  const LetterTokenizer tokenizer(models[0]->spec().vocab);
  EngineOptions options;
  options.slots = 2, options.memory_len = 64, options.pinned_max = 4, options.prefill_chunk = 16;
  std::unique_ptr<Engine> engines[kDevices];
  for (size_t i = 0; i < kDevices; ++i) {
    const EngineStorage storage{.tiers = &tiers, .fingerprint = models[i]->fingerprint(), .pinned_bytes = 1 << 20};
    auto engine = Engine::Start(*models[i], tokenizer, options, storage);
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engines[i] = std::move(*engine);
  }
  for (size_t i = 0; i < kDevices; ++i) {
    SubmittedTurn turn = GreedyTurn(1, 1, {1, 2, 3, 4, 5}, {}, {1, 32, Eviction::kTurn}, 4);
    turn.request.owner = "conv_" + std::to_string(i);
    ASSERT_TRUE(engines[i]->Submit(turn.request).ok());
    EXPECT_EQ(turn.sink->Wait().reason, FinishReason::kLength);
    engines[i].reset();
    EXPECT_GT(backends[i].linears, 0);
    EXPECT_EQ(backends[i].early, 0) << "steps before host memory was pinned";
    EXPECT_EQ(backends[i].strange, 0) << "backend " << i;
  }
}

}  // namespace
}  // namespace ringside
