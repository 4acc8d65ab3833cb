// Expert GEMMs with 16-bit weights and few rows per expert. Bound by reading the weights of the routed experts, each
// once. The work items are tiles of 16 rows of an expert's weights: 8 gates and their ups, or 16 outputs. The grid is
// persistent; each block first builds a list of its tiles, a grid stride apart. Each of its 8 warps takes every eighth
// K tile through pipeline stages of its own, without a break between tiles, and partial sums are added in warp order,
// so a row's bits depend on nothing but the row. A tile is the left operand of the MMAs; up to 16 rows of x, read
// through the L1 cache, are the right one.
#include <algorithm>

#include "kernels/cuda/experts/expert_products_inl.cuh"
#include "kernels/cuda/host_device.h"

namespace ringside::cuda {
namespace {

constexpr int kWarps = kBlockThreads / 32, kBlocksPerProcessor = 3;
constexpr int kTileWeights = 16;  // rows of a tile: the second eight are the ups, or the next outputs
constexpr int kColumns = 8, kSets = kFewExpertRows / kColumns;  // rows of x per MMA; MMAs for all rows
constexpr int kSumsRow = kTileWeights + 1;                      // floats; odd, to avoid bank conflicts
RINGSIDE_HOST_DEVICE constexpr int FewExpertsStages(bool large) { return large ? 3 : 2; }
constexpr int kUnitInputs = 64, kStageBytes = kTileWeights * kUnitInputs * 2;

template <bool kIn>
constexpr int kTileOutputs = kIn ? kTileWeights / 2 : kTileWeights;

constexpr int64_t kMaxListedTiles = 128;  // list entries per block; more tiles mean more blocks than are resident
/// A tile in its block's list; no inputs: nothing to do.
struct ListedTile {
  const unsigned char* eight[2];  // addresses of its first and second eight rows, or null
  ExpertRows rows;
  PackedExpert expert;
  int32_t inputs, first_output;
  int32_t row_at[kFewExpertRows];  // indices of the group's rows in x, or in `mid`
};

template <bool kIn>
RINGSIDE_HOST_DEVICE int64_t TilesOf(const ExpertsCall& call) {
  return ((kIn ? call.plan.Pairs(call.plan.widest()) : call.x.cols) + kTileOutputs<kIn> - 1) / kTileOutputs<kIn>;
}

/// A K tile of 16-bit rows.
template <class T>
struct RowUnit {
  /// Swizzled position of 16 bytes of a row: two rows that are read together use different banks.
  static __device__ __forceinline__ int PlaceOf(int row, int piece) { return row * 128 + (piece ^ row % 2 * 4) * 16; }

  static __device__ __forceinline__ void Copy(const ListedTile& tile, int unit, uint32_t stage, uint64_t policy) {
    const int lane = threadIdx.x % 32, piece = lane % 8, input = unit * kUnitInputs + piece * 8;
#pragma unroll
    for (int i = 0; i < kTileWeights / 4; ++i) {
      const int row = i * 4 + lane / 8;
      const unsigned char* from = tile.eight[i / 2];
      const bool real = from != nullptr && input < tile.inputs;
      const int64_t at = (static_cast<int64_t>(row % 8) * tile.inputs + input) * static_cast<int>(sizeof(T));
      CopyAsyncOrZero(stage + PlaceOf(row, piece), real ? from + at : tile.eight[0], real, policy);
    }
  }
  using Inputs = uint4[2];  // a lane's part of a row of x
  static __device__ __forceinline__ void LoadInputs(Inputs& x, const T* row, int unit, int inputs) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int input = unit * kUnitInputs + k * 32 + static_cast<int>(threadIdx.x) % 4 * 8;
      x[k] = input < inputs ? *reinterpret_cast<const uint4*>(row + input) : uint4{0, 0, 0, 0};
    }
  }
  static __device__ __forceinline__ void Multiply(const unsigned char* stage, const Inputs (&x)[kSets], int sets,
                                                  float (&c)[kSets][4]) {
    const int quad = threadIdx.x % 32 / 4, piece = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const uint4 first = *reinterpret_cast<const uint4*>(stage + PlaceOf(quad, piece + 4 * k)),
                  second = *reinterpret_cast<const uint4*>(stage + PlaceOf(quad + 8, piece + 4 * k));
      const uint32_t low[4] = {first.x, second.x, first.y, second.y}, high[4] = {first.z, second.z, first.w, second.w};
#pragma unroll
      for (int n = 0; n < kSets; ++n) {
        if (n >= sets) break;
        MultiplyAdd(c[n], low, x[n][k].x, x[n][k].y, T());
        MultiplyAdd(c[n], high, x[n][k].z, x[n][k].w, T());
      }
    }
  }
};

