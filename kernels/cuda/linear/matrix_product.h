// Products of many rows by cuBLAS. Which of its algorithms is fastest depends on shape, chip and version: what cuBLAS
// takes itself and what cuBLASLt offers are timed where a shape of more than 64 rows is first met outside of a graph's
// recording, and the choice is kept. Measured on an H200, 512 rows: 10 % in the layers of a 135M model, nothing in an
// 8B one's, where the clock varies more than the algorithms do. Up to 64 rows cuBLAS's own choice is as good. Products
// in E4M3 are cuBLASLt's alone, timed for any number of rows. Owned by the step runner, one thread.
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

class MatrixProduct {
 public:
  MatrixProduct() = default;
  MatrixProduct(const MatrixProduct&) = delete;
  MatrixProduct& operator=(const MatrixProduct&) = delete;
  ~MatrixProduct();

  /// `workspace` and `scratch` (results of trials) are borrowed. `timed` off: always cuBLAS's own choice, so that a
  /// shape's sums are taken in the same order in every run.
  Status Start(cudaStream_t stream, void* workspace, size_t workspace_bytes, void* scratch, size_t scratch_bytes,
               bool timed);
  /// y (+)= x W^T; W [y.cols, x.cols] of x's type, y of that type or float32. Strides are multiples of 8.
  void Multiply(const void* weight, Tensor x, Tensor y, bool accumulate);
  /// y (+)= x W^T + bias, or the GELU of that by the tanh approximation, rounded once; the bias is of y's type. False,
  /// and nothing is done, if the shape has not been timed yet and cannot be now, or no algorithm does it.
  bool MultiplyWithBias(const void* weight, Tensor x, const void* bias, bool gelu, Tensor y, bool accumulate);
  /// y (+)= x W^T of E4M3, each row of both times its scale; W [y.cols, x.cols], scales [y.cols] and [x.rows]. Sums are
  /// those of the tensor cores, of some 13 bits behind the largest term. False, and nothing is done, if there is no
  /// algorithm for it or none can be chosen now; columns of y are a multiple of 16.
  bool MultiplyE4M3(const void* weight, const float* weight_scales, Tensor x, const float* x_scales, Tensor y,
                    bool accumulate);

 private:
  struct Operands;  // cuBLASLt's descriptions of one call

  using Choice = std::optional<cublasLtMatmulAlgo_t>;  // none: cuBLAS's own
  // Rows up to a power of two, outputs, inputs, their type, the result's, sum, alignment, what follows the product.
  using Key = std::tuple<int64_t, int64_t, int64_t, DType, DType, bool, uint32_t, cublasLtEpilogue_t>;

  /// What is chosen for the operands, now if need be; null if they are as many as cuBLAS itself knows best, or if
  /// nothing can be timed now.
  const Choice* ChoiceFor(Operands& operands);
  /// The fastest.
  Choice Choose(Operands& operands);
  /// What cuBLASLt thinks the fastest.
  Choice FirstOffer(Operands& operands) const;
  /// By what is chosen; false if that is not cuBLASLt's.
  bool RunChosen(Operands& operands);
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
