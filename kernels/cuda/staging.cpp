#include "kernels/cuda/staging.h"

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {

Staging::~Staging() {
  if (host_ != nullptr) cudaFreeHost(host_);
}

bool Staging::Start(void* device, size_t bytes) {
  void* host = nullptr;
  if (cudaHostAlloc(&host, bytes, cudaHostAllocDefault) != cudaSuccess) return false;
  host_ = static_cast<std::byte*>(host), device_ = static_cast<std::byte*>(device), bytes_ = bytes;
  return true;
}

Staging::Place Staging::Take(size_t bytes) {
  constexpr size_t kAlignment = 16;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded > bytes_ - used_) return {nullptr, nullptr};
  const Place place{host_ + used_, device_ + used_};
  used_ += rounded;
  return place;
}

void Staging::Upload(cudaStream_t stream) {
  if (uploaded_ == used_) return;
  CHECK_CUDA(
      cudaMemcpyAsync(device_ + uploaded_, host_ + uploaded_, used_ - uploaded_, cudaMemcpyHostToDevice, stream));
  uploaded_ = used_;
}

}  // namespace ringside::cuda
