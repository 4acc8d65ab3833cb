// Collectives over values in device memory, ordered by each rank's stream: NCCL, which also connects devices without
// peer access. Every rank makes the same calls with the same sizes. Calls can be captured into a graph. A failed group
// stays failed: calls then return at once and their results are undefined.
// THREAD: one at a time per rank.
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

  /// data[i] = the sum over all ranks of data[i], `count` values of `dtype` (kF16, kBF16, kF32). NCCL chooses the order
  /// by size and links; all ranks get the same bits.
  virtual void AllReduceSum(void* data, int64_t count, DType dtype) = 0;
  /// `all` [ranks][bytes]: every rank has filled in its own part and receives the others'.
  virtual void AllGather(void* all, size_t bytes) = 0;
  /// Matching calls on two ranks have the same number of bytes. The first call between two ranks blocks the host until
  /// its peer calls; every call blocks the device.
  virtual void Send(const void* data, size_t bytes, int to) = 0;
  virtual void Receive(void* data, size_t bytes, int from) = 0;

  /// Bracket the rank's waits for its stream. If a wait exceeds the timeout (Comm::timeout), or the group fails
  /// meanwhile, operations on the stream that wait for other ranks are aborted.
  virtual void BeginWait() = 0;
  virtual void EndWait() = 0;

  /// kUnavailable once the group has failed. THREAD: any.
  virtual Status status() const = 0;
};

/// `stream` is a cudaStream_t of the calling thread's current device.
/// REQUIRES: all ranks of `group` call it concurrently; `group` outlives the result; graphs with its calls are
/// destroyed first.
/// ERRORS: kUnavailable if this program was built without NCCL, NCCL fails, or a rank does not arrive.
Result<std::unique_ptr<StreamComm>> MakeNcclComm(Comm& group, void* stream);
/// Whether this program was built with NCCL.
bool HasNccl();

}  // namespace ringside
