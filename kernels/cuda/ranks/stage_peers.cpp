#include "kernels/cuda/ranks/stage_peers.h"

#include <fmt/format.h>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

/// The memory that a stage lends to its neighbours.
struct Introduction {
  LentMemory inbox, told, taken;
};

}  // namespace

void StagePeers::Stop() {
  memory_.Stop();
  links_ = {};
}

Status StagePeers::Start(Comm& comm, int device) {
  const Introduction own{
      .inbox = memory_.Lend<std::byte>(device, static_cast<size_t>(StageLinks::kCallsUnderWay * StageLinks::kBytes)),
      .told = memory_.Lend<uint32_t>(device, StageLinks::kMaxBlocks),
      .taken = memory_.Lend<uint32_t>(device, 1)};
  links_ = {.inbox = static_cast<std::byte*>(own.inbox.address),
            .told = static_cast<uint32_t*>(own.told.address),
            .taken = static_cast<uint32_t*>(own.taken.address),
            .sent = memory_.Take<uint32_t>(1),
            .received = memory_.Take<uint32_t>(1),
            .send_blocks = memory_.Take<uint32_t>(1),
            .receive_blocks = memory_.Take<uint32_t>(1),
            .patience = memory_.TakePatience(comm.timeout())};
  CHECK_CUDA(cudaDeviceSynchronize());

  const auto stages = static_cast<size_t>(comm.ranks()), stage = static_cast<size_t>(comm.rank());
  std::vector<Introduction> all(stages);
  comm.AllGather(&own, sizeof(own), all.data());
  RETURN_IF_ERROR(comm.status());
  if (!memory_.had_room())
    return Overloaded(fmt::format("device {} has no memory for the peer buffers of stages", device));
  const Introduction &next = all[(stage + 1) % stages], &last = all[(stage + stages - 1) % stages];
  RETURN_IF_ERROR(memory_.Reach(device, next.inbox, &links_.next_inbox));
  RETURN_IF_ERROR(memory_.Reach(device, next.told, &links_.next_told));
  return memory_.Reach(device, last.taken, &links_.taken_of_last);
}

}  // namespace ringside::cuda
