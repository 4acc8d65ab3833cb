// One rank's ends of the links to its neighbouring pipeline stages, set up at start. Owned by the backend.
// THREAD: the backend's, unless noted.
#pragma once

#include "base/status.h"
#include "kernels/cuda/ranks/peer_memory.h"
#include "kernels/cuda/ranks/stage_links.h"
#include "kernels/ranks/comm.h"

namespace ringside::cuda {

class StagePeers {
 public:
  /// Allocates memory on `device` and exchanges access to it. The links may be used once all ranks have returned Ok.
  /// REQUIRES: `device` is current; the ranks of all stages call it concurrently.
  /// ERRORS: kUnavailable without access to the neighbours' memory, as on another machine; kOverloaded if memory is
  /// exhausted.
  Status Start(Comm& comm, int device);
  /// Frees the memory.
  void Stop();

  const StageLinks& links() const { return links_; }
  const PeerMemory& memory() const { return memory_; }

 private:
  StageLinks links_;
  PeerMemory memory_;
};

}  // namespace ringside::cuda
