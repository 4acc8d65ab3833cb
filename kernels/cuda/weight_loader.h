// Loads weights to the device: converted to the backend's type, or quantized. Owned by the backend.
// THREAD: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/memory/device_memory.h"
#include "kernels/cuda/memory/weight_upload.h"
#include "kernels/cuda/steps/step_recorder.h"

namespace ringside::cuda {

class WeightLoader {
 public:
  static constexpr size_t kActOrderBytes = size_t{32} << 20;

  /// All are borrowed; `backend` owns the buffers.
  WeightLoader(const CudaBackendOptions& options, Backend* backend, DeviceMemory* memory, StepRecorder* recorder)
      : options_(options), backend_(backend), memory_(memory), recorder_(recorder) {}

  /// Backend::LoadWeight of a checked matrix.
  Result<Weight> Load(const HostTensor& host);
  /// Backend::MakeRandomWeight of a matrix that is not quantized.
  Result<Weight> MakeRandom(const RandomMatrix& matrix);
  /// Allocates device memory and copies `bytes` into it; `bytes` may be freed on return.
  /// ERRORS: kOverloaded if device memory is exhausted.
  Result<Buffer> Keep(std::span<const std::byte> bytes);

  /// An id shared by all weights with the same act-order permutation of inputs; 0: no permutation.
  int OrderOf(const Weight& weight) const;
  /// kActOrderBytes: rows of inputs permuted into a weight's order.
  void* act_order_x() const { return act_order_x_; }
  /// Forgets a permutation whose memory is being freed.
  void ForgetOrder(const void* data) { act_order_id_by_address_.erase(data); }

 private:
  /// Allocates a matrix of options_.dtype.
  Result<Weight> AllocateFloatWeight(int64_t rows, int64_t cols);
  /// Allocates a matrix of `bytes` bytes with `scales` scales.
  Result<Weight> AllocateScaledWeight(DType dtype, int64_t rows, int64_t cols, size_t bytes, size_t scales);
  std::byte* AllocateScales(size_t count);
  /// Loads a matrix as options_.dtype.
  Result<Weight> LoadFloats(const HostTensor& host);
  /// Loads a matrix as kI8 or kF8E4M3, one byte an element: quantized to it, or unchanged if the file has that type.
  Result<Weight> LoadBytes(const HostTensor& host, DType dtype);
  /// Loads a block-quantized matrix.
  /// ERRORS: also kInvalidArgument if the conversion would change values.
  Result<Weight> LoadBlockQuantized(const HostTensor& host, DType dtype);
  /// Stores the act-order permutation of a weight's inputs for Linear; does nothing if there is none.
  Status StoreActOrder(std::span<const int32_t> order, Weight* weight);

  /// Starts the copy of a buffer of upload_.
  void Upload(void* device, std::span<const uint8_t> piece);
  void UploadFloats(void* device, std::span<const float> values);

  const CudaBackendOptions& options_;
  Backend* const backend_;
  DeviceMemory* const memory_;
  StepRecorder* const recorder_;
  WeightUpload upload_;
  std::span<std::byte> scale_room_;  // rest of a block of memory_, for further scales
  std::map<std::vector<int32_t>, int> act_order_ids_;
  std::unordered_map<const void*, int> act_order_id_by_address_;  // keyed by the permutation's device address
  void* act_order_x_ = nullptr;
};

}  // namespace ringside::cuda
