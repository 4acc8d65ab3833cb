// What a device of a group does together with the others, by one of two ways: our own kernels over peer memory, or
// NCCL. Where both can be had, sums go the way that was faster for their size when the group started: one table for all
// ranks, so that all take the same. Owned by the backend, its thread.
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

class RankExchange {
 public:
  struct Options {
    int device = 0;  // is selected
    cudaUUID_t uuid = {};
    DType dtype = DType::kBF16;  // kF16 or kBF16, in which values travel to be summed
    AllReduce way = AllReduce::kAuto;
    bool fixed_order = false;  // of sums, that of the ranks: by own kernels wherever they can be had
  };

  RankExchange() = default;
  RankExchange(const RankExchange&) = delete;
  RankExchange& operator=(const RankExchange&) = delete;

  /// All ranks call it at one time. kUnavailable, on every rank, if there is no way from device to device, or not the
  /// one asked for; kOverloaded without room.
  Status Start(std::unique_ptr<Comm> comm, const Options& options, const Launcher& on);

  /// Leaves NCCL. Nothing of it is under way, and no graph with its calls is left.
  void Stop();

  bool started() const { return comm_ != nullptr; }
  int ranks() const { return comm_->ranks(); }
  /// ", sums by our own kernels", or as it is.
  std::string Describe() const;
  /// kUnavailable once a rank has not come. Any thread.
  Status status() const;
  /// Whether recorded calls of NCCL must not run any more.
  bool broken() const { return messages_.broken(); }

  /// y += the sum of all ranks' x, each rounded to the type in which values travel. x, y [rows, n] kF32, n a multiple
  /// of 8, x without gaps; rows * n at most RankLinks::kOutboxBytes of the type.
  void AddAllRanks(const Launcher& on, Tensor x, Tensor y);
  /// The same, and the norm of y's rows with it. False, and nothing is done, where no kernel does both.
  [[nodiscard]] bool AddAllRanksAndNorm(const Launcher& on, Tensor x, Tensor y, const NormOfSums& norm);
  /// Columns [borders[r], borders[r + 1]) of x (kF32) as rank r has them; at most kOutboxBytes of each rank.
  void GatherColumns(const Launcher& on, const int64_t* borders, Tensor x);
  /// The highest of every row of all ranks' columns, of which `logits` (kF32) are this rank's, from token `first` on:
  /// kernels/cuda/ranks/rank_choices.h.
  void ChooseHighest(const Launcher& on, Tensor logits, int64_t first, ChosenToken* chosen, int32_t* ids);

  /// While what it returns lives the thread waits for its stream.
  [[nodiscard]] DeviceMessages::Waiting Wait() const { return messages_.Wait(); }

 private:
  // Sizes of sums by powers of two, from kLeastBytes on; what is beyond goes as the last or first does.
  static constexpr int64_t kLeastBytes = 8 << 10;
  static constexpr size_t kSizes = 12;                         // up to 16 MiB
  static constexpr int64_t kMessageBytes = int64_t{64} << 20;  // of NCCL, at a time

  Status StartNccl(const Launcher& on);
  /// Fills in the table.
  Status Measure(const Launcher& on);
  /// The least time of a sum, the same on every rank but for noise; ms.
  template <class Sum>
  float Time(const Launcher& on, const Sum& sum);
  static size_t SizeOf(int64_t bytes);
  bool ByNccl(int64_t bytes) const { return by_nccl_[SizeOf(bytes)]; }
  void AddByNccl(const Launcher& on, Tensor x, Tensor y);
  void GatherByNccl(const Launcher& on, const int64_t* borders, int64_t widest, Tensor x);

  std::unique_ptr<Comm> comm_;
  Options options_;
  RankPeers peers_;
  bool reach_ = false;  // one another's memory
  DeviceMessages messages_;
  std::array<bool, kSizes> by_nccl_ = {};
};

}  // namespace ringside::cuda
