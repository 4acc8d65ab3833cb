#include "kernels/cuda/ranks/rank_peers.h"

#include <fmt/format.h>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

/// The memory that a rank lends to the others.
struct Introduction {
  PeerHandle inbox, outbox, published;
};

}  // namespace

void RankPeers::Stop() {
  memory_.Stop();
  links_ = {};
}

Status RankPeers::Start(Comm& comm, int device) {
  const int ranks = comm.ranks();
  if (ranks > kMaxRanks) return InvalidArgument(fmt::format("{} ranks; {} at most", ranks, kMaxRanks));
  static_assert(sizeof(uint4) == RankLinks::kInboxWord);
  const Introduction own{
      .inbox = memory_.Export<uint4>(device, static_cast<size_t>(2 * ranks * RankLinks::kInboxFloat4s)),
      .outbox = memory_.Export<std::byte>(device, 2 * RankLinks::kOutboxBytes),
      .published = memory_.Export<uint32_t>(device, kMaxRanks * RankLinks::kMaxBlocks)};
  links_ = {.rank = comm.rank(),
            .ranks = ranks,
            .calls = memory_.Allocate<uint32_t>(1),
            .blocks_started = memory_.Allocate<uint32_t>(1),
            .timeout = memory_.MakeTimeout(comm.timeout())};
  CHECK_CUDA(cudaDeviceSynchronize());

  std::vector<Introduction> all(static_cast<size_t>(ranks));
  comm.AllGather(&own, sizeof(own), all.data());
  RETURN_IF_ERROR(comm.status());
  if (!memory_.had_room()) {
    return Overloaded(fmt::format("device {} has no memory for the peer buffers of ranks", device));
  }
  for (size_t r = 0; r < all.size(); ++r) {
    RETURN_IF_ERROR(memory_.MapPeer(device, all[r].inbox, &links_.inboxes[r]));
    RETURN_IF_ERROR(memory_.MapPeer(device, all[r].outbox, &links_.outboxes[r]));
    RETURN_IF_ERROR(memory_.MapPeer(device, all[r].published, &links_.published[r]));
  }
  return Status::Ok();
}

}  // namespace ringside::cuda
