// A device that computes nothing and takes a cost model's time on a manual clock: steps are sequential, slab copies run
// alongside them, one queue per direction. The engine on top is the real one. THREAD: one.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "tests/engine/lagging_backend.h"
#include "tools/sim/cost_model.h"

namespace ringside {

/// Advances the clock to a time, unless it is past.
inline void AdvanceTo(ManualClock& clock, int64_t ns) {
  clock.AdvanceNs(std::max<int64_t>(0, ns - clock.MonotonicNs()));
}

/// Copies that blocked the engine's thread, and the peak of those in flight.
struct SimCopies {
  int64_t pageable_bytes = 0;  // copied to or from host memory that is not pinned
  int64_t most_saving_bytes = 0;
  int64_t blocked_ns = 0;  // time that the calling thread spent in copies
};

/// A CPU backend whose slab copies take a device's time: asynchronous if the host memory is pinned, synchronous if it
/// is pageable. Slabs are small: one byte represents `scale` bytes of the device.
class SimBackend final : public LaggingBackend {
 public:
  SimBackend(const CostModel& cost, double scale, ManualClock& clock);

  CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) override;
  CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) override;
  bool CopyDone(CopyTicket ticket) override;
  void WaitForCopy(CopyTicket ticket) override;
  /// Pinned memory stays pinned for the life of the process, like its cells. THREAD: any.
  bool PinHost(void* data, size_t bytes) override;
  /// 32 tokens, however long the window: a huge page would have 16,384.
  int64_t page_bytes(int64_t /*slab_bytes*/) const override { return 4096; }
  /// As with CUDA, so that a copy is split into the same number of pieces.
  int64_t slab_chunk_bytes() const override { return static_cast<int64_t>((8 << 20) / scale_); }

  /// Launches a step that takes `ms`; returns its end.
  int64_t RunStep(double ms, std::span<const StepPart> parts);
  /// In bytes of the device.
  const SimCopies& counts() const { return counts_; }

 private:
  struct Copy {
    const void* slab;
    int64_t end_ns;
    int64_t saved_bytes;
  };
  CopyTicket Queue(CopyTicket ticket, Copy copy, double ms, double pageable, int64_t* free_ns);
  double Bytes(std::span<const SlabRun> runs) const;
  /// Bytes of the runs whose host memory is not pinned.
  double PageableBytes(std::span<const SlabRun> runs) const;
  void Block(int64_t until_ns);

  const CostModel& cost_;
  const double scale_;
  ManualClock& clock_;
  std::map<CopyTicket, Copy> copies_;
  int64_t step_free_ns_ = 0, save_free_ns_ = 0, load_free_ns_ = 0;
  SimCopies counts_;
  std::atomic<bool> pins_{false};
};

/// Runs another network's steps in a device's time, including the host's part.
class SimNetwork final : public ForwardingNetwork {
 public:
  SimNetwork(const CostModel& cost, SimBackend& backend, Network& network, ManualClock& clock)
      : ForwardingNetwork(network), cost_(cost), backend_(backend), clock_(clock) {}

  NetworkShape shape() const override;
  void Finish(std::span<SampledToken> chosen) override;
  double device_busy_ms() const { return busy_ms_; }

 private:
  void Before(std::span<const StepPart> parts) override;
  void After(std::span<const StepPart> parts) override;

  const CostModel& cost_;
  SimBackend& backend_;
  ManualClock& clock_;
  std::deque<int64_t> ends_ns_;  // of the steps in flight
  double busy_ms_ = 0;
};

/// A network without arithmetic, for caches of any length: each row encodes its token and position, so that no two
/// chunks of a snapshot are equal; the next token is always the same.
class FreeNetwork final : public Network {
 public:
  static constexpr int64_t kVocab = 32000;
  static constexpr NetworkShape kShape{.layers = 1, .kv_heads = 1, .head_dim = 32, .vocab = kVocab};
  explicit FreeNetwork(Backend& backend) : backend_(backend) {}

  SlabMemory& memory() const override { return backend_; }
  NetworkShape shape() const override { return kShape; }
  bool runs_ahead() const override { return true; }
  void BeginDeferred(std::span<const StepPart> parts) override;
  void Choose(std::span<const RowSamplingParams> choices) override { begun_.push_back(choices.size()); }
  void Finish(std::span<SampledToken> chosen) override;

 private:
  Backend& backend_;
  std::deque<size_t> begun_;  // tokens of each step
};

}  // namespace ringside
