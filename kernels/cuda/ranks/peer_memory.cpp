#include "kernels/cuda/ranks/peer_memory.h"

#include <fmt/format.h>

#include <random>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {

PeerPlace PlaceOn(int device) {
  static const uint64_t process = [] {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }();
  return {process, device};
}

Status ReachMemoryOf(int own, const PeerPlace& other) {
  if (other.process != PlaceOn(own).process) return Unavailable("the other rank is in another process");
  if (own == other.device) return Status::Ok();  // ranks of a test
  int can = 0;
  CHECK_CUDA(cudaDeviceCanAccessPeer(&can, own, other.device));
  const cudaError_t error = can != 0 ? cudaDeviceEnablePeerAccess(other.device, 0) : cudaErrorPeerAccessUnsupported;
  static_cast<void>(cudaGetLastError());
  if (error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled) return Status::Ok();
  return Unavailable(fmt::format("device {} does not reach the memory of device {}: {}", own, other.device,
                                 cudaGetErrorString(error)));
}

Status AgreeOn(Comm& comm, const Status& own) {
  struct Said {
    StatusCode code = StatusCode::kOk;
    char message[252] = {};
  } said{.code = own.code()};
  own.message().copy(said.message, sizeof(said.message) - 1);
  std::vector<Said> all(static_cast<size_t>(comm.ranks()));
  comm.AllGather(&said, sizeof(said), all.data());
  RETURN_IF_ERROR(comm.status());
  RETURN_IF_ERROR(own);
  for (const Said& one : all) {
    if (one.code != StatusCode::kOk) return {one.code, one.message};
  }
  return Status::Ok();
}

RankPatience PeerMemory::TakePatience(std::chrono::milliseconds timeout) {
  void* host = nullptr;
  if (cudaHostAlloc(&host, sizeof(uint32_t), cudaHostAllocPortable) == cudaSuccess) {
    *static_cast<uint32_t*>(host) = 0;
  } else {
    static_cast<void>(cudaGetLastError());
    had_room_ = false;
  }
  lost_ = static_cast<uint32_t*>(host);
  return {.lost = Take<uint32_t>(1),
          .lost_on_host = static_cast<uint32_t*>(host),
          .ns = static_cast<uint64_t>(std::chrono::nanoseconds(timeout).count())};
}

void PeerMemory::Stop() {
  for (void* memory : memory_) CHECK_CUDA(cudaFree(memory));
  memory_.clear();
  had_room_ = true;
  if (lost_ != nullptr) CHECK_CUDA(cudaFreeHost(const_cast<uint32_t*>(lost_)));
  lost_ = nullptr;
}

void* PeerMemory::TakeBytes(size_t bytes) {
  void* data = nullptr;
  if (cudaMalloc(&data, bytes) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    had_room_ = false;
    return nullptr;
  }
  memory_.push_back(data);
  CHECK_CUDA(cudaMemset(data, 0, bytes));
  return data;
}

}  // namespace ringside::cuda
