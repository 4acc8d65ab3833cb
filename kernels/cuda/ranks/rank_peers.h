// One rank's end of the memory that the devices of a group reach one another through: taken at start, when all ranks
// meet. Owned by the backend, its thread.
#pragma once

#include "base/status.h"
#include "kernels/cuda/ranks/peer_memory.h"
#include "kernels/cuda/ranks/rank_links.h"
#include "kernels/ranks/comm.h"

namespace ringside::cuda {

class RankPeers {
 public:
  /// Takes memory on `device`, which is selected, and exchanges where it is. All ranks call it at one time, and may use
  /// the links when they know that all have returned well. kUnavailable if the device does not reach the others'
  /// memory, as that of another machine; kOverloaded without room.
  Status Start(Comm& comm, int device);
  /// Gives all of it back.
  void Stop();

  const RankLinks& links() const { return links_; }
  /// Whether a kernel has waited in vain for a rank. Any thread.
  bool lost() const { return memory_.lost(); }
  /// Kernels that wait give up at once. Any thread.
  void GiveUp() const { memory_.GiveUp(); }

 private:
  RankLinks links_;
  PeerMemory memory_;
};

}  // namespace ringside::cuda
