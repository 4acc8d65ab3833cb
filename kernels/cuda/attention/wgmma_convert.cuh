// Producer warps of attention_wgmma.cuh for E4M3 caches. Data passes through registers, where 8 bits are converted to
// 16, and loads run one half of a unit (keys or values) ahead, so that the next half is in flight while this one is
// converted. The layout in shared memory is that of wgmma_keys.cuh.
#pragma once

#include "kernels/cuda/attention/cache_tile.cuh"
#include "kernels/cuda/attention/wgmma_keys.cuh"

namespace ringside::cuda {

__device__ __forceinline__ void StoreShared(uint32_t address, uint4 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
}
/// Converts eight E4M3 to float16, in order.
__device__ __forceinline__ uint4 E4M3ToHalf8(uint32_t low, uint32_t high) {
  uint4 out = {};
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm("{ .reg .b16 a, b, c, d; mov.b32 {a, b}, %4; mov.b32 {c, d}, %5; cvt.rn.f16x2.e4m3x2 %0, a;"
      " cvt.rn.f16x2.e4m3x2 %1, b; cvt.rn.f16x2.e4m3x2 %2, c; cvt.rn.f16x2.e4m3x2 %3, d; }"
      : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
      : "r"(low), "r"(high));
#endif
  return out;
}

/// A lane's part of a tile's keys or values, in 16-byte units.
template <int D>
struct TileHalf {
  uint4 units[D / 32];

  /// Keys [D][16]: every unit is a dimension.
  __device__ __forceinline__ void LoadKeys(const char* tile, int lane) {
#pragma unroll
    for (int i = 0; i < D / 32; ++i) units[i] = reinterpret_cast<const uint4*>(tile)[i * 32 + lane];
  }
  __device__ __forceinline__ void StoreKeys(uint32_t keys, int t, int lane) const {
    const uint32_t to = keys + t * D * 32 + lane * 32;
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
      const int swap = lane >> 2 & 1;
      StoreShared(to + i * 1024 + swap * 16, E4M3ToHalf8(units[i].x, units[i].y));
      StoreShared(to + i * 1024 + (swap ^ 1) * 16, E4M3ToHalf8(units[i].z, units[i].w));
    }
  }

  /// Values [16][D] from position `first` on, zero where no row sees them.
  __device__ __forceinline__ void LoadValues(const char* values, int first, bool real, const UnitKeys& unit, int lane) {
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
      const int position = first + (i * 32 + lane) / (D / 16);
      const bool seen = real && position >= unit.from && position <= unit.to;
      units[i] = seen ? reinterpret_cast<const uint4*>(values)[i * 32 + lane] : uint4{0, 0, 0, 0};
    }
  }
  template <int kKeys>
  __device__ __forceinline__ void StoreValues(uint32_t values, int t, int lane) const {
    // Two parts of 8 dimensions; half of the lanes store the second part first, which avoids bank conflicts.
    const int first_part = lane % (D / 16) * 2, swap = D > 64 ? lane >> 2 & 1 : 0;
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
      const int key = (i * 32 + lane) / (D / 16);
      const uint32_t to = values + first_part / 8 * kKeys * 128 + (t * 16 + key) * 128;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const bool second = (j ^ swap) != 0;
        const uint32_t low = second ? units[i].z : units[i].x, high = second ? units[i].w : units[i].y;
        StoreShared(to + ((first_part % 8 + second) ^ key % 8) * 16, E4M3ToHalf8(low, high));
      }
    }
  }
};

/// As FetchUnits (wgmma_keys.cuh), for E4M3.
template <class S>
__device__ __forceinline__ void FetchAndConvertUnits(const AttentionPlan& a, const StagedTile& tile,
                                                     const KeyUnits& units, int begin, int end, const char* slab,
                                                     const Stages<S>& stages, int warp, int lane) {
  constexpr int kOwn = S::kTiles / S::kProducerWarps;  // tiles of a unit per warp: warp, warp + kProducerWarps, ...
  TileHalf<S::kDim> tiles_in_registers[kOwn];
  const auto address = [&](const UnitKeys& unit, int t) { return TileOfUnit(a, tile, slab, unit, t); };
  UnitKeys unit = UnitAt<S>(tile, units, begin);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) tiles_in_registers[i].LoadKeys(address(unit, warp + i * S::kProducerWarps), lane);
  for (int n = 0; n < end - begin; ++n) {
    stages.AwaitEmpty(n, 0);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int t = warp + i * S::kProducerWarps;
      if (t < unit.tiles) tiles_in_registers[i].StoreKeys(stages.Half(n, 0), t, lane);
      tiles_in_registers[i].LoadValues(address(unit, t) + a.half_tile_bytes, unit.first + t * 16, t < unit.tiles, unit,
                                       lane);
    }
    stages.Fill(n, 0, lane);
    const int all = unit.is_pinned ? units.pinned_step : S::kTiles;
    unit = UnitAt<S>(tile, units, min(begin + n + 1, end - 1));
    stages.AwaitEmpty(n, 1);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int t = warp + i * S::kProducerWarps;
      if (t < all) tiles_in_registers[i].template StoreValues<S::kKeys>(stages.Half(n, 1), t, lane);
      tiles_in_registers[i].LoadKeys(address(unit, t), lane);
    }
    stages.Fill(n, 1, lane);
  }
}

}  // namespace ringside::cuda
