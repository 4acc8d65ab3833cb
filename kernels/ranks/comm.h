// What the ranks of a group say to one another: values in host memory, the same call with the same sizes on every rank.
// A call returns when this rank may go on; a rank that does not come within the time that the group was made with, or
// has left it, fails the group for good: calls return at once then, what they should have brought is not known, and
// status() says so. A rank's calls come from one thread.
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
  /// How long a rank is waited for.
  virtual std::chrono::milliseconds timeout() const = 0;

  /// x[i] = the sum over all ranks of their x[i], taken in the order of the ranks: all get the same bits.
  virtual void AllReduceSum(float* x, int64_t count) = 0;
  /// The `bytes` of every rank, one behind the other in the order of the ranks: `all` has ranks() times as many.
  virtual void AllGather(const void* mine, size_t bytes, void* all) = 0;
  /// data = that of rank `root`.
  virtual void Broadcast(void* data, size_t bytes, int root) = 0;
  /// What one rank sends another receives, with the same number of bytes; sends of one pair arrive in order.
  virtual void Send(const void* data, size_t bytes, int to) = 0;
  virtual void Receive(void* data, size_t bytes, int from) = 0;
  virtual void Barrier() = 0;

  /// kUnavailable, naming the rank, once the group has failed. Any thread.
  virtual Status status() const = 0;
};

/// How many ranks share a network: each layer among `tensor` of them, the layers among `stages`.
struct RankLayout {
  int tensor = 1, stages = 1;

  int ranks() const { return tensor * stages; }
  /// The last stage's ranks come first: rank 0 is of those that choose the tokens.
  int stage(int rank) const { return stages - 1 - rank / tensor; }
  /// Among those of its stage.
  int place(int rank) const { return rank % tensor; }
};

/// Whom a rank of a network talks to; null where there is nobody.
struct RankComms {
  std::unique_ptr<Comm> layer;   // those that share its layers, in the order of their places
  std::unique_ptr<Comm> stages;  // those in its place in each stage, in the order of the layers

  int ranks() const { return (layer ? layer->ranks() : 1) * (stages ? stages->ranks() : 1); }
  /// Of the group that has failed, if one has.
  Status status() const {
    if (layer) RETURN_IF_ERROR(layer->status());
    return stages ? stages->status() : Status::Ok();
  }
};

/// A group of threads of this process, one a rank. The ranks' ends may be destroyed in any order.
std::vector<std::unique_ptr<Comm>> MakeThreadComms(int ranks,
                                                   std::chrono::milliseconds timeout = std::chrono::seconds(30));
/// Those of threads that share a network, by their ranks.
std::vector<RankComms> MakeThreadComms(const RankLayout& layout, std::chrono::milliseconds timeout);

}  // namespace ringside
