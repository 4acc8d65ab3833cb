// Dequantizes block-quantized weights to 16 bits, for GEMMs of many rows. One warp per tile. The four lanes of a row
// transpose their pairs, so that each stores 16 bytes at a time.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/block_quant_weights.cuh"

namespace ringside::cuda {
namespace {

/// 4 x 4 transpose: lane j of four receives pair j of each, in lane order.
__device__ __forceinline__ void ExchangeAmongFour(uint32_t (&pairs)[4]) {
  const int lane = threadIdx.x % 32;
  const bool odd = lane & 1, upper = lane & 2;
  const auto swap = [&](bool mine, int step, uint32_t& a, uint32_t& b) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, mine ? a : b, step);
    (mine ? a : b) = got;
  };
  swap(odd, 1, pairs[0], pairs[1]);
  swap(odd, 1, pairs[2], pairs[3]);
  swap(upper, 2, pairs[0], pairs[2]);
  swap(upper, 2, pairs[1], pairs[3]);
}

template <class T, int kBits>
__global__ void __launch_bounds__(kBlockThreads)
    DequantizeTilesKernel(const unsigned char* tiles, const float* units, int64_t first, Tensor y, int across) {
  const int warp = static_cast<int>(blockIdx.x) * (kBlockThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  const int64_t eight = first / kTileRows + warp / across, row = eight * kTileRows + lane / 4 - first;
  const int chunk = warp % across;
  TriggerProgrammaticLaunch();
  const bool there = row >= 0 && row < y.rows;
  LaneTile<kBits> own = {};
  if (eight * kTileRows < first + y.rows) {
    own.Load(tiles + TileNumber(eight * kTileRows, chunk, across) * TileOf<kBits>::kBytes, lane);
  }
  constexpr bool kHasTileScale = TileOf<kBits>::kHasTileScale;
  const float unit = kHasTileScale ? 1 : there ? units[first + row] : 0;
  if constexpr (kHasTileScale) own.SetTileScale(there ? units[TileScaleAt(first + row, chunk, y.cols)] : 0);
  GridDependencySync();  // the preceding kernel may still read y
#pragma unroll
  for (int g = 0; g < kTileGroups; ++g) {
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const ScaleAndOffset by = own.template Scale<T>(g, i / 2);
      const float2 x = LaneTile<kBits>::Floats(own.template Pair<T>(g, i), T());
      pairs[i] = Pack(unit * fmaf(x.x, by.scale, by.offset), unit * fmaf(x.y, by.scale, by.offset), T());
    }
    ExchangeAmongFour(pairs);
    const int64_t column = chunk * kTileInputs + g * 32 + lane % 4 * 8;
    if (there && column < y.cols) {
      *reinterpret_cast<uint4*>(static_cast<T*>(y.data) + row * y.stride + column) =
          uint4{pairs[0], pairs[1], pairs[2], pairs[3]};
    }
  }
}

template <class T>
void LaunchOfType(const Launcher& on, const void* weight, DType dtype, const float* units, int64_t first, Tensor y) {
  const int64_t across = TilesAcross(y.cols), down = (first % kTileRows + y.rows + kTileRows - 1) / kTileRows;
  constexpr int kTilesOfBlock = kBlockThreads / 32;
  WithBits(dtype, [&](auto bits) {
    Launch(on, DequantizeTilesKernel<T, bits()>, Grid((across * down + kTilesOfBlock - 1) / kTilesOfBlock),
           kBlockThreads, 0, static_cast<const unsigned char*>(weight), units, first, y, static_cast<int>(across));
  });
}

}  // namespace

void LaunchDequantizeTiles(const Launcher& on, const void* weight, DType dtype, const float* units, int64_t first,
                           Tensor y) {
  CHECK(HasGroupScales(dtype) && y.cols % 32 == 0 && y.stride % 8 == 0);
  CHECK(reinterpret_cast<uintptr_t>(y.data) % 16 == 0);
  if (y.dtype == DType::kF16) return LaunchOfType<__half>(on, weight, dtype, units, first, y);
  LaunchOfType<__nv_bfloat16>(on, weight, dtype, units, first, y);
}

}  // namespace ringside::cuda
