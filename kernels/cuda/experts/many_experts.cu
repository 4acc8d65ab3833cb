// Expert GEMMs for many rows, sorted by expert. A block takes up to 64 rows of one expert and 128 of its outputs (64
// gates and their ups) through shared-memory pipeline stages: 64 inputs at a time with 16-bit weights, or 128 with
// block-quantized tiles, which are dequantized in registers. Only the device knows the number of rows per expert, so
// the grid covers any distribution, and blocks without rows exit at once.
#include "kernels/cuda/experts/expert_products_inl.cuh"

namespace ringside::cuda {
namespace {

constexpr int kRows = kManyExpertRows, kOutputs = 128, kInputs = 64, kStages = 3;
constexpr int kRowsAtATime = kBlockThreads / 8;  // rows copied at a time: a thread copies 16 of a row's 128 bytes
constexpr int kStageRows = kRows + kOutputs, kStageBytes = kStageRows * kInputs * 2;

/// Swizzled address of 16 bytes of a stage's row: eight rows that are read together use different banks.
__device__ __forceinline__ uint32_t UnitAt(uint32_t stage, int row, int unit) {
  return stage + row * (kInputs * 2) + (unit ^ (row % 8)) * 16;
}
/// A warp's share of the output tile: kM tiles of 16 rows and kN of 8 outputs; with gate-up half of the latter are
/// gates. Block-quantized weights are dequantized by a single warp, which takes all rows.
template <bool kTiled>
struct Share {
  static constexpr int kM = kTiled ? 4 : 2, kN = kTiled ? 2 : 4, kWarpsAcross = kOutputs / (kN * 8);
  using Sums = float[kM][kN][4];

  static __device__ __forceinline__ int Row() { return static_cast<int>(threadIdx.x) / 32 / kWarpsAcross * (kM * 16); }
  static __device__ __forceinline__ int Output() {
    return static_cast<int>(threadIdx.x) / 32 % kWarpsAcross * (kN * 8);
  }
};

/// Main loop for 16-bit weights.
template <class T, bool kIn>
__device__ __forceinline__ void MultiplyRows(const ExpertProduct<T, kIn>& product, int first_output, uint32_t stages,
                                             Share<false>::Sums& c) {
  using Own = Share<false>;
  const int lane = threadIdx.x % 32, copied = threadIdx.x / 8, unit = threadIdx.x % 8;
  const T* from[kStageRows / kRowsAtATime];
#pragma unroll
  for (int i = 0; i < kStageRows / kRowsAtATime; ++i) {
    const int row = i * kRowsAtATime + copied, output = row - kRows;
    if (output < 0) {
      from[i] = product.InputRow(row);
    } else if constexpr (kIn) {
      from[i] = product.WeightRow(first_output + output / 32 * 16 + output % 16, output % 32 >= 16);
    } else {
      from[i] = product.WeightRow(first_output + output, false);
    }
  }
  const int chunks = (product.inputs + kInputs - 1) / kInputs;
  const auto fetch = [&](int chunk) {
    const int input = chunk * kInputs + unit * 8;
    if (chunk < chunks) {
#pragma unroll
      for (int i = 0; i < kStageRows / kRowsAtATime; ++i) {
        const bool real = from[i] != nullptr && input < product.inputs;
        const T* source = real ? from[i] + input : static_cast<const T*>(product.expert.out.data);
        CopyAsyncOrZero(UnitAt(stages + chunk % kStages * kStageBytes, i * kRowsAtATime + copied, unit), source, real);
      }
    }
    CommitCopies();
  };
  for (int n = 0; n < kStages - 1; ++n) fetch(n);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitForCopies<kStages - 2>();
    __syncthreads();
    fetch(chunk + kStages - 1);
    if (Own::Row() >= product.rows.count) continue;
    const uint32_t stage = stages + chunk % kStages * kStageBytes;
#pragma unroll
    for (int k = 0; k < kInputs / 16; ++k) {
      uint32_t x[2][4], w[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int output = Own::Output() + 16 * i + lane / 16 * 8 + lane % 8;
        LoadMatrices(x[i], UnitAt(stage, Own::Row() + 16 * i + lane % 16, 2 * k + lane / 16));
        LoadMatrices(w[i], UnitAt(stage, kRows + output, 2 * k + lane / 8 % 2));
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int n = 0; n < 4; ++n) MultiplyAdd(c[m][n], x[m], w[n / 2][n % 2 * 2], w[n / 2][n % 2 * 2 + 1], T());
      }
    }
  }
  WaitForCopies<0>();
}

/// A stage of block-quantized weights: first rows of 128 inputs as two boxes of 64, then 16 tiles, two per warp.
constexpr int kBoxBytes = kRows * kInputs * 2, kStageTiles = kOutputs / kTileRows;
template <int kBits>
constexpr int kTileStageBytes = 2 * kBoxBytes + kStageTiles* TileOf<kBits>::kBytes;

