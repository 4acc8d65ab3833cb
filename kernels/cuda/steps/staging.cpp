#include "kernels/cuda/steps/staging.h"

#include <utility>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {

Staging::~Staging() {
  if (host_ != nullptr) cudaFreeHost(host_);
  if (copied_ != nullptr) cudaEventDestroy(copied_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

bool Staging::Start(void* device, size_t bytes) {
  void* host = nullptr;
  if (cudaHostAlloc(&host, bytes, cudaHostAllocDefault) != cudaSuccess) return false;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  CHECK_CUDA(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming));
  host_ = static_cast<std::byte*>(host), device_ = static_cast<std::byte*>(device), bytes_ = bytes;
  return true;
}

Staging::Place Staging::Reserve(size_t bytes) {
  constexpr size_t kAlignment = 16;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded > bytes_ - used_) return {nullptr, nullptr};
  const Place place{host_ + used_, device_ + used_};
  used_ += rounded;
  return place;
}

void Staging::Upload(const Launcher& on, UploadMode mode) {
  if (uploaded_ == used_) return;
  std::byte *to = device_ + uploaded_, *from = host_ + uploaded_;
  const size_t bytes = used_ - std::exchange(uploaded_, used_);
  if (mode == UploadMode::kByKernel) return LaunchUpload(on, to, from, bytes);
  const cudaStream_t stream = mode == UploadMode::kConcurrent ? stream_ : on.stream;
  CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
  if (mode == UploadMode::kInStreamOrder) return;
  CHECK_CUDA(cudaEventRecord(copied_, stream));
  CHECK_CUDA(cudaStreamWaitEvent(on.stream, copied_, 0));
}

}  // namespace ringside::cuda
