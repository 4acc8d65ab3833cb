// One rank's end of the memory that the devices of a group reach one another through: taken at start, when all ranks
// meet. Owned by the backend, its thread.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "kernels/comm.h"
#include "kernels/cuda/ranks/rank_links.h"

namespace ringside::cuda {

class RankPeers {
 public:
  RankPeers() = default;
  RankPeers(const RankPeers&) = delete;
  RankPeers& operator=(const RankPeers&) = delete;
  ~RankPeers();

  /// Takes memory on `device`, which is selected, and exchanges where it is. All ranks call it at one time.
  /// kUnavailable if the devices do not reach each other's memory; kOverloaded without room.
  Status Start(std::unique_ptr<Comm> comm, int device);

  bool started() const { return comm_ != nullptr; }
  const RankLinks& links() const { return links_; }
  /// kUnavailable once a rank has not come. Any thread.
  Status status() const;

 private:
  std::unique_ptr<Comm> comm_;
  RankLinks links_;
  std::vector<void*> memory_;
  volatile uint32_t* lost_ = nullptr;  // pinned host memory
};

}  // namespace ringside::cuda
