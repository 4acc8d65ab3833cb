// Collectives over values in host memory; every rank makes the same calls with the same sizes. A call returns when this
// rank may continue. If a rank does not respond within the group's timeout, or has left, the group has failed for good:
// calls then return at once, their results are undefined, and status() reports it.
// THREAD: one per rank.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"

namespace ringside {

class Comm {
 public:
  virtual ~Comm() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Timeout for the other ranks.
  virtual std::chrono::milliseconds timeout() const = 0;

  /// x[i] = the sum over all ranks of x[i], in rank order: all get the same bits.
  virtual void AllReduceSum(float* x, int64_t count) = 0;
  /// Gathers `bytes` bytes of every rank in rank order into `all`, which has room for ranks() times `bytes`.
  virtual void AllGather(const void* mine, size_t bytes, void* all) = 0;
  /// data = that of rank `root`.
  virtual void Broadcast(void* data, size_t bytes, int root) = 0;
  /// Matching calls on two ranks have the same number of bytes; messages between a pair arrive in order.
  virtual void Send(const void* data, size_t bytes, int to) = 0;
  virtual void Receive(void* data, size_t bytes, int from) = 0;
  virtual void Barrier() = 0;

  /// kUnavailable, naming the rank, once the group has failed. THREAD: any.
  virtual Status status() const = 0;
};

/// Tensor and pipeline parallelism: each layer is divided over `tensor` ranks, the layers over `stages`.
struct RankLayout {
  int tensor = 1, stages = 1;

  int ranks() const { return tensor * stages; }
  /// The last stage's ranks come first, so that rank 0 is one that samples tokens.
  int stage(int rank) const { return stages - 1 - rank / tensor; }
  /// Index among the ranks of its stage.
  int place(int rank) const { return rank % tensor; }
};

/// The groups of a rank; null if it has no peers.
struct RankComms {
  std::unique_ptr<Comm> layer;   // ranks of the same stage, in order of their places
  std::unique_ptr<Comm> stages;  // ranks in the same place of each stage, in layer order

  int ranks() const { return (layer ? layer->ranks() : 1) * (stages ? stages->ranks() : 1); }
  /// The status of the failed group, if any.
  Status status() const {
    if (layer) RETURN_IF_ERROR(layer->status());
    return stages ? stages->status() : Status::Ok();
  }
};

/// A group of threads of this process, one per rank. The ranks' ends may be destroyed in any order.
std::vector<std::unique_ptr<Comm>> MakeThreadComms(int ranks,
                                                   std::chrono::milliseconds timeout = std::chrono::seconds(30));
/// The groups of threads that share a network, by rank.
std::vector<RankComms> MakeThreadComms(const RankLayout& layout, std::chrono::milliseconds timeout);

}  // namespace ringside
