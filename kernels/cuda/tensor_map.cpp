#include "kernels/cuda/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <iterator>

#include "base/check.h"
#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

// Looks up the driver function through the runtime, so that the program links and starts without a driver.
PFN_cuTensorMapEncodeTiled_v12000 Encoder() {
  static const auto encoder = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    CHECK_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result));
    CHECK(result == cudaDriverEntryPointSuccess && found != nullptr);
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
  }();
  return encoder;
}

template <int kDimensions>
CUtensorMap Encode(DType dtype, const void* data, const cuuint64_t (&sizes)[kDimensions],
                   const cuuint64_t (&strides)[kDimensions - 1], const cuuint32_t (&box)[kDimensions],
                   CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  CUtensorMap map;
  cuuint32_t steps[kDimensions];
  for (cuuint32_t& step : steps) step = 1;
  const CUresult result =
      Encoder()(&map, dtype == DType::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                kDimensions, const_cast<void*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CHECK_EQ(result, CUDA_SUCCESS);
  return map;
}

}  // namespace

bool CanMap(const void* data, int64_t stride) { return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride % 8 == 0; }

CUtensorMap MapRows(DType dtype, const void* data, int64_t rows, int64_t cols, int64_t stride, int box_rows) {
  return Encode<2>(dtype, data, {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)},
                   {static_cast<cuuint64_t>(stride) * 2}, {kBoxColumns, static_cast<cuuint32_t>(box_rows)});
}

CUtensorMap MapGateUp(DType dtype, const void* data, int64_t rows, int64_t cols, int box_rows) {
  const auto n = static_cast<cuuint64_t>(rows / 2), row_bytes = static_cast<cuuint64_t>(cols) * 2;
  return Encode<4>(dtype, data, {static_cast<cuuint64_t>(cols), 8, 2, n / 8}, {row_bytes, n * row_bytes, 8 * row_bytes},
                   {kBoxColumns, 8, 2, static_cast<cuuint32_t>(box_rows / 16)});
}

namespace {

CUtensorMap MapKeys(const void* memory, int64_t bytes, int dims, int64_t unit) {
  const auto n = static_cast<cuuint64_t>(dims);
  return Encode<4>(DType::kBF16, memory, {16, 8, n / 8, static_cast<cuuint64_t>(bytes / unit)},
                   {32, 256, static_cast<cuuint64_t>(unit)}, {16, 8, static_cast<cuuint32_t>(dims / 8), 1},
                   CU_TENSOR_MAP_SWIZZLE_32B);
}

}  // namespace

CUtensorMap MapKeyTiles(const void* memory, int64_t bytes, int dims) {
  return MapKeys(memory, bytes, dims, int64_t{dims} * 32);
}

CUtensorMap MapValueTiles(const void* memory, int64_t bytes, int dims) {
  CHECK(dims == 64 || dims == 128);
  const auto n = static_cast<cuuint64_t>(dims), half = n * 32;
  return Encode<4>(DType::kBF16, memory, {kBoxColumns, n / kBoxColumns, 16, static_cast<cuuint64_t>(bytes) / half},
                   {kBoxColumns * 2, n * 2, half}, {kBoxColumns, 1, 16, 1});
}

CUtensorMap MapWideKeys(const void* memory, int64_t bytes, int dims) {
  return MapKeys(memory, bytes, dims, kWideUnitBytes);
}

CUtensorMap MapWideValues(const void* memory, int64_t bytes, int dims) {
  static_assert(kWideUnitBytes == kWideUnitBoxes * kBoxColumns * 2);
  const auto n = static_cast<cuuint64_t>(dims), boxes = static_cast<cuuint64_t>(bytes / (kBoxColumns * 2));
  return Encode<4>(DType::kBF16, memory, {kBoxColumns, boxes, 16, 1}, {kBoxColumns * 2, n * 2, n * 32},
                   {kBoxColumns, 1, 16, 1});
}

}  // namespace ringside::cuda