__device__ __forceinline__ int UnitsOf(int inputs) { return (inputs + kUnitInputs - 1) / kUnitInputs; }

/// Builds the block's list, one tile per thread, so that none waits for the tiles before it.
template <class T, bool kIn>
__device__ __forceinline__ void ListTiles(const ExpertsCall& a, ListedTile* list, int listed) {
  const int across = static_cast<int>(TilesOf<kIn>(a));
#pragma unroll 1
  for (int i = threadIdx.x; i < listed; i += kBlockThreads) {
    const int at = static_cast<int>(blockIdx.x) + i * static_cast<int>(gridDim.x);
    ListedTile& tile = list[i];
    tile.rows = LoadGroup(a.groups + at / across);
    tile.expert = a.plan.packed[tile.rows.expert];
    tile.first_output = at % across * kTileOutputs<kIn>;
    const ExpertProduct<T, kIn> product(a, tile.rows, tile.expert);
    const bool there = tile.rows.count > 0 && tile.first_output < product.outputs;  // experts may differ in width
    tile.inputs = there ? product.inputs : 0;
#pragma unroll 1
    for (int r = 0; r < tile.rows.count; ++r) {
      const int pair = tile.rows.first + r;
      tile.row_at[r] = kIn ? a.order[pair] / a.plan.experts_per_row : pair;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int output = tile.first_output + (kIn ? 0 : 8 * h);
      tile.eight[h] = reinterpret_cast<const unsigned char*>(product.WeightRow(output, kIn && h == 1));
    }
  }
  __syncthreads();
}

/// A warp's stream of K tiles over all its block's tiles, prefetched as far as its stages reach.
template <class T, int kStages>
class UnitStream {
 public:
  __device__ __forceinline__ UnitStream(const ListedTile* list, int listed, const unsigned char* stages)
      : tile_(list), end_(list + listed), stages_(SharedAddress(stages)), unit_(static_cast<int>(threadIdx.x) / 32) {
    FindTile();
  }
  /// Starts the copies of the next K tile, or does nothing past the last.
  __device__ __forceinline__ void Fetch() {
    if (tile_ < end_) {
      RowUnit<T>::Copy(*tile_, unit_, stages_ + fetched_ * kStageBytes, policy_);
      unit_ += kWarps;
      FindTile();
    }
    CommitCopies();
    fetched_ = fetched_ + 1 == kStages ? 0 : fetched_ + 1;
  }
  /// Waits for the oldest K tile in flight; returns its stage. All other stages but one stay in flight.
  __device__ __forceinline__ int Await() {
    WaitForCopies<kStages - 2>();
    __syncwarp();
    const int stage = stage_;
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
    return stage;
  }

 private:
  /// Advances to the next tile with K tiles left for this warp.
  __device__ __forceinline__ void FindTile() {
    while (tile_ < end_ && unit_ >= UnitsOf(tile_->inputs)) {
      ++tile_;
      unit_ = static_cast<int>(threadIdx.x) / 32;
    }
  }

  const ListedTile *tile_, *const end_;
  const uint64_t policy_ = EvictFirst();
  const uint32_t stages_;
  int unit_, fetched_ = 0, stage_ = 0;
};

/// Epilogue of a tile, by one warp, from the partial sums of all warps: [warp][row of the group][kSumsRow].
template <class T, bool kIn>
__device__ __forceinline__ void FinishTile(const ExpertProduct<T, kIn>& product, int first_output, const float* sums,
                                           int rows) {
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < product.rows.count * kTileOutputs<kIn>; i += 32) {
    const int own = i / kTileOutputs<kIn>, output = i % kTileOutputs<kIn>;
    if (first_output + output >= product.outputs) continue;
    const auto sum_of = [&](int at) {
      float sum = 0;
#pragma unroll
      for (int v = 0; v < kWarps; ++v) sum += sums[(v * rows + own) * kSumsRow + at];
      return sum;
    };
    product.Store(product.Target(own), first_output + output, sum_of(output), kIn ? sum_of(8 + output) : 0.0f);
  }
}

