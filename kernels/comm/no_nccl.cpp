// NCCL entry points of a build without NCCL.
#include "kernels/ranks/stream_comm.h"

namespace ringside {

Result<std::unique_ptr<StreamComm>> MakeNcclComm(Comm&, void*) {
  return Unavailable("this program was built without NCCL (RINGSIDE_NCCL is off)");
}

bool HasNccl() { return false; }

}  // namespace ringside
