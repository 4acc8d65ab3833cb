// One rank's part of the peer memory of a tensor-parallel group, set up at start. Owned by the backend.
// THREAD: the backend's, unless noted.
#pragma once

#include "base/status.h"
#include "kernels/cuda/ranks/peer_memory.h"
#include "kernels/cuda/ranks/rank_links.h"
#include "kernels/ranks/comm.h"

namespace ringside::cuda {

class RankPeers {
 public:
  /// Allocates memory on `device` and exchanges access to it. The links may be used once all ranks have returned Ok.
  /// REQUIRES: `device` is current; all ranks call it concurrently.
  /// ERRORS: kUnavailable without access to the others' memory, as on another machine; kOverloaded if memory is
  /// exhausted.
  Status Start(Comm& comm, int device);
  /// Frees the memory.
  void Stop();

  const RankLinks& links() const { return links_; }
  const PeerMemory& memory() const { return memory_; }

 private:
  RankLinks links_;
  PeerMemory memory_;
};

}  // namespace ringside::cuda
