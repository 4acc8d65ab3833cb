#include "kernels/cuda/memory/weight_upload.h"

#include <algorithm>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {

WeightUpload::~WeightUpload() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.pinned != nullptr) CHECK_CUDA(cudaFreeHost(buffer.pinned));
    if (buffer.copied != nullptr) CHECK_CUDA(cudaEventDestroy(buffer.copied));
  }
}

void WeightUpload::Grow(Buffer& buffer, size_t bytes) {
  if (buffer.pinned != nullptr) CHECK_CUDA(cudaFreeHost(buffer.pinned));
  buffer.pinned = nullptr;
  buffer.bytes = std::max(bytes, kPieceBytes);
  void* host = nullptr;
  if (cudaHostAlloc(&host, buffer.bytes, cudaHostAllocDefault) != cudaSuccess) {
    cudaGetLastError();  // not an error of the device
    buffer.bytes = 0;
    buffer.pageable.resize(bytes);
  }
  buffer.pinned = static_cast<uint8_t*>(host);
}

std::span<uint8_t> WeightUpload::Next(size_t bytes) {
  last_ = 1 - last_;
  Buffer& buffer = buffers_[last_];
  if (buffer.copied == nullptr) {
    CHECK_CUDA(cudaEventCreateWithFlags(&buffer.copied, cudaEventDisableTiming));
  } else {
    CHECK_CUDA(cudaEventSynchronize(buffer.copied));
  }
  if (bytes > std::max(buffer.bytes, buffer.pageable.size())) Grow(buffer, bytes);
  return {bytes <= buffer.bytes ? buffer.pinned : buffer.pageable.data(), bytes};
}

void WeightUpload::Sent(cudaStream_t stream) { CHECK_CUDA(cudaEventRecord(buffers_[last_].copied, stream)); }

}  // namespace ringside::cuda
