// Row-wise operations with factors (row_op.h): gates, scales, and those of several residual streams. Elements of any
// type; all are memory-bound, so a thread takes eight adjacent elements if rows allow it.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows/row_op.h"
#include "kernels/cuda/rows/row_sums.h"

namespace ringside::cuda {
namespace {

/// kCount adjacent elements of a row, as floats. 8: the address of the first is a multiple of 16 bytes.
template <int kCount>
struct RowPart {
  float v[kCount];

  static __device__ __forceinline__ RowPart Load(const Tensor& x, int64_t row, int64_t c) {
    const int64_t at = row * x.stride + c;
    RowPart out;
    if constexpr (kCount == 1) {
      out.v[0] = LoadElement(x.data, x.dtype, at);
    } else {
      const Vec8 eight = x.dtype == DType::kF32   ? LoadVec8(static_cast<const float*>(x.data) + at)
                         : x.dtype == DType::kF16 ? LoadVec8(static_cast<const __half*>(x.data) + at)
                                                  : LoadVec8(static_cast<const __nv_bfloat16*>(x.data) + at);
#pragma unroll
      for (int i = 0; i < 8; ++i) out.v[i] = eight.x[i];
    }
    return out;
  }
  __device__ __forceinline__ void Store(const Tensor& x, int64_t row, int64_t c) const {
    const int64_t at = row * x.stride + c;
    if constexpr (kCount == 1) {
      StoreElement(x.data, x.dtype, at, v[0]);
    } else if (x.dtype == DType::kF16) {
      StoreWords(static_cast<__half*>(x.data) + at);
    } else if (x.dtype == DType::kBF16) {
      StoreWords(static_cast<__nv_bfloat16*>(x.data) + at);
    } else {
      StoreFloat4(x.data, x.dtype, at, float4{v[0], v[1], v[2], v[3]});
      StoreFloat4(x.data, x.dtype, at + 4, float4{v[4], v[5], v[6], v[7]});
    }
  }

 private:
  template <class T>
  __device__ __forceinline__ void StoreWords(T* to) const {
    uint4 bits;
#pragma unroll
    for (int i = 0; i < kCount; ++i) reinterpret_cast<T*>(&bits)[i] = FromFloat<T>(v[i]);
    *reinterpret_cast<uint4*>(to) = bits;
  }
};

// Each functor replaces a part of row `row` from column c on.

struct GateRows {
  Tensor gate;
  GateKind kind;
  int64_t columns;  // of y per value of the gate: 1, or a multiple of kCount

  template <int kCount>
  __device__ __forceinline__ void operator()(RowPart<kCount>& y, int64_t row, int64_t c) const {
    RowPart<kCount> factors;
    if (columns == 1) {
      factors = RowPart<kCount>::Load(gate, row, c);
    } else {
      const float value = LoadElement(gate.data, gate.dtype, row * gate.stride + c / columns);
#pragma unroll
      for (float& factor : factors.v) factor = value;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) y.v[i] *= GateFactor(factors.v[i], kind);
  }
};

struct ScaleRows {
  float factor;

  template <int kCount>
  __device__ __forceinline__ void operator()(RowPart<kCount>& y, int64_t, int64_t) const {
#pragma unroll
    for (float& v : y.v) v *= factor;
  }
};

struct ScaleColumnsOfRows {
  const float* factors;

  template <int kCount>
  __device__ __forceinline__ void operator()(RowPart<kCount>& y, int64_t, int64_t c) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) y.v[i] *= factors[c + i];
  }
};

struct AddScaled {
  Tensor x, factors;

  template <int kCount>
  __device__ __forceinline__ void operator()(RowPart<kCount>& y, int64_t row, int64_t c) const {
    const float factor = LoadElement(factors.data, factors.dtype, row * factors.stride);
    const RowPart<kCount> added = RowPart<kCount>::Load(x, row, c);
#pragma unroll
    for (int i = 0; i < kCount; ++i) y.v[i] += factor * added.v[i];
  }
};

struct XieluOfRows {
  XieluParameters p;

