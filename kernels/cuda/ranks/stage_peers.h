// One rank's ends of the links to the stages beside its own: taken at start, when the ranks of all stages meet. Owned
// by the backend, its thread.
#pragma once

#include "base/status.h"
#include "kernels/cuda/ranks/peer_memory.h"
#include "kernels/cuda/ranks/stage_links.h"
#include "kernels/ranks/comm.h"

namespace ringside::cuda {

class StagePeers {
 public:
  /// Takes memory on `device`, which is selected, and exchanges where it is. The ranks of all stages call it at one
  /// time, and may use the links when they know that all have returned well. kUnavailable if the device does not reach
  /// the memory of those beside it, as that of another machine; kOverloaded without room.
  Status Start(Comm& comm, int device);
  /// Gives all of it back.
  void Stop();

  const StageLinks& links() const { return links_; }
  /// Whether a kernel has waited in vain for a stage. Any thread.
  bool lost() const { return memory_.lost(); }
  /// Kernels that wait give up at once. Any thread.
  void GiveUp() const { memory_.GiveUp(); }

 private:
  StageLinks links_;
  PeerMemory memory_;
};

}  // namespace ringside::cuda