/// The scales of a warp's E4M3 tiles, which convert its sums from one chunk to the next. Empty for other types.
template <class T, bool kIn, int kBits>
struct TileRatios {
  using Own = Share<true>;
  const float* of[Own::kN] = {};
  float next[Own::kN] = {};  // ratios of the next chunk

  __device__ __forceinline__ TileRatios(const ExpertProduct<T, kIn>& product, int first_output) {
    if constexpr (TileOf<kBits>::kHasTileScale) {
#pragma unroll
      for (int n = 0; n < Own::kN; ++n) {
        const int tile = Own::Output() / kTileRows + n;
        const bool up = kIn && tile % 2 == 1;
        of[n] = product.TileScales(first_output + (kIn ? tile / 2 : tile) * kTileRows, up);
        next[n] = of[n][kRatio];
      }
    }
  }
  /// Converts sums to the units of `chunk`, and loads the ratios of the next one.
  template <int kM>
  __device__ __forceinline__ void Rescale(Own::Sums& c, int chunk, int last) {
    const int after = min(chunk + 1, last);
#pragma unroll
    for (int n = 0; n < Own::kN; ++n) {
      Multiply<kM>(c, n, next[n]);
      next[n] = of[n][after / 2 * kTileScaleFloats + after % 2 + kRatio];
    }
  }
  /// Converts sums from the units of `chunk` to values.
  template <int kM>
  __device__ __forceinline__ void Finish(Own::Sums& c, int chunk) const {
#pragma unroll
    for (int n = 0; n < Own::kN; ++n) Multiply<kM>(c, n, of[n][chunk / 2 * kTileScaleFloats + chunk % 2]);
  }
  template <int kM>
  static __device__ __forceinline__ void Multiply(Own::Sums& c, int n, float by) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (float& sum : c[m][n]) sum *= by;
    }
  }
};

/// Main loop for block-quantized weights and the first kM tiles of rows.
template <class T, bool kIn, int kBits, int kM>
__device__ __forceinline__ void MultiplyFirstRows(const ExpertProduct<T, kIn>& product, int first_output,
                                                  unsigned char* shared, Share<true>::Sums& c) {
  constexpr int kStageBytes = kTileStageBytes<kBits>, kUnits = TileOf<kBits>::kBytes / 16;
  constexpr int kCopies = (kM * 16 + kRowsAtATime - 1) / kRowsAtATime;  // copies of rows per thread
  const int lane = threadIdx.x % 32, copied = threadIdx.x / 8, unit = threadIdx.x % 8;
  const uint32_t stages = SharedAddress(shared);
  const T* rows[kCopies];
#pragma unroll
  for (int i = 0; i < kCopies; ++i) rows[i] = product.InputRow(i * kRowsAtATime + copied);
  const int chunks = static_cast<int>(TilesAcross(product.inputs));
  const auto copy = [&](uint32_t to, const void* from, bool real) {
    CopyAsyncOrZero(to, real ? from : product.expert.out.data, real);
  };
  const auto fetch = [&](int chunk) {
    const uint32_t stage = stages + chunk % kStages * kStageBytes;
    if (chunk < chunks) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
#pragma unroll
        for (int box = 0; box < 2; ++box) {
          const int input = chunk * kTileInputs + box * kInputs + unit * 8;
          copy(UnitAt(stage + box * kBoxBytes, i * kRowsAtATime + copied, unit), rows[i] + input,
               rows[i] != nullptr && input < product.inputs);
        }
      }
      for (int i = threadIdx.x; i < kStageTiles * kUnits; i += kBlockThreads) {
        const int tile = i / kUnits, tile_unit = i % kUnits;
        const bool up = kIn && tile % 2 == 1;
        const int output = first_output + (kIn ? tile / 2 : tile) * kTileRows;
        const unsigned char* from = product.template Tile<kBits>(output, up, chunk);
        copy(stage + 2 * kBoxBytes + i * 16, from + tile_unit * 16, from != nullptr);
      }
    }
    CommitCopies();
  };
  for (int n = 0; n < kStages - 1; ++n) fetch(n);
  CodeTable<kBits> table;
  table.Hold();
  TileRatios<T, kIn, kBits> ratios(product, first_output);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitForCopies<kStages - 2>();
    __syncthreads();
    fetch(chunk + kStages - 1);
    const uint32_t stage = stages + chunk % kStages * kStageBytes;
    const unsigned char* tiles = shared + chunk % kStages * kStageBytes + 2 * kBoxBytes;
    LaneTile<kBits> w[Share<true>::kN];
    for (LaneTile<kBits>& one : w) one.table = table;
    if constexpr (TileOf<kBits>::kHasTileScale) ratios.template Rescale<kM>(c, chunk, chunks - 1);
#pragma unroll
    for (int n = 0; n < Share<true>::kN; ++n) {
      w[n].Load(tiles + (Share<true>::Output() / kTileRows + n) * TileOf<kBits>::kBytes, lane);
    }
