// One rank's ends of the links to the stages beside its own: taken at start, when the ranks of all stages meet. Owned
// by the backend, its thread.
#pragma once

#include <memory>

#include "base/status.h"
#include "kernels/comm.h"
#include "kernels/cuda/ranks/peer_memory.h"
#include "kernels/cuda/ranks/stage_links.h"

namespace ringside::cuda {

class StagePeers {
 public:
  /// Takes memory on `device`, which is selected, and exchanges where it is. The ranks of all stages call it at one
  /// time. On every rank kUnavailable if the devices of neighbours do not reach each other's memory; kOverloaded
  /// without room.
  Status Start(std::unique_ptr<Comm> comm, int device);

  bool started() const { return comm_ != nullptr; }
  const StageLinks& links() const { return links_; }
  /// kUnavailable once a stage has not come. Any thread.
  Status status() const;

 private:
  /// Where what is taken of this rank and of those beside it lies, if it reaches them.
  Status Meet(int device);

  std::unique_ptr<Comm> comm_;
  StageLinks links_;
  PeerMemory memory_;
};

}  // namespace ringside::cuda
