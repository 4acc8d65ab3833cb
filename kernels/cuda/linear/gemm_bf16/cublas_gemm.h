// GEMMs by cuBLAS for many rows. The fastest algorithm depends on shape, chip and version. So the cuBLAS default and
// the candidates of cuBLASLt are timed when a shape of more than 64 rows is first seen outside of graph capture, and
// the winner is cached. Measured on an H200 at 512 rows: a gain of 10 % in the layers of a 135M model and none in those
// of an 8B model, where clock variation exceeds the difference. Up to 64 rows the cuBLAS default is as good. E4M3 GEMMs
// always use cuBLASLt and are timed for any number of rows. Owned by the step runner.
// THREAD: one.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

class CublasGemm {
 public:
  CublasGemm() = default;
  CublasGemm(const CublasGemm&) = delete;
  CublasGemm& operator=(const CublasGemm&) = delete;
  ~CublasGemm();

  /// `workspace` and `scratch` (results of timing trials) are borrowed. `timed` off: always the cuBLAS default, so that
  /// every run sums a shape in the same order.
  Status Start(cudaStream_t stream, void* workspace, size_t workspace_bytes, void* scratch, size_t scratch_bytes,
               bool timed);
  /// y (+)= x W^T; W [y.cols, x.cols] of x's type, y of that type or float32. Strides are multiples of 8.
  void Multiply(const void* weight, Tensor x, Tensor y, bool accumulate);
  /// y (+)= x W^T + bias, optionally followed by tanh GELU, rounded once; the bias is of y's type. Returns false and
  /// does nothing if the shape has not been timed and cannot be now, or if no algorithm supports it.
  bool MultiplyWithBias(const void* weight, Tensor x, const void* bias, bool gelu, Tensor y, bool accumulate);
  /// y (+)= x W^T in E4M3 with a scale per row of both; W [y.cols, x.cols], scales [y.cols] and [x.rows]. The tensor
  /// cores accumulate with about 13 bits below the largest term. Returns false and does nothing if no algorithm
  /// supports the shape or none can be chosen now.
  /// REQUIRES: y.cols is a multiple of 16.
  bool MultiplyE4M3(const void* weight, const float* weight_scales, Tensor x, const float* x_scales, Tensor y,
                    bool accumulate);

 private:
  struct Operands;  // cuBLASLt descriptors of one call

  using Choice = std::optional<cublasLtMatmulAlgo_t>;  // nullopt: the cuBLAS default
  // Rows rounded up to a power of two, outputs, inputs, input type, result type, accumulate, alignment, epilogue.
  using Key = std::tuple<int64_t, int64_t, int64_t, DType, DType, bool, uint32_t, cublasLtEpilogue_t>;

  /// The cached choice for the operands, made now if necessary. Null if the row count is left to the cuBLAS default or
  /// if nothing can be timed now.
  const Choice* ChoiceFor(Operands& operands);
  /// Times all candidates and returns the fastest.
  Choice Choose(Operands& operands);
  /// The first candidate of cuBLASLt's heuristic.
  Choice FirstOffer(Operands& operands) const;
  /// Runs the cached choice; false if it is not a cuBLASLt algorithm.
  bool RunSelected(Operands& operands);
  std::vector<cublasLtMatmulAlgo_t> Offers(Operands& operands) const;
  cublasStatus_t Run(Operands& operands, const Choice& choice, void* y) const;
  float Time(Operands& operands, const Choice& choice) const;

  cublasHandle_t blas_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  void* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  void* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
  bool timed_ = true;
  std::map<Key, Choice> chosen_;
};

}  // namespace ringside::cuda
