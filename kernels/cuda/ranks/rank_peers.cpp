#include "kernels/cuda/ranks/rank_peers.h"

#include <fmt/format.h>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

/// What a rank tells the others of itself.
struct Introduction {
  PeerPlace place;
  uint4* inbox = nullptr;
  std::byte* outbox = nullptr;
  uint32_t* told = nullptr;
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
  const Introduction own{.place = PlaceOn(device),
                         .inbox = memory_.Take<uint4>(static_cast<size_t>(2 * ranks * RankLinks::kInboxFours)),
                         .outbox = memory_.Take<std::byte>(2 * RankLinks::kOutboxBytes),
                         .told = memory_.Take<uint32_t>(kMaxRanks * RankLinks::kMaxBlocks)};
  links_ = {.rank = comm.rank(),
            .ranks = ranks,
            .calls = memory_.Take<uint32_t>(1),
            .blocks_ended = memory_.Take<uint32_t>(1),
            .patience = memory_.TakePatience(comm.timeout())};
  CHECK_CUDA(cudaDeviceSynchronize());

  std::vector<Introduction> all(static_cast<size_t>(ranks));
  comm.AllGather(&own, sizeof(own), all.data());
  RETURN_IF_ERROR(comm.status());
  if (!memory_.had_room()) {
    return Overloaded(fmt::format("device {} has no room for what ranks tell one another", device));
  }
  for (size_t r = 0; r < all.size(); ++r) {
    if (static_cast<int>(r) != links_.rank) RETURN_IF_ERROR(ReachMemoryOf(device, all[r].place));
    links_.inboxes[r] = all[r].inbox;
    links_.outboxes[r] = all[r].outbox;
    links_.told[r] = all[r].told;
  }
  return Status::Ok();
}

}  // namespace ringside::cuda
