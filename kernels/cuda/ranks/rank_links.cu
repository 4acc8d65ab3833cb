// All-reduce and all-gather over peer memory. Calls are numbered consecutively, equally on every rank, and every
// message carries its call number, so nothing is ever cleared. Two buffers are enough: a rank in its next call has
// received from all others in this one, so they have finished the previous call.
//
// Small all-reduces are pushed: each store carries two words of data, each followed by the call number, and becomes
// visible as a whole (as in NCCL's LL protocol), so the reader needs no separate flag. Larger ones are written to the
// outbox and read by the others after a release and an acquire.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ranks/rank_links.h"
#include "kernels/cuda/ranks/rank_waits.cuh"

namespace ringside::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int64_t kMaxNormedCols = 8192;  // values per row: two float4s for each of 1,024 threads

__device__ __forceinline__ uint2 Pack(DType dtype, float4 x) {
  uint2 packed;
  StoreFloat4(&packed, dtype, 0, x);
  return packed;
}
__device__ __forceinline__ void Add(DType dtype, uint2 packed, float4* sum) {
  sum->x += LoadElement(&packed, dtype, 0), sum->y += LoadElement(&packed, dtype, 1);
  sum->z += LoadElement(&packed, dtype, 2), sum->w += LoadElement(&packed, dtype, 3);
}
__device__ __forceinline__ float4 Sum(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__device__ __forceinline__ float4* Float4At(const Tensor& y, int64_t four) {
  const int64_t fours = y.cols / 4;
  const int64_t place = y.stride == y.cols ? four * 4 : four / fours * y.stride + four % fours * 4;
  return reinterpret_cast<float4*>(static_cast<float*>(y.data) + place);
}

/// Where rank `from` writes the values of a call in rank `to`'s memory.
__device__ __forceinline__ uint4* Inbox(const RankLinks& links, int to, int from, uint32_t call) {
  return links.inboxes[to] + (static_cast<int64_t>(call % 2) * links.ranks + from) * RankLinks::kInboxFloat4s;
}
/// Sends four values at index i of a call to all other ranks.
__device__ __forceinline__ void Push(const RankLinks& links, uint32_t call, int64_t i, uint2 four) {
  for (int r = 0; r < links.ranks; ++r) {
    if (r != links.rank) StoreWord(Inbox(links, r, links.rank, call) + i, {four.x, call, four.y, call});
  }
}

__global__ void __launch_bounds__(kThreads)
    AllReduceSmallKernel(RankLinks links, DType dtype, const float4* x, Tensor y, bool accumulate) {
  BeginDependentKernel();
  const uint32_t call = LoadOne(links.calls) + 1;
  const int64_t count = y.rows * y.cols / 4, all = int64_t{gridDim.x} * kThreads;
  const int64_t first = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  for (int64_t i = first; i < count; i += all) Push(links, call, i, Pack(dtype, x[i]));
  CountCall(links.blocks_started, links.calls, call);
  for (int64_t i = first; i < count; i += all) {
    float4* to = Float4At(y, i);
    const float4 before = *to;  // loaded before waiting for the other ranks
    float4 sum = {0, 0, 0, 0};
    for (int r = 0; r < links.ranks; ++r) {
      if (r == links.rank) {
        Add(dtype, Pack(dtype, x[i]), &sum);
        continue;
      }
      const uint4* from = Inbox(links, links.rank, r, call) + i;
      uint4 word = {};
      WaitUntil(links.timeout, [&] {
        word = LoadWord(from);
        return word.y == call && word.w == call;
      });
      Add(dtype, {word.x, word.z}, &sum);
    }
    *to = accumulate ? Sum(before, sum) : sum;
  }
}

/// One block per row, two float4s per thread; the row's sum stays in registers for its norm.
template <int kNormThreads>
__global__ void __launch_bounds__(kNormThreads)
    AllReduceSmallNormKernel(RankLinks links, DType dtype, const float4* x, Tensor y, FusedNorm norm) {
  constexpr int kVectors = 2;
  __shared__ float shared[kNormThreads / 32];
  const int n = static_cast<int>(y.cols);
  TriggerProgrammaticLaunch();
  float4 weight[kVectors], bias[kVectors], v[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    weight[j] = RowFloat4<kNormThreads>(norm.weight, j, n);
    bias[j] = RowFloat4<kNormThreads>(norm.layer ? norm.bias : nullptr, j, n);
  }
  GridDependencySync();
  const uint32_t call = LoadOne(links.calls) + 1;
  const int64_t row = blockIdx.x, first = row * (n / 4);
  float* to = static_cast<float*>(y.data) + row * y.stride;
  uint2 own[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    own[j] = Pack(dtype, RowFloat4<kNormThreads>(reinterpret_cast<const float*>(x + first), j, n));
    v[j] = RowFloat4<kNormThreads>(to, j, n);
  }
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const int c = Float4Index<kNormThreads>(j);
    if (c < n) Push(links, call, first + c / 4, own[j]);
  }
  CountCall(links.blocks_started, links.calls, call);
  float4 sums[kVectors] = {};
  for (int r = 0; r < links.ranks; ++r) {
    if (r != links.rank) {
      const uint4* from = Inbox(links, links.rank, r, call) + first;
      uint4 words[kVectors] = {};
      WaitUntil(links.timeout, [&] {  // waits for all words together
        bool here = true;
#pragma unroll
        for (int j = 0; j < kVectors; ++j) {
          const int c = Float4Index<kNormThreads>(j);
          if (c < n) words[j] = LoadWord(from + c / 4);
        }
#pragma unroll
        for (int j = 0; j < kVectors; ++j) {
          here = here && (Float4Index<kNormThreads>(j) >= n || (words[j].y == call && words[j].w == call));
        }
        return here;
      });
#pragma unroll
      for (int j = 0; j < kVectors; ++j) Add(dtype, {words[j].x, words[j].z}, &sums[j]);
    } else {
#pragma unroll
      for (int j = 0; j < kVectors; ++j) Add(dtype, own[j], &sums[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const int c = Float4Index<kNormThreads>(j);
    v[j] = Sum(v[j], sums[j]);
    if (c < n) *reinterpret_cast<float4*>(to + c) = v[j];
  }
  NormFloat4s<kNormThreads>(
      v, n, norm.layer, norm.eps, shared, [&](int j) { return weight[j]; }, [&](int j) { return bias[j]; },
      [&](int c, float4 four) { StoreFloat4(norm.y.data, norm.y.dtype, row * norm.y.stride + c, four); });
}

/// Publishes this block's part of the outbox and waits until the other ranks have published theirs.
__device__ __forceinline__ void PublishAndWait(const RankLinks& links, uint32_t call) {
  __syncthreads();
  if (threadIdx.x < links.ranks && threadIdx.x != links.rank) {
    const int other = static_cast<int>(threadIdx.x);
    uint32_t* theirs = links.published[other] + links.rank * RankLinks::kMaxBlocks + blockIdx.x;
    const uint32_t* own = links.published[links.rank] + other * RankLinks::kMaxBlocks + blockIdx.x;
    Publish(theirs, call);
    WaitUntil(links.timeout, [&] { return HasPublished(own, call, 1); });
  }
  __syncthreads();
}

__device__ __forceinline__ std::byte* Outbox(const RankLinks& links, int rank, uint32_t call) {
  return links.outboxes[rank] + call % 2 * RankLinks::kOutboxBytes;
}

/// A word has eight values; a thread loads several words per iteration. Every rank divides the words over blocks
/// equally.
__global__ void __launch_bounds__(kThreads)
    AllReduceLargeKernel(RankLinks links, DType dtype, const float4* x, Tensor y, bool accumulate) {
  constexpr int kWords = 4;
  BeginDependentKernel();
  const uint32_t call = LoadOne(links.calls) + 1;
  const int64_t count = y.rows * y.cols / 8;
  const int64_t part = (count + gridDim.x - 1) / gridDim.x;
  const int64_t begin = min(count, blockIdx.x * part), end = min(count, begin + part);
  auto* own = reinterpret_cast<uint4*>(Outbox(links, links.rank, call));
#pragma unroll 4
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const uint2 low = Pack(dtype, x[2 * i]), high = Pack(dtype, x[2 * i + 1]);
    own[i] = {low.x, low.y, high.x, high.y};
  }
  CountCall(links.blocks_started, links.calls, call);
  PublishAndWait(links, call);
  for (int64_t first = begin + threadIdx.x; first < end; first += kWords * kThreads) {
    float4 sums[kWords][2] = {};
    for (int r = 0; r < links.ranks; ++r) {
      const auto* from = reinterpret_cast<const uint4*>(Outbox(links, r, call));
      uint4 words[kWords] = {};
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        if (first + k * kThreads < end) words[k] = LoadWord(from + first + k * kThreads);
      }
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        Add(dtype, {words[k].x, words[k].y}, &sums[k][0]);
        Add(dtype, {words[k].z, words[k].w}, &sums[k][1]);
      }
    }
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      const int64_t i = first + k * kThreads;
      if (i >= end) break;
      for (int half = 0; half < 2; ++half) {
        float4* to = Float4At(y, 2 * i + half);
        *to = accumulate ? Sum(*to, sums[k][half]) : sums[k][half];
      }
    }
  }
}

