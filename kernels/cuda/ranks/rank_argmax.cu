#include <climits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ranks/rank_argmax.h"
#include "kernels/cuda/ranks/rank_waits.cuh"

namespace ringside::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarps = kBlockThreads / 32;
constexpr float kInfinity = __builtin_huge_valf();

/// The best logit so far, and whether any was NaN or +inf.
struct Best {
  float logit = -kInfinity;
  int32_t id = INT_MAX;
  bool unusable = false;

  __device__ __forceinline__ void Consider(float other, int32_t other_id) {
    unusable = unusable || !(other < kInfinity);
    if (other > logit || (other == logit && other_id < id)) logit = other, id = other_id;
  }
  __device__ __forceinline__ void ReduceWarp() {
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, logit, step);
      const int32_t other_id = __shfl_xor_sync(kAllLanes, id, step);
      Consider(other, other_id);
    }
    unusable = __any_sync(kAllLanes, unusable);
  }
};

__device__ __forceinline__ uint4 AsWord(const Best& best, uint32_t call) {
  const float logit = best.unusable ? __uint_as_float(0x7fffffffu) : best.logit;
  return {__float_as_uint(logit), call, static_cast<uint32_t>(best.id), call};
}

/// One block per part; its first thread calls put(index in [rows][kArgmaxParts], best).
template <class Put>
__device__ __forceinline__ void BlockArgmax(const Tensor& logits, int64_t first, const Put& put) {
  __shared__ Best of_warps[kWarps];
  const int part = static_cast<int>(blockIdx.x), row = static_cast<int>(blockIdx.y);
  const float* own = static_cast<const float*>(logits.data) + row * logits.stride;
  const auto cols = static_cast<int>(logits.cols);
  const int each = (cols + kArgmaxParts - 1) / kArgmaxParts, end = min(cols, (part + 1) * each);
  Best best;
#pragma unroll 8
  for (int c = part * each + static_cast<int>(threadIdx.x); c < end; c += kBlockThreads) {
    best.Consider(own[c], static_cast<int32_t>(first) + c);
  }
  best.ReduceWarp();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kWarps; ++w) {
    best.Consider(of_warps[w].logit, of_warps[w].id);
    best.unusable = best.unusable || of_warps[w].unusable;
  }
  put(row * kArgmaxParts + part, best);
}

__global__ void __launch_bounds__(kBlockThreads) LocalArgmaxKernel(Tensor logits, int64_t first, ArgmaxCandidate* to) {
  BeginDependentKernel();
  BlockArgmax(logits, first,
              [&](int place, const Best& best) { reinterpret_cast<uint4*>(to)[place] = AsWord(best, 0); });
}

__device__ __forceinline__ int64_t InboxOf(const RankLinks& links, int rank, uint32_t call) {
  return (static_cast<int64_t>(call % 2) * links.ranks + rank) * RankLinks::kInboxFloat4s;
}

__global__ void __launch_bounds__(kBlockThreads) PublishArgmaxKernel(RankLinks links, Tensor logits, int64_t first) {
  BeginDependentKernel();
  const uint32_t call = LoadOne(links.calls) + 1;
  BlockArgmax(logits, first, [&](int place, const Best& best) {
    const uint4 word = AsWord(best, call);
    for (int r = 0; r < links.ranks; ++r) StoreWord(links.inboxes[r] + InboxOf(links, links.rank, call) + place, word);
  });
}

/// One warp per row; part(rank, place) loads one of its parts.
template <class Part>
__device__ __forceinline__ void SampleGreedy(int ranks, int64_t rows, SampledToken* sampled, int32_t* ids,
                                             const Part& part) {
  const int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Best best;
  for (int i = lane; i < ranks * kArgmaxParts; i += 32) {
    const uint4 word = part(i / kArgmaxParts, row * kArgmaxParts + i % kArgmaxParts);
    best.Consider(__uint_as_float(word.x), static_cast<int32_t>(word.z));
  }
  best.ReduceWarp();
  if (lane != 0) return;
  const bool good = !best.unusable && best.logit > -kInfinity;
  const auto outcome = good ? SampledToken::Outcome::kChosen : SampledToken::Outcome::kNonFinite;
  static_assert(offsetof(SampledToken, id) == 4 && offsetof(SampledToken, tops) == 12);
  ids[row] = good ? best.id : 0;
  *reinterpret_cast<int4*>(&sampled[row]) = {static_cast<int32_t>(outcome), good ? best.id : 0, 0, 0};
}

__global__ void __launch_bounds__(kBlockThreads)
    SampleGreedyFromInboxKernel(RankLinks links, int64_t rows, SampledToken* sampled, int32_t* ids) {
  BeginDependentKernel();
  const uint32_t call = LoadOne(links.calls) + 1;
  CountCall(links.blocks_started, links.calls, call);
  SampleGreedy(links.ranks, rows, sampled, ids, [&](int rank, int64_t place) {
    const uint4* from = links.inboxes[links.rank] + InboxOf(links, rank, call) + place;
    uint4 word = {};
    WaitUntil(links.timeout, [&] {
      word = LoadWord(from);
      return word.y == call && word.w == call;
    });
    return word.y == call ? word : AsWord({.unusable = true}, call);  // timed out
  });
}

__global__ void __launch_bounds__(kBlockThreads)
    SampleGreedyFromMessageKernel(const uint4* message, int ranks, int64_t rows, SampledToken* sampled, int32_t* ids) {
  BeginDependentKernel();
  SampleGreedy(ranks, rows, sampled, ids,
               [&](int rank, int64_t place) { return message[rank * rows * kArgmaxParts + place]; });
}

dim3 RowGrid(int64_t rows) { return Grid((rows + kWarps - 1) / kWarps); }

}  // namespace

void LaunchLocalArgmax(const Launcher& on, Tensor logits, int64_t first, ArgmaxCandidate* to) {
  Launch(on, LocalArgmaxKernel, Grid(kArgmaxParts, logits.rows), kBlockThreads, 0, logits, first, to);
}

void LaunchPublishArgmax(const Launcher& on, const RankLinks& links, Tensor logits, int64_t first) {
  CHECK_LE(logits.rows * kArgmaxParts, RankLinks::kInboxFloat4s);
  Launch(on, PublishArgmaxKernel, Grid(kArgmaxParts, logits.rows), kBlockThreads, 0, links, logits, first);
}

void LaunchSampleGreedy(const Launcher& on, const RankLinks& links, int64_t rows, SampledToken* sampled, int32_t* ids) {
  CHECK_LE((rows + kWarps - 1) / kWarps, RankLinks::kMaxBlocks);
  Launch(on, SampleGreedyFromInboxKernel, RowGrid(rows), kBlockThreads, 0, links, rows, sampled, ids);
}

void LaunchSampleGreedy(const Launcher& on, const ArgmaxCandidate* message, int ranks, int64_t rows,
                        SampledToken* sampled, int32_t* ids) {
  Launch(on, SampleGreedyFromMessageKernel, RowGrid(rows), kBlockThreads, 0, reinterpret_cast<const uint4*>(message),
         ranks, rows, sampled, ids);
}

}  // namespace ringside::cuda
