#include "kernels/cuda/linear/gemm_bf16/cublas_gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

constexpr int kMaxCandidates = 8, kTrials = 4;
constexpr int64_t kFewRows = 64;

cudaDataType_t CudaType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kF8E4M3:
      return CUDA_R_8F_E4M3;
    default:
      return CUDA_R_16BF;
  }
}

/// The largest power of two up to 256 that divides the address.
uint32_t AlignmentOf(const void* p) { return uint32_t{1} << std::countr_zero(reinterpret_cast<uintptr_t>(p) | 256); }

}  // namespace

// cuBLAS is column-major: y^T [outputs, rows] = W [outputs, k] x^T.
struct CublasGemm::Operands {
  const void* w;
  Tensor x, y;
  float sum;  // beta: the factor of the old y
  const void* bias = nullptr;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float *w_scales = nullptr, *x_scales = nullptr;  // row scales of E4M3
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t w_layout, x_layout, y_layout;

  Operands(const void* weight, const Tensor& in, const Tensor& out, bool accumulate)
      : w(weight), x(in), y(out), sum(accumulate ? 1.0f : 0.0f) {}
  bool in_e4m3() const { return x.dtype == DType::kF8E4M3; }
  /// Whether plain cuBLAS supports the call, too.
  bool by_cublas() const { return bias == nullptr && !in_e4m3(); }
  /// Fills in the cuBLASLt descriptors.
  void Describe() {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto& value) {
      CHECK_CUBLAS(cublasLtMatmulDescSetAttribute(&operation, name, &value, sizeof value));
    };
    const auto rows = static_cast<uint64_t>(x.rows), k = static_cast<uint64_t>(x.cols),
               outputs = static_cast<uint64_t>(y.cols);
    CHECK_CUBLAS(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, transposed);
    if (bias != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CudaType(y.dtype));
    }
    if (in_e4m3()) {
      set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, w_scales);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, x_scales);
      // The tensor cores' reduced accumulation loses little compared with the rounding to E4M3.
      set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    }
    CHECK_CUBLAS(cublasLtMatrixLayoutInit(&w_layout, CudaType(x.dtype), k, outputs, x.cols));
    CHECK_CUBLAS(cublasLtMatrixLayoutInit(&x_layout, CudaType(x.dtype), k, rows, x.stride));
    CHECK_CUBLAS(cublasLtMatrixLayoutInit(&y_layout, CudaType(y.dtype), outputs, rows, y.stride));
  }
  uint32_t Alignment() const { return std::min({AlignmentOf(w), AlignmentOf(x.data), AlignmentOf(y.data)}); }
};

CublasGemm::~CublasGemm() {
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (end_ != nullptr) cudaEventDestroy(end_);
  if (handle_ != nullptr) cublasLtDestroy(handle_);
  if (blas_ != nullptr) cublasDestroy(blas_);
}