struct Borders {
  int64_t of[kMaxRanks + 1];
};

__global__ void __launch_bounds__(kThreads) AllGatherColumnsKernel(RankLinks links, Borders borders, Tensor x) {
  BeginDependentKernel();
  const uint32_t call = LoadOne(links.calls) + 1;
  const auto each = [&](int rank, const auto& body) {  // body(outbox element, element of x) over the block's part
    const int64_t cols = borders.of[rank + 1] - borders.of[rank], count = x.rows * cols;
    const int64_t part = (count + gridDim.x - 1) / gridDim.x;
    const int64_t begin = min(count, blockIdx.x * part), end = min(count, begin + part);
    for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
      body(reinterpret_cast<float*>(Outbox(links, rank, call)) + i,
           static_cast<float*>(x.data) + i / cols * x.stride + borders.of[rank] + i % cols);
    }
  };
  each(links.rank, [](float* outbox, const float* element) { *outbox = *element; });
  CountCall(links.blocks_started, links.calls, call);
  PublishAndWait(links, call);
  for (int r = 0; r < links.ranks; ++r) {
    if (r != links.rank) {
      each(r, [](const float* outbox, float* element) {
        *element = __uint_as_float(LoadOne(reinterpret_cast<const uint32_t*>(outbox)));
      });
    }
  }
}

