#include "kernels/cuda/ranks/stage_peers.h"

#include <fmt/format.h>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

/// What a stage tells those beside it of itself.
struct Introduction {
  PeerPlace place;
  std::byte* inbox = nullptr;
  uint32_t* told = nullptr;
  uint32_t* taken = nullptr;
};

}  // namespace

void StagePeers::Stop() {
  memory_.Stop();
  links_ = {};
}

Status StagePeers::Start(Comm& comm, int device) {
  const Introduction own{
      .place = PlaceOn(device),
      .inbox = memory_.Take<std::byte>(static_cast<size_t>(StageLinks::kCallsUnderWay * StageLinks::kBytes)),
      .told = memory_.Take<uint32_t>(StageLinks::kMaxBlocks),
      .taken = memory_.Take<uint32_t>(1)};
  links_ = {.inbox = own.inbox,
            .told = own.told,
            .taken = own.taken,
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
  if (!memory_.had_room()) return Overloaded(fmt::format("device {} has no room for what stages hand on", device));
  const Introduction &next = all[(stage + 1) % stages], &last = all[(stage + stages - 1) % stages];
  for (const Introduction* other : {&next, &last}) RETURN_IF_ERROR(ReachMemoryOf(device, other->place));
  links_.next_inbox = next.inbox;
  links_.next_told = next.told;
  links_.taken_of_last = last.taken;
  return Status::Ok();
}

}  // namespace ringside::cuda
