#include "kernels/cuda/ranks/device_messages.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {

Status DeviceMessages::Start(Comm& comm, const cudaUUID_t& uuid, int64_t bytes, cudaStream_t stream) {
  std::vector<cudaUUID_t> devices(static_cast<size_t>(comm.ranks()));
  comm.AllGather(&uuid, sizeof(cudaUUID_t), devices.data());
  RETURN_IF_ERROR(comm.status());
  for (size_t a = 0; a < devices.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (std::memcmp(&devices[a], &devices[b], sizeof(cudaUUID_t)) != 0) continue;
      return Unavailable(fmt::format("ranks {} and {} share a device, which NCCL does not support", b, a));
    }
  }
  const bool room = cudaMalloc(&memory_, static_cast<size_t>(bytes)) == cudaSuccess;
  static_cast<void>(cudaGetLastError());
  if (room) CHECK_CUDA(cudaMemset(memory_, 0, static_cast<size_t>(bytes)));
  CHECK_CUDA(cudaDeviceSynchronize());
  auto made = MakeNcclComm(comm, stream);
  RETURN_IF_ERROR(made.status());
  if (!room) return Overloaded(fmt::format("no device memory for {} bytes of NCCL messages", bytes));
  nccl_ = std::move(*made);
  return Status::Ok();
}

void DeviceMessages::Stop() {
  nccl_.reset();
  if (memory_ != nullptr) CHECK_CUDA(cudaFree(memory_));
  memory_ = nullptr;
}

Status GroupStatus(const Comm& comm, const PeerMemory& memory, const DeviceMessages& messages, const char* member) {
  if (Status status = comm.status(); !status.ok()) {
    memory.GiveUp();
    return status;
  }
  if (memory.lost()) return Unavailable(fmt::format("a {} did not come to a step in time", member));
  return messages.status();
}

}  // namespace ringside::cuda
