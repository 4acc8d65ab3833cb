// Copies of slabs to the host and back on streams of their own, one each way, ordered with the step's stream by events
// both ways: a copy begins when what was issued before it has run, a layer is used when it has come in. The step's
// stream itself never carries one. Owned by the backend, one thread.
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
  /// Returns when nothing is copied any more.
  void WaitForAll();
  /// The same, for good.
  void Stop();
  std::array<cudaStream_t, 2> streams() const { return {to_host_, to_device_}; }
  /// Begins a copy after everything that is on `step` now and after other copies of this slab.
  CopyTicket Begin(bool to_host, const KvShape& shape, std::byte* slab, std::span<const SlabRun> runs,
                   cudaStream_t step);
  /// Never blocks. Every ticket is done once the device has failed.
  bool Done(CopyTicket ticket);
  void Wait(CopyTicket ticket);

  /// True if any copy may still be under way.
  bool busy() const { return !copies_.empty(); }
  /// True if a copy of this slab may still be under way.
  bool Moves(const void* slab);
  /// Makes `step` wait until this layer of the slab may be read and written; or all of the slab that a place is in.
  /// What is only read need not wait for a copy to the host.
  void Await(const void* slab, int64_t layer, cudaStream_t step);
  void Await(const void* place, cudaStream_t step, bool only_reads = false);

 private:
  struct Copy {
    CopyTicket ticket = 0;
    const void* slab = nullptr;
    int64_t slab_bytes = 0;
    bool to_host = false;
    int64_t layers_per_event = 1;
    std::vector<cudaEvent_t> events;  // the last one ends the copy
  };
  void Forget(size_t copy);
  void ForgetDone();
  cudaEvent_t TakeEvent();

  cudaStream_t to_host_ = nullptr, to_device_ = nullptr;
  CopyTicket last_ticket_ = 0;
  std::vector<Copy> copies_;  // oldest first
  std::vector<cudaEvent_t> free_events_;
};

}  // namespace ringside::cuda
