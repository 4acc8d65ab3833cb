// Copies of slabs to the host and back on two dedicated streams, one per direction. Events order them with the step's
// stream both ways: a copy waits for the operations issued before it, and a layer's operations wait for its copy. The
// step's stream itself never carries a copy. Owned by the backend.
// THREAD: one.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace ringside::cuda {

class SlabCopies {
 public:
  SlabCopies() = default;
  SlabCopies(const SlabCopies&) = delete;
  SlabCopies& operator=(const SlabCopies&) = delete;
  ~SlabCopies() { Stop(); }

  void Start();
  /// Blocks until no copy is in flight.
  void WaitForAll();
  /// Waits for all copies and releases the streams; no copy may follow.
  void Stop();
  std::array<cudaStream_t, 2> streams() const { return {to_host_, to_device_}; }
  /// Starts a copy ordered after everything now on `step` and after other copies of this slab.
  CopyTicket Begin(bool to_host, const KvShape& shape, std::byte* slab, std::span<const SlabRun> runs,
                   cudaStream_t step);
  /// Never blocks. After a device failure every ticket is done.
  bool Done(CopyTicket ticket);
  void Wait(CopyTicket ticket);

  /// True if any copy may still be in flight.
  bool busy() const { return !copies_.empty(); }
  /// True if a copy of this slab may still be in flight.
  bool Moves(const void* slab);
  /// Makes `step` wait until this layer of the slab, or the whole slab that contains `place`, may be read and written.
  /// Read-only accesses need not wait for copies to the host.
  void Await(const void* slab, int64_t layer, cudaStream_t step);
  /// As above for the slab's recurrent state.
  void AwaitState(const void* slab, cudaStream_t step);
  void Await(const void* place, cudaStream_t step, bool only_reads = false);

 private:
  struct Copy {
    CopyTicket ticket = 0;
    const void* slab = nullptr;
    int64_t slab_bytes = 0;
    bool to_host = false;
    int64_t layers_per_event = 1;
    bool has_state = false;
    std::vector<cudaEvent_t> events;  // of the recurrent state; one per run of layers; the last one ends the copy
  };
  void Forget(size_t copy);
  void ForgetDone();
  cudaEvent_t AcquireEvent();

  cudaStream_t to_host_ = nullptr, to_device_ = nullptr;
  CopyTicket last_ticket_ = 0;
  std::vector<Copy> copies_;  // oldest first
  std::vector<cudaEvent_t> free_events_;
};

}  // namespace ringside::cuda
