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

Status StagePeers::Start(std::unique_ptr<Comm> comm, int device) {
  comm_ = std::move(comm);
  return AgreeOn(*comm_, Meet(device));  // nobody writes before all are there
}

Status StagePeers::Meet(int device) {
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
            .patience = memory_.TakePatience(comm_->timeout())};
  CHECK_CUDA(cudaDeviceSynchronize());

  const auto stages = static_cast<size_t>(comm_->ranks()), stage = static_cast<size_t>(comm_->rank());
  std::vector<Introduction> all(stages);
  comm_->AllGather(&own, sizeof(own), all.data());
  RETURN_IF_ERROR(comm_->status());
  if (!memory_.had_room()) return Overloaded(fmt::format("device {} has no room for what stages hand on", device));
  const Introduction &next = all[(stage + 1) % stages], &last = all[(stage + stages - 1) % stages];
  for (const Introduction* other : {&next, &last}) {
    const Status reach = ReachMemoryOf(device, other->place);
    if (!reach.ok()) return Unavailable("stages hand rows on over peer memory: " + reach.message());
  }
  links_.next_inbox = next.inbox;
  links_.next_told = next.told;
  links_.taken_of_last = last.taken;
  return Status::Ok();
}

Status StagePeers::status() const {
  if (!started()) return Status::Ok();
  if (memory_.lost()) return Unavailable("a stage did not come to a step in time");
  return comm_->status();
}

}  // namespace ringside::cuda