template <class T, bool kIn>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerProcessor) FewExpertsKernel(ExpertsCall a) {
  constexpr int kStages = FewExpertsStages(kLargeConfig);
  extern __shared__ __align__(16) unsigned char shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rows = static_cast<int>(min(a.x.rows, kFewExpertRows));
  const int all = static_cast<int>(TilesOf<kIn>(a)) * a.group_count, blocks = static_cast<int>(gridDim.x),
            listed = (all - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
  unsigned char* stages = shared + warp * kStages * kStageBytes;
  auto* sums = reinterpret_cast<float*>(shared + kWarps * kStages * kStageBytes);
  auto* list = reinterpret_cast<ListedTile*>(sums + 2 * kWarps * rows * kSumsRow);
  // The routing kernel has ended when the blocks of the second GEMM start: the first GEMM triggers them only after its
  // own wait.
  if constexpr (kIn) GridDependencySync();
  TriggerProgrammaticLaunch();
  ListTiles<T, kIn>(a, list, listed);
  UnitStream<T, kStages> stream(list, listed, stages);
#pragma unroll 1
  for (int n = 0; n < kStages - 1; ++n) stream.Fetch();
  if constexpr (!kIn) GridDependencySync();

  const T* x = static_cast<const T*>(kIn ? a.x.data : a.mid);
  const int64_t x_stride = kIn ? a.x.stride : a.plan.widest();
  int iteration = 0;
#pragma unroll 1
  for (const ListedTile* tile = list; tile < list + listed; ++tile) {
    if (tile->inputs == 0) continue;
    const int count = tile->rows.count, sets = (count + kColumns - 1) / kColumns;
    const T* x_rows[kSets];
#pragma unroll
    for (int n = 0; n < kSets; ++n) {
      const int row = n * kColumns + lane / 4;
      // Results of missing rows are discarded.
      x_rows[n] = x + tile->row_at[min(row, count - 1)] * x_stride;
    }
    float c[kSets][4] = {};
    const int inputs = tile->inputs, units = UnitsOf(inputs);
#pragma unroll 1
    for (int unit = warp; unit < units; unit += kWarps) {
      typename RowUnit<T>::Inputs own[kSets];
#pragma unroll
      for (int n = 0; n < kSets; ++n) {
        if (n < sets) RowUnit<T>::LoadInputs(own[n], x_rows[n], unit, inputs);
      }
      const int stage = stream.Await();
      stream.Fetch();
      RowUnit<T>::Multiply(stages + stage * kStageBytes, own, sets, c);
    }
    // Double-buffered sums: one barrier per tile.
    float* to = sums + iteration % 2 * kWarps * rows * kSumsRow;
#pragma unroll
    for (int n = 0; n < kSets; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = n * kColumns + lane % 4 * 2 + i % 2;
        if (row < count) to[(warp * rows + row) * kSumsRow + lane / 4 + i / 2 * 8] = c[n][i];
      }
    }
    __syncthreads();
    if (iteration++ % kWarps != warp) continue;
    FinishTile(ExpertProduct<T, kIn>(a, tile->rows, tile->expert), tile->first_output, to, rows);
  }
  WaitForCopies<0>();
}

template <class T, bool kIn>
void LaunchKernel(const Launcher& on, const ExpertsCall& call) {
  const int64_t tiles = TilesOf<kIn>(call) * call.group_count,
                there = std::min<int64_t>(tiles, kBlocksPerProcessor * on.multiprocessors),
                blocks = std::max(there, (tiles + kMaxListedTiles - 1) / kMaxListedTiles);
  const size_t bytes =
      static_cast<size_t>(kWarps * FewExpertsStages(on.large) * kStageBytes) +
      sizeof(float) * static_cast<size_t>(2 * kWarps * kSumsRow * std::min(call.x.rows, kFewExpertRows)) +
      sizeof(ListedTile) * static_cast<size_t>((tiles + blocks - 1) / blocks);
  Launch(on, FewExpertsKernel<T, kIn>, Grid(blocks), kBlockThreads, bytes, call);
}

template <class T>
void LaunchOfType(const Launcher& on, const ExpertsCall& call) {
  LaunchKernel<T, true>(on, call);
  LaunchKernel<T, false>(on, call);
}

}  // namespace

void LaunchFewExperts(const Launcher& on, const ExpertsCall& call) {
  call.x.dtype == DType::kF16 ? LaunchOfType<__half>(on, call) : LaunchOfType<__nv_bfloat16>(on, call);
}

}  // namespace ringside::cuda
