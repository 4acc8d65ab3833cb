#include "kernels/cuda/steps/submission.h"

#include <cstring>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {

Submission::~Submission() {
  if (readback_ != nullptr) cudaFreeHost(readback_);
  if (done_ != nullptr) cudaEventDestroy(done_);
}

bool Submission::Start(void* device, size_t staging_bytes, size_t readback_bytes) {
  CHECK_CUDA(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming));
  readback_bytes_ = readback_bytes;
  return staging_.Start(device, staging_bytes) &&
         cudaHostAlloc(reinterpret_cast<void**>(&readback_), readback_bytes, cudaHostAllocDefault) == cudaSuccess;
}

std::byte* Submission::StageReadback(void* host, size_t bytes) {
  const size_t room = (bytes + 255) / 256 * 256;
  if (room > readback_bytes_ - readback_used_) return nullptr;
  std::byte* to = readback_ + readback_used_;
  copies_.push_back({host, to, bytes});
  readback_used_ += room;
  return to;
}

void Submission::Send(cudaStream_t stream, uint64_t number) {
  CHECK_CUDA(cudaEventRecord(done_, stream));
  number_ = number;
}

void Submission::Complete() {
  if (number_ == 0) return;
  CHECK_CUDA(cudaEventSynchronize(done_));
  Empty();
}

void Submission::Empty() {
  for (const HostCopy& copy : copies_) std::memcpy(copy.to, copy.from, copy.bytes);
  copies_.clear();
  readback_used_ = 0;
  staging_.Rewind();
  number_ = 0;
}

}  // namespace ringside::cuda
