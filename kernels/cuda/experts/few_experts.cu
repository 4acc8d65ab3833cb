// Experts' products of few rows: bound by reading the weights of those that are taken, each once for eight rows. As in
// skinny_linear.cu a tile of 16 outputs is the left operand of the tensor cores and the rows are the right one; a
// block's 8 warps each take every eighth chunk of the inputs, straight from global memory to registers, and their sums
// are added in warp order: a row's bits depend on nothing but the row. A block has 16 gates and their 16 ups, or 32
// outputs, of one expert, and four blocks share a multiprocessor, so that one row's experts of usual sizes are read in
// one wave; where weights are tiles of blocks, three.
#include "kernels/cuda/experts/expert_products_inl.cuh"

namespace ringside::cuda {
namespace {

constexpr int kWarps = kBlockThreads / 32, kColumns = 8, kTiles = 2;
constexpr int kSumsRow = 16 * kTiles + 1;  // floats, odd against bank conflicts

/// The second 16 outputs of a block: the ups, or what follows.
template <bool kIn>
constexpr int kNextTile = kIn ? 0 : 16;

/// A lane's weights of kBits bits on their way: of rows of 16 bits two chunks of 32 inputs.
template <class T, bool kIn, int kBits>
class FewWeights {
 public:
  __device__ __forceinline__ FewWeights(const ExpertProduct<T, kIn>& product, int first_output)
      : inputs_(product.inputs) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        rows_[t][h] = product.WeightRow(first_output + kNextTile<kIn> * t + lane / 4 + 8 * h, t == 1);
      }
    }
  }
  __device__ __forceinline__ int chunks() const { return (inputs_ + kChunk - 1) / kChunk; }
  static constexpr int kStep = kWarps * 2;  // chunks from one Load of a warp to the next
  __device__ __forceinline__ void Load(int first) {
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const int input = InputOf(first + u * kWarps);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const bool real = input < inputs_ && rows_[t][h] != nullptr;
          w_[u][t][h] = real ? LoadWeightBytes(rows_[t][h] + input) : uint4{0, 0, 0, 0};
        }
      }
    }
  }
  /// c += what was loaded times a row, or nothing.
  __device__ __forceinline__ void Multiply(float (&c)[kTiles][4], const T* row, int first) const {
    uint4 x[2];
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const int input = InputOf(first + u * kWarps);
      const bool real = input < inputs_ && row != nullptr;
      x[u] = real ? *reinterpret_cast<const uint4*>(row + input) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int u = 0; u < 2; ++u) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const uint32_t low[4] = {w_[u][t][0].x, w_[u][t][1].x, w_[u][t][0].y, w_[u][t][1].y};
        const uint32_t high[4] = {w_[u][t][0].z, w_[u][t][1].z, w_[u][t][0].w, w_[u][t][1].w};
        MultiplyAdd(c[t], low, x[u].x, x[u].y, T());
        MultiplyAdd(c[t], high, x[u].z, x[u].w, T());
      }
    }
  }

 private:
  static constexpr int kChunk = 32;
  static __device__ __forceinline__ int InputOf(int chunk) {
    return chunk * kChunk + static_cast<int>(threadIdx.x) % 4 * 8;
  }
  const int inputs_;
  const T* rows_[kTiles][2];
  uint4 w_[2][kTiles][2];
};

/// Of tiles.
template <class T, bool kIn, int kBits>
requires(kBits < 16) class FewWeights<T, kIn, kBits> {
 public:
  __device__ __forceinline__ FewWeights(const ExpertProduct<T, kIn>& product, int first_output)
      : inputs_(product.inputs) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        tiles_[t][h] = product.template Tile<kBits>(first_output + kNextTile<kIn> * t + 8 * h, t == 1, 0);
      }
    }
  }
  __device__ __forceinline__ int chunks() const { return static_cast<int>(TilesAcross(inputs_)); }
  static constexpr int kStep = kWarps;
  __device__ __forceinline__ void Load(int chunk) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        w_[t][h] = {};
        if (chunk < chunks() && tiles_[t][h] != nullptr) {
          w_[t][h].Load(tiles_[t][h] + static_cast<int64_t>(chunk) * (kPanelTiles * TileOf<kBits>::kBytes),
                        threadIdx.x % 32);
        }
      }
    }
  }
  __device__ __forceinline__ void Multiply(float (&c)[kTiles][4], const T* row, int chunk) const {
#pragma unroll
    for (int g = 0; g < kTileGroups; ++g) {
      const int input = chunk * kTileInputs + g * 32 + static_cast<int>(threadIdx.x) % 4 * 2;
      const bool real = input < inputs_ && row != nullptr;  // groups are whole
      uint32_t x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = real ? *reinterpret_cast<const uint32_t*>(row + input + i * 8) : 0;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const auto first = w_[t][0].template ScaleInType<T>(g, h), second = w_[t][1].template ScaleInType<T>(g, h);
          const uint32_t left[4] = {
              w_[t][0].template Rounded<T>(g, 2 * h, first), w_[t][1].template Rounded<T>(g, 2 * h, second),
              w_[t][0].template Rounded<T>(g, 2 * h + 1, first), w_[t][1].template Rounded<T>(g, 2 * h + 1, second)};
          MultiplyAdd(c[t], left, x[2 * h], x[2 * h + 1], T());
        }
      }
    }
  }

 private:
  const int inputs_;
  const unsigned char* tiles_[kTiles][2];
  LaneTile<kBits> w_[kTiles][2];
};

