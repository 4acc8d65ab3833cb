// Collectives of a tensor-parallel group, by one of two algorithms: our own kernels over peer memory, or NCCL. If both
// are available, all-reduces use the one that was faster for their size at start; all ranks share one table and so
// agree. Owned by the backend.
// THREAD: the backend's.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <string>

#include "kernels/backend_options.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/device_messages.h"
#include "kernels/cuda/ranks/rank_peers.h"

namespace ringside::cuda {

/// A norm of rows with `columns` columns on all ranks.
struct SharedNorm {
  int64_t columns = 0;
  bool counts = true;  // whether this rank's columns contribute to the mean
  const float* weight = nullptr;
  float eps = 0;
};

class RankExchange {
 public:
  struct Options {
    int device = 0;  // the current device
    cudaUUID_t uuid = {};
    DType dtype = DType::kBF16;  // kF16 or kBF16; the type of values in transit
    ringside::AllReduce algorithm = ringside::AllReduce::kAuto;
    bool fixed_order = false;  // reduce in rank order, by our own kernels wherever possible
  };

  RankExchange() = default;
  RankExchange(const RankExchange&) = delete;
  RankExchange& operator=(const RankExchange&) = delete;

  /// REQUIRES: all ranks call it concurrently.
  /// ERRORS: kUnavailable, on every rank, if the devices cannot communicate, or not by the algorithm asked for;
  /// kOverloaded if memory is exhausted.
  Status Start(std::unique_ptr<Comm> comm, const Options& options, const Launcher& on);

  /// Shuts NCCL down. REQUIRES: no call is in flight, and no captured graph contains one.
  void Stop();

  bool started() const { return comm_ != nullptr; }
  int ranks() const { return comm_->ranks(); }
  /// For the log: ", all-reduce by our own kernels", for instance.
  std::string Describe() const;
  /// kUnavailable once a rank has failed to respond. THREAD: any.
  Status status() const;
  /// Whether captured NCCL calls must no longer be replayed.
  bool broken() const { return messages_.broken(); }

  /// All-reduce: y += or = the sum of all ranks' x, each rounded to the transit type. x, y [rows, n] kF32, n a multiple
  /// of 8, x contiguous; they may be the same unless y accumulates.
  /// REQUIRES: rows * n values of the transit type fit in RankLinks::kOutboxBytes.
  void AllReduce(const Launcher& on, Tensor x, Tensor y, bool accumulate);
  /// Backend::RmsNormOfRanks. `scratch` has a float per row and rank.
  void RmsNorm(const Launcher& on, Tensor x, const SharedNorm& norm, float* scratch);
  /// An accumulating AllReduce with the norm of y's rows fused in. False, and nothing is done, if no kernel supports
  /// it.
  [[nodiscard]] bool AllReduceAddNorm(const Launcher& on, Tensor x, Tensor y, const FusedNorm& norm);
  /// All-gather: columns [borders[r], borders[r + 1]) of x (kF32) from rank r; at most kOutboxBytes per rank.
  void AllGatherColumns(const Launcher& on, const int64_t* borders, Tensor x);
  /// Argmax of every row over all ranks' columns; `logits` (kF32) has this rank's columns, from token `first` on. See
  /// kernels/cuda/ranks/rank_argmax.h.
  void SampleGreedy(const Launcher& on, Tensor logits, int64_t first, SampledToken* sampled, int32_t* ids);

  /// While the returned object lives, the thread waits for its stream.
  [[nodiscard]] DeviceMessages::Waiting Wait() const { return messages_.Wait(); }

 private:
  // Size classes of all-reduces: powers of two from kMinBytes on; sizes outside use the first or last class.
  static constexpr int64_t kMinBytes = 8 << 10;
  static constexpr size_t kSizes = 12;                         // up to 16 MiB
  static constexpr int64_t kMessageBytes = int64_t{64} << 20;  // per NCCL call

  Status StartNccl(const Launcher& on);
  /// Fills in the table.
  Status Measure(const Launcher& on);
  /// Least time of an all-reduce in ms; equal on all ranks except for noise.
  template <class Sum>
  float Time(const Launcher& on, const Sum& sum);
  static size_t SizeOf(int64_t bytes);
  bool ByNccl(int64_t bytes) const { return by_nccl_[SizeOf(bytes)]; }
  void AllReduceByNccl(const Launcher& on, Tensor x, Tensor y, bool accumulate);
  void AllGatherByNccl(const Launcher& on, const int64_t* borders, int64_t widest, Tensor x);

  std::unique_ptr<Comm> comm_;
  Options options_;
  RankPeers peers_;
  bool reach_ = false;  // whether peer memory is accessible
  DeviceMessages messages_;
  std::array<bool, kSizes> by_nccl_ = {};
};

}  // namespace ringside::cuda
