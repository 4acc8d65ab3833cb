// What the ranks of a group say to one another about values in device memory, in the order of each rank's stream: NCCL,
// which reaches devices that do not reach each other's memory, too. The same calls with the same sizes on every rank,
// each from one thread at a time. Calls can be captured into a graph. A group that has failed has failed for good:
// calls return at once then and what they should have brought is not known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "kernels/ranks/comm.h"
#include "kernels/tensor.h"

namespace ringside {

class StreamComm {
 public:
  virtual ~StreamComm() = default;

  /// data[i] = the sum over all ranks of their data[i], `count` values of `dtype` (kF16, kBF16, kF32). In what order is
  /// NCCL's choice, by size and links; all ranks get the same bits.
  virtual void AllReduceSum(void* data, int64_t count, DType dtype) = 0;
  /// `all` [ranks][bytes]: every rank has filled in its own part, and gets the others'.
  virtual void AllGather(void* all, size_t bytes) = 0;
  /// What one rank sends another receives, with the same number of bytes. The first call of two ranks waits on the host
  /// for the other's, the device for every one.
  virtual void Send(const void* data, size_t bytes, int to) = 0;
  virtual void Receive(void* data, size_t bytes, int from) = 0;

  /// The rank's thread waits for its stream from BeginWait to EndWait. If that takes longer than a rank is waited for
  /// (Comm::timeout), or the group fails meanwhile, what waits on the stream for the others ends.
  virtual void BeginWait() = 0;
  virtual void EndWait() = 0;

  /// kUnavailable once the group has failed. Any thread.
  virtual Status status() const = 0;
};

/// All ranks of `group` call it at one time; `group` must outlive what it makes. `stream` is a cudaStream_t of the
/// device that the calling thread has selected. kUnavailable if this program was built without NCCL, if NCCL fails, or
/// if a rank does not come. Graphs with its calls must go before it does.
Result<std::unique_ptr<StreamComm>> MakeNcclComm(Comm& group, void* stream);
/// Whether this program was built with it.
bool HasNccl();

}  // namespace ringside
