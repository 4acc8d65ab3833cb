#include "kernels/cuda/ranks/rank_peers.h"

#include <fmt/format.h>

#include <random>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

/// What a rank tells the others of itself.
struct Introduction {
  uint64_t process = 0;
  int device = 0;
  uint4* inbox = nullptr;
  std::byte* outbox = nullptr;
  uint32_t* told = nullptr;
};

/// A number that no other process has, whatever its machine.
uint64_t ThisProcess() {
  static const uint64_t number = [] {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }();
  return number;
}

Status ReachMemoryOf(int own, int other) {
  if (own == other) return Status::Ok();  // ranks of a test
  int can = 0;
  CHECK_CUDA(cudaDeviceCanAccessPeer(&can, own, other));
  const cudaError_t error = can != 0 ? cudaDeviceEnablePeerAccess(other, 0) : cudaErrorPeerAccessUnsupported;
  static_cast<void>(cudaGetLastError());
  if (error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled) return Status::Ok();
  return Unavailable(
      fmt::format("device {} does not reach the memory of device {}: {}", own, other, cudaGetErrorString(error)));
}

}  // namespace

RankPeers::~RankPeers() { Stop(); }

void RankPeers::Stop() {
  for (void* memory : memory_) CHECK_CUDA(cudaFree(memory));
  memory_.clear();
  if (lost_ != nullptr) CHECK_CUDA(cudaFreeHost(const_cast<uint32_t*>(lost_)));
  lost_ = nullptr;
  links_ = {};
}

Status RankPeers::Start(Comm& comm, int device) {
  const int ranks = comm.ranks();
  if (ranks > kMaxRanks) return InvalidArgument(fmt::format("{} ranks; {} at most", ranks, kMaxRanks));
  const auto take = [&](size_t bytes) {
    void* data = nullptr;
    if (cudaMalloc(&data, bytes) != cudaSuccess) return static_cast<std::byte*>(nullptr);
    memory_.push_back(data);
    CHECK_CUDA(cudaMemset(data, 0, bytes));
    return static_cast<std::byte*>(data);
  };
  Introduction own{.process = ThisProcess(), .device = device};
  own.inbox =
      reinterpret_cast<uint4*>(take(static_cast<size_t>(2 * ranks * RankLinks::kInboxFours * RankLinks::kInboxWord)));
  own.outbox = take(2 * RankLinks::kOutboxBytes);
  own.told = reinterpret_cast<uint32_t*>(take(kMaxRanks * RankLinks::kMaxBlocks * sizeof(uint32_t)));
  auto* counters = reinterpret_cast<uint32_t*>(take(3 * 256));
  void* host = nullptr;
  const bool there =
      memory_.size() == 4 && cudaHostAlloc(&host, sizeof(uint32_t), cudaHostAllocPortable) == cudaSuccess;
  if (there) *static_cast<uint32_t*>(host) = 0;
  lost_ = static_cast<uint32_t*>(host);
  static_cast<void>(cudaGetLastError());
  CHECK_CUDA(cudaDeviceSynchronize());

  std::vector<Introduction> all(static_cast<size_t>(ranks));
  comm.AllGather(&own, sizeof(own), all.data());
  RETURN_IF_ERROR(comm.status());
  if (!there) return Overloaded(fmt::format("device {} has no room for what ranks tell one another", device));
  links_.rank = comm.rank();
  links_.ranks = ranks;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].process != own.process) return Unavailable(fmt::format("rank {} is in another process", r));
    if (static_cast<int>(r) != links_.rank) RETURN_IF_ERROR(ReachMemoryOf(device, all[r].device));
    if (all[r].inbox == nullptr) return Overloaded("another rank has no room");
    links_.inboxes[r] = all[r].inbox;
    links_.outboxes[r] = all[r].outbox;
    links_.told[r] = all[r].told;
  }
  links_.calls = counters;
  links_.blocks_ended = counters + 64;
  links_.lost = counters + 128;
  links_.lost_on_host = static_cast<uint32_t*>(host);
  links_.patience_ns = static_cast<uint64_t>(std::chrono::nanoseconds(comm.timeout()).count());
  return Status::Ok();
}

}  // namespace ringside::cuda