Status CublasGemm::Start(cudaStream_t stream, void* workspace, size_t workspace_bytes, void* scratch,
                         size_t scratch_bytes, bool timed) {
  stream_ = stream, workspace_ = workspace, workspace_bytes_ = workspace_bytes;
  scratch_ = scratch, scratch_bytes_ = scratch_bytes, timed_ = timed;
  if (cublasCreate(&blas_) != CUBLAS_STATUS_SUCCESS || cublasLtCreate(&handle_) != CUBLAS_STATUS_SUCCESS) {
    return Unavailable("cuBLAS initialization failed");
  }
  CHECK_CUBLAS(cublasSetStream(blas_, stream));
  // Partial sums stay float32 whatever the result type is.
  CHECK_CUBLAS(cublasSetMathMode(
      blas_, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
  CHECK_CUBLAS(cublasSetWorkspace(blas_, workspace, workspace_bytes));
  CHECK_CUDA(cudaEventCreate(&begin_));
  CHECK_CUDA(cudaEventCreate(&end_));
  return Status::Ok();
}

cublasStatus_t CublasGemm::Run(Operands& o, const Choice& choice, void* y) const {
  const float one = 1;
  if (choice) {
    return cublasLtMatmul(handle_, &o.operation, &one, o.w, &o.w_layout, o.x.data, &o.x_layout, &o.sum, y, &o.y_layout,
                          y, &o.y_layout, &*choice, workspace_, workspace_bytes_, stream_);
  }
  return cublasGemmEx(blas_, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(o.y.cols), static_cast<int>(o.x.rows),
                      static_cast<int>(o.x.cols), &one, o.w, CudaType(o.x.dtype), static_cast<int>(o.x.cols), o.x.data,
                      CudaType(o.x.dtype), static_cast<int>(o.x.stride), &o.sum, y, CudaType(o.y.dtype),
                      static_cast<int>(o.y.stride), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

// Milliseconds of kTrials runs into scratch memory. Writing the scratch memory before each run evicts the weights from
// the L2 cache, as in a real step, which reads them once. Infinite if the algorithm fails.
float CublasGemm::Time(Operands& operands, const Choice& choice) const {
  if (Run(operands, choice, scratch_) != CUBLAS_STATUS_SUCCESS) return INFINITY;
  float sum = 0;
  for (int i = 0; i < kTrials; ++i) {
    CHECK_CUDA(cudaMemsetAsync(scratch_, 0, scratch_bytes_, stream_));
    CHECK_CUDA(cudaEventRecord(begin_, stream_));
    CHECK_CUBLAS(Run(operands, choice, scratch_));
    CHECK_CUDA(cudaEventRecord(end_, stream_));
    CHECK_CUDA(cudaEventSynchronize(end_));
    float milliseconds = 0;
    CHECK_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_));
    sum += milliseconds;
  }
  return sum;
}

std::vector<cublasLtMatmulAlgo_t> CublasGemm::Offers(Operands& operands) const {
  cublasLtMatmulPreference_t preference = nullptr;
  CHECK_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    CHECK_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes_);
  // Partial sums stay float32 whatever the result type is, and are added in a fixed order.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, AlignmentOf(operands.w));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, AlignmentOf(operands.x.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, AlignmentOf(operands.y.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, AlignmentOf(operands.y.data));
  cublasLtMatmulHeuristicResult_t offers[kMaxCandidates] = {};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, &operands.operation, &operands.w_layout, &operands.x_layout, &operands.y_layout, &operands.y_layout,
      preference, kMaxCandidates, offers, &count);
  CHECK_CUBLAS(cublasLtMatmulPreferenceDestroy(preference));
  std::vector<cublasLtMatmulAlgo_t> out;
  for (int i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; ++i) out.push_back(offers[i].algo);
  return out;
}

CublasGemm::Choice CublasGemm::Choose(Operands& operands) {
  Choice best;
  float least = operands.by_cublas() ? Time(operands, best) : INFINITY;
  for (const cublasLtMatmulAlgo_t& offer : Offers(operands)) {
    const float time = Time(operands, offer);
    if (time < least) least = time, best = offer;
  }
  return best;
}

CublasGemm::Choice CublasGemm::FirstOffer(Operands& operands) const {
  const std::vector<cublasLtMatmulAlgo_t> offers = Offers(operands);
  return offers.empty() ? Choice() : offers.front();
}

const CublasGemm::Choice* CublasGemm::ChoiceFor(Operands& operands) {
  const Tensor &x = operands.x, &y = operands.y;
  const bool can_be_timed = static_cast<size_t>(StorageBytes(y.dtype, y.rows * y.stride)) <= scratch_bytes_;
  if (!operands.in_e4m3() && (!timed_ || x.rows <= kFewRows || !can_be_timed)) return nullptr;
  operands.Describe();
  const Key key{static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(x.rows))),
                y.cols,
                x.cols,
                x.dtype,
                y.dtype,
                operands.sum != 0,
                operands.Alignment(),
                operands.epilogue};
  auto found = chosen_.find(key);
  if (found == chosen_.end()) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    CHECK_CUDA(cudaStreamIsCapturing(stream_, &capture));
    if (capture != cudaStreamCaptureStatusNone) return nullptr;
    found = chosen_.emplace(key, can_be_timed ? Choose(operands) : FirstOffer(operands)).first;
  }
  return &found->second;
}

bool CublasGemm::RunSelected(Operands& operands) {
  const Choice* choice = ChoiceFor(operands);
  return choice != nullptr && *choice && Run(operands, *choice, operands.y.data) == CUBLAS_STATUS_SUCCESS;
}

void CublasGemm::Multiply(const void* weight, Tensor x, Tensor y, bool accumulate) {
  Operands operands(weight, x, y, accumulate);
  if (RunSelected(operands)) return;
  // also the fallback if an algorithm chosen for another row count fails for this one
  CHECK_CUBLAS(Run(operands, {}, y.data));
}

bool CublasGemm::MultiplyWithBias(const void* weight, Tensor x, const void* bias, bool gelu, Tensor y,
                                  bool accumulate) {
  Operands operands(weight, x, y, accumulate);
  operands.bias = bias;
  operands.epilogue = gelu ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return RunSelected(operands);
}

bool CublasGemm::MultiplyE4M3(const void* weight, const float* weight_scales, Tensor x, const float* x_scales, Tensor y,
                              bool accumulate) {
  Operands operands(weight, x, y, accumulate);
  operands.w_scales = weight_scales, operands.x_scales = x_scales;
  return RunSelected(operands);
}

}  // namespace ringside::cuda