  template <int kCount>
  __device__ __forceinline__ void operator()(RowPart<kCount>& y, int64_t, int64_t) const {
#pragma unroll
    for (float& v : y.v) {
      const float curved = v > 0 ? p.positive * v * v : p.negative * (expm1f(v < p.eps ? v : p.eps) - v);
      v = curved + p.beta * v;
    }
  }
};

template <class Body, int kCount>
__global__ void __launch_bounds__(kBlockThreads) ElementsKernel(Tensor y, Body body) {
  BeginDependentKernel();
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x) * kCount;
  if (c >= y.cols) return;
  RowPart<kCount> part = RowPart<kCount>::Load(y, blockIdx.y, c);
  body(part, blockIdx.y, c);
  part.Store(y, blockIdx.y, c);
}

template <int kCount>
__global__ void __launch_bounds__(kBlockThreads) SumRowsKernel(const __grid_constant__ RowSums all) {
  BeginDependentKernel();
  const RowSums::Sum& sum = all.sums[blockIdx.z];
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x) * kCount, row = blockIdx.y;
  if (c >= sum.y.cols) return;
  RowPart<kCount> y = RowPart<kCount>::Load(sum.y, row, c);
#pragma unroll 1
  for (int i = 0; i < sum.count; ++i) {
    const SumTerm& term = sum.terms[i];
    const Tensor& factors = term.factors;
    const float factor =
        factors.data != nullptr ? LoadElement(factors.data, factors.dtype, row * factors.stride) : 1.0f;
    const RowPart<kCount> x = RowPart<kCount>::Load(term.x, row, c);
#pragma unroll
    for (int j = 0; j < kCount; ++j) y.v[j] += factor * x.v[j];
  }
  y.Store(sum.y, row, c);
}

/// Calls body(part, column) for a block's parts of a row.
template <int kCount, class Body>
__device__ __forceinline__ void ForEachPart(const Tensor& x, int64_t row, const Body& body) {
  for (int64_t c = threadIdx.x * kCount; c < x.cols; c += kBlockThreads * kCount) {
    RowPart<kCount> part = RowPart<kCount>::Load(x, row, c);
    body(part, c);
  }
}
/// The mean over a row, by a block, of (x - shift)^2, or with `shift` null of x.
template <int kCount>
__device__ __forceinline__ float MeanOfRow(const Tensor& x, int64_t row, const float* shift, float* shared) {
  float sum = 0;
  ForEachPart<kCount>(x, row, [&](const RowPart<kCount>& part, int64_t) {
#pragma unroll
    for (const float v : part.v) sum += shift == nullptr ? v : (v - *shift) * (v - *shift);
  });
  return BlockSum(sum, shared) / static_cast<float>(x.cols);
}

template <int kCount>
__global__ void __launch_bounds__(kBlockThreads) MatchMagnitudeKernel(Tensor like, Tensor y) {
  __shared__ float shared[kBlockThreads / 32];
  BeginDependentKernel();
  const float zero = 0, wanted = MeanOfRow<kCount>(like, blockIdx.x, &zero, shared),
              own = MeanOfRow<kCount>(y, blockIdx.x, &zero, shared),
              factor = sqrtf(wanted) / sqrtf(own > 1e-5f ? own : 1e-5f);
  ForEachPart<kCount>(y, blockIdx.x, [&](RowPart<kCount>& part, int64_t c) {
#pragma unroll
    for (float& v : part.v) v *= factor;
    part.Store(y, blockIdx.x, c);
  });
}

template <int kCount>
__global__ void __launch_bounds__(kBlockThreads) SparsifyKernel(Tensor y, float deviations) {
  __shared__ float shared[kBlockThreads / 32];
  BeginDependentKernel();
  const float mean = MeanOfRow<kCount>(y, blockIdx.x, nullptr, shared),
              cutoff = mean + deviations * sqrtf(MeanOfRow<kCount>(y, blockIdx.x, &mean, shared));
  ForEachPart<kCount>(y, blockIdx.x, [&](RowPart<kCount>& part, int64_t c) {
#pragma unroll
    for (float& v : part.v) v = v - cutoff < 0 ? 0 : v - cutoff;  // keeps NaN
    part.Store(y, blockIdx.x, c);
  });
}