#pragma unroll
    for (int k = 0; k < kTileInputs / 16; ++k) {
      uint32_t x[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        LoadMatrices(x[m], UnitAt(stage + k / 4 * kBoxBytes, 16 * m + lane % 16, k % 4 * 2 + lane / 16));
      }
#pragma unroll
      for (int n = 0; n < Share<true>::kN; ++n) {
        const auto by = w[n].template ScaleInType<T>(k / 2, k % 2);
        const uint32_t low = w[n].template Rounded<T>(k / 2, k % 2 * 2, by),
                       high = w[n].template Rounded<T>(k / 2, k % 2 * 2 + 1, by);
#pragma unroll
        for (int m = 0; m < kM; ++m) MultiplyAdd(c[m][n], x[m], low, high, T());
      }
    }
  }
  if constexpr (TileOf<kBits>::kHasTileScale) ratios.template Finish<kM>(c, chunks - 1);
  WaitForCopies<0>();
}

template <class T, bool kIn, int kBits>
__device__ __forceinline__ void MultiplyTiles(const ExpertProduct<T, kIn>& product, int first_output,
                                              unsigned char* shared, Share<true>::Sums& c) {
  if (product.rows.count <= 16) return MultiplyFirstRows<T, kIn, kBits, 1>(product, first_output, shared, c);
  if (product.rows.count <= 32) return MultiplyFirstRows<T, kIn, kBits, 2>(product, first_output, shared, c);
  MultiplyFirstRows<T, kIn, kBits, Share<true>::kM>(product, first_output, shared, c);
}

/// kBits: 16, or bits of a tile. Experts of other types are left to other launches.
template <class T, bool kIn, int kBits>
__global__ void __launch_bounds__(kBlockThreads, 2) ManyExpertsKernel(ExpertsCall a) {
  extern __shared__ __align__(128) unsigned char shared[];
  BeginDependentKernel();
  const ExpertRows group = LoadGroup(a.groups + blockIdx.y);
  const ExpertProduct<T, kIn> product(a, group, a.plan.packed[group.expert]);
  constexpr int kOwn = kIn ? kOutputs / 2 : kOutputs;
  const int first_output = static_cast<int>(blockIdx.x) * kOwn, lane = threadIdx.x % 32;
  if (product.rows.count == 0 || first_output >= product.outputs || product.Matrix(false).bits != kBits) return;
  constexpr bool kTiled = kBits != 16;
  using Own = Share<kTiled>;
  typename Own::Sums c = {};
  if constexpr (kTiled) {
    MultiplyTiles<T, kIn, kBits>(product, first_output, shared, c);
  } else {
    MultiplyRows(product, first_output, SharedAddress(shared), c);
  }
  const int own_output = first_output + (kIn ? Own::Output() / 2 : Own::Output());
  constexpr int kTilesOut = kIn ? Own::kN / 2 : Own::kN;
#pragma unroll
  for (int m = 0; m < Own::kM; ++m) {
#pragma unroll
    for (int n = 0; n < kTilesOut; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = Own::Row() + 16 * m + lane / 4 + i / 2 * 8, output = own_output + 8 * n + lane % 4 * 2 + i % 2;
        if (row >= product.rows.count || output >= product.outputs) continue;
        const float up = kIn ? c[m][n + kTilesOut][i] * product.template UnitOf<kBits>(output, true) : 0.0f;
        product.Store(product.Target(row), output, c[m][n][i] * product.template UnitOf<kBits>(output, false), up);
      }
    }
  }
}

template <class T, bool kIn>
void LaunchProduct(const Launcher& on, const ExpertsCall& call, int64_t blocks) {
  const uint32_t types = kIn ? call.plan.in_types : call.plan.out_types;
  const dim3 grid = Grid(blocks, call.group_count);
  if (types == 0) Launch(on, ManyExpertsKernel<T, kIn, 16>, grid, kBlockThreads, kStages * kStageBytes, call);
  for (uint32_t left = types; left != 0; left &= left - 1) {
    WithBits(FirstTileType(left), [&](auto bits) {
      Launch(on, ManyExpertsKernel<T, kIn, bits()>, grid, kBlockThreads, kStages * kTileStageBytes<bits()>, call);
    });
  }
}

template <class T>
void LaunchOfType(const Launcher& on, const ExpertsCall& call) {
  LaunchProduct<T, true>(on, call, (call.plan.Pairs(call.plan.widest()) + kOutputs / 2 - 1) / (kOutputs / 2));
  LaunchProduct<T, false>(on, call, (call.x.cols + kOutputs - 1) / kOutputs);
}

}  // namespace

void LaunchManyExperts(const Launcher& on, const ExpertsCall& call) {
  call.x.dtype == DType::kF16 ? LaunchOfType<__half>(on, call) : LaunchOfType<__nv_bfloat16>(on, call);
}

}  // namespace ringside::cuda
