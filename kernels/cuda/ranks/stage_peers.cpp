#include "kernels/cuda/ranks/stage_peers.h"

#include <fmt/format.h>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

/// The memory that a stage lends to its neighbours.
struct Introduction {
  PeerHandle inbox, published, consumed;
};

}  // namespace

void StagePeers::Stop() {
  memory_.Stop();
  links_ = {};
}

Status StagePeers::Start(Comm& comm, int device) {
  const Introduction own{
      .inbox = memory_.Export<std::byte>(device, static_cast<size_t>(StageLinks::kCallsInFlight * StageLinks::kBytes)),
      .published = memory_.Export<uint32_t>(device, StageLinks::kMaxBlocks),
      .consumed = memory_.Export<uint32_t>(device, 1)};
  links_ = {.inbox = static_cast<std::byte*>(own.inbox.address),
            .published = static_cast<uint32_t*>(own.published.address),
            .consumed = static_cast<uint32_t*>(own.consumed.address),
            .sent = memory_.Allocate<uint32_t>(1),
            .received = memory_.Allocate<uint32_t>(1),
            .send_blocks = memory_.Allocate<uint32_t>(1),
            .receive_blocks = memory_.Allocate<uint32_t>(1),
            .timeout = memory_.MakeTimeout(comm.timeout())};
  CHECK_CUDA(cudaDeviceSynchronize());

  const auto stages = static_cast<size_t>(comm.ranks()), stage = static_cast<size_t>(comm.rank());
  std::vector<Introduction> all(stages);
  comm.AllGather(&own, sizeof(own), all.data());
  RETURN_IF_ERROR(comm.status());
  if (!memory_.had_room())
    return Overloaded(fmt::format("device {} has no memory for the peer buffers of stages", device));
  const Introduction &next = all[(stage + 1) % stages], &last = all[(stage + stages - 1) % stages];
  RETURN_IF_ERROR(memory_.MapPeer(device, next.inbox, &links_.next_inbox));
  RETURN_IF_ERROR(memory_.MapPeer(device, next.published, &links_.next_published));
  return memory_.MapPeer(device, last.consumed, &links_.consumed_of_previous);
}

}  // namespace ringside::cuda