template <class T, bool kIn, int kBits>
__device__ __forceinline__ void MultiplyFew(const ExpertProduct<T, kIn>& product, int first_output, float* sums) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane / 4;
  constexpr int kOutputs = kIn ? 16 : 16 * kTiles;
  using Weights = FewWeights<T, kIn, kBits>;
  Weights weights(product, first_output);
  const int chunks = weights.chunks();
  weights.Load(warp);
  if constexpr (!kIn) WaitForStep();
  for (int first_row = 0; first_row < product.rows.count; first_row += kColumns) {
    if (first_row > 0) weights.Load(warp);
    const T* row = product.InputRow(first_row + quad);
    float c[kTiles][4] = {};
    for (int first = warp; first < chunks; first += Weights::kStep) {
      weights.Multiply(c, row, first);
      if (first + Weights::kStep < chunks) weights.Load(first + Weights::kStep);
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[(warp * kColumns + lane % 4 * 2 + i % 2) * kSumsRow + 16 * t + quad + i / 2 * 8] = c[t][i];
      }
    }
    __syncthreads();
    const auto sum_of = [&](int i, int place) {
      float sum = 0;
#pragma unroll
      for (int v = 0; v < kWarps; ++v) sum += sums[(v * kColumns + i) * kSumsRow + place];
      return sum;
    };
    const int own_rows = min(kColumns, product.rows.count - first_row);
    for (int i = threadIdx.x; i < own_rows * kOutputs; i += kBlockThreads) {
      const int own = i / kOutputs, place = i % kOutputs;
      if (first_output + place >= product.outputs) continue;
      product.Store(first_row + own, first_output + place, sum_of(own, place), kIn ? sum_of(own, 16 + place) : 0.0f);
    }
    __syncthreads();  // the sums have been read
  }
}

template <class T, bool kIn, bool kTiled>
__global__ void __launch_bounds__(kBlockThreads, kTiled ? 3 : 4) FewExpertsKernel(ExpertsCall a) {
  __shared__ float sums[kWarps * kColumns * kSumsRow];
  // The choice of experts has ended when the second product's blocks come: the first lets them only afterwards.
  if constexpr (kIn) WaitForStep();
  LetNextStart();
  const ExpertProduct<T, kIn> product(a, static_cast<int>(blockIdx.y));
  const int first_output = static_cast<int>(blockIdx.x) * (kIn ? 16 : 16 * kTiles);
  if (product.rows.count == 0 || first_output >= product.outputs) {
    if constexpr (!kIn) WaitForStep();
    return;
  }
  if constexpr (kTiled) {
    WithBits(product.Matrix(false).bits,
             [&](auto bits) { MultiplyFew<T, kIn, decltype(bits)::value>(product, first_output, sums); });
  } else {
    MultiplyFew<T, kIn, 16>(product, first_output, sums);
  }
}

template <class T, bool kIn>
void LaunchProduct(const Launcher& on, const ExpertsCall& call, int64_t blocks) {
  const bool tiled = kIn ? call.plan.in_tiles : call.plan.out_tiles;
  Launch(on, tiled ? FewExpertsKernel<T, kIn, true> : FewExpertsKernel<T, kIn, false>, Grid(blocks, call.group_count),
         kBlockThreads, 0, call);
}

template <class T>
void LaunchOfType(const Launcher& on, const ExpertsCall& call) {
  LaunchProduct<T, true>(on, call, (call.plan.widest + 15) / 16);
  LaunchProduct<T, false>(on, call, (call.x.cols + 16 * kTiles - 1) / (16 * kTiles));
}

}  // namespace

void LaunchFewExperts(const Launcher& on, const ExpertsCall& call) {
  call.x.dtype == DType::kF16 ? LaunchOfType<__half>(on, call) : LaunchOfType<__nv_bfloat16>(on, call);
}

}  // namespace ringside::cuda