/// Whether rows can be accessed eight elements at a time.
bool AllowsEights(const Tensor& x) { return x.cols % 8 == 0 && x.stride % 8 == 0 && Aligned(x.data); }

template <class Body>
void LaunchElements(const Launcher& on, const Tensor& y, const Body& body, bool eights) {
  if (eights && AllowsEights(y)) {
    return Launch(on, ElementsKernel<Body, 8>, ElementGrid(y.rows, y.cols / 8), kBlockThreads, 0, y, body);
  }
  Launch(on, ElementsKernel<Body, 1>, ElementGrid(y.rows, y.cols), kBlockThreads, 0, y, body);
}

void LaunchGate(const Launcher& on, const Tensor& x, const Tensor& y, const RowOp& op) {
  const int64_t columns = y.cols / x.cols;
  LaunchElements(on, y, GateRows{x, op.gate, columns}, columns == 1 ? AllowsEights(x) : columns % 8 == 0);
}
void LaunchScale(const Launcher& on, const Tensor&, const Tensor& y, const RowOp& op) {
  LaunchElements(on, y, ScaleRows{op.factor}, true);
}
void LaunchXielu(const Launcher& on, const Tensor&, const Tensor& y, const RowOp& op) {
  LaunchElements(on, y, XieluOfRows{op.xielu}, true);
}
void LaunchScaleColumns(const Launcher& on, const Tensor&, const Tensor& y, const RowOp& op) {
  LaunchElements(on, y, ScaleColumnsOfRows{op.column_factors}, true);
}
void LaunchAddScaledRows(const Launcher& on, const Tensor& x, const Tensor& y, const RowOp& op) {
  LaunchElements(on, y, AddScaled{x, op.row_factors}, AllowsEights(x));
}
void LaunchMatchMagnitude(const Launcher& on, const Tensor& x, const Tensor& y, const RowOp&) {
  const auto kernel = AllowsEights(x) && AllowsEights(y) ? MatchMagnitudeKernel<8> : MatchMagnitudeKernel<1>;
  Launch(on, kernel, Grid(y.rows), kBlockThreads, 0, x, y);
}
void LaunchSparsify(const Launcher& on, const Tensor&, const Tensor& y, const RowOp& op) {
  Launch(on, AllowsEights(y) ? SparsifyKernel<8> : SparsifyKernel<1>, Grid(y.rows), kBlockThreads, 0, y, op.factor);
}

}  // namespace

void LaunchRowSums(const Launcher& on, const RowSums& sums) {
  bool eights = true;
  for (int i = 0; i < sums.count; ++i) {
    const RowSums::Sum& sum = sums.sums[i];
    eights = eights && AllowsEights(sum.y);
    for (int j = 0; j < sum.count; ++j) eights = eights && AllowsEights(sum.terms[j].x);
  }
  const Tensor& y = sums.sums[0].y;
  dim3 grid = ElementGrid(y.rows, eights ? y.cols / 8 : y.cols);
  grid.z = static_cast<unsigned>(sums.count);
  Launch(on, eights ? SumRowsKernel<8> : SumRowsKernel<1>, grid, kBlockThreads, 0, sums);
}

void LaunchRowOp(const Launcher& on, const Tensor& x, const Tensor& y, const RowOp& op) {
  using LaunchFunction = void (*)(const Launcher&, const Tensor&, const Tensor&, const RowOp&);
  static constexpr LaunchFunction kLaunches[] = {LaunchGate,         LaunchScale,         LaunchXielu,
                                                 LaunchScaleColumns, LaunchAddScaledRows, LaunchMatchMagnitude,
                                                 LaunchSparsify};  // by RowOpKind
  kLaunches[static_cast<int>(op.kind)](on, x, y, op);
}

}  // namespace ringside::cuda