int Blocks(int64_t items) {
  return static_cast<int>(std::clamp<int64_t>((items + kThreads - 1) / kThreads, 1, RankLinks::kMaxBlocks));
}

}  // namespace

void LaunchAllReduce(const Launcher& on, const RankLinks& links, DType dtype, Tensor x, Tensor y, bool accumulate) {
  const int64_t fours = x.rows * x.cols / 4;
  const bool small = fours <= RankLinks::kInboxFloat4s;
  Launch(on, small ? AllReduceSmallKernel : AllReduceLargeKernel, Grid(Blocks(small ? fours : fours / 2)), kThreads, 0,
         links, dtype, static_cast<const float4*>(x.data), y, accumulate);
}

bool CanFuseAllReduceNorm(Tensor y, const FusedNorm& norm) {
  return y.rows <= RankLinks::kMaxBlocks && y.rows * y.cols / 4 <= RankLinks::kInboxFloat4s &&
         y.cols <= kMaxNormedCols && AllowsFloat4(y) && AllowsFloat4(norm.y) && Aligned(norm.weight) &&
         Aligned(norm.bias);
}

void LaunchAllReduceAddNorm(const Launcher& on, const RankLinks& links, DType dtype, Tensor x, Tensor y,
                            const FusedNorm& norm) {
  const auto launch = [&](auto kernel, int threads) {
    Launch(on, kernel, Grid(y.rows), threads, 0, links, dtype, static_cast<const float4*>(x.data), y, norm);
  };
  if (y.cols <= 2048) return launch(AllReduceSmallNormKernel<256>, 256);
  if (y.cols <= 4096) return launch(AllReduceSmallNormKernel<512>, 512);
  launch(AllReduceSmallNormKernel<1024>, 1024);
}

void LaunchAllGatherColumns(const Launcher& on, const RankLinks& links, const int64_t* borders, Tensor x) {
  Borders all = {};
  std::copy_n(borders, links.ranks + 1, all.of);
  Launch(on, AllGatherColumnsKernel, Grid(Blocks(x.rows * x.cols / links.ranks)), kThreads, 0, links, all, x);
}

}  // namespace ringside::cuda
