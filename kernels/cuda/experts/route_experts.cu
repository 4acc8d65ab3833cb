// Which experts a row takes and with which weights, and the rows of each expert side by side; in the end the sum of
// what a row's experts give. Everything is in the order of rows and experts, so nothing depends on who comes first.
#include <climits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {
namespace {

constexpr int kMostExperts = 1025;  // one of them shared

/// NaN is no one's highest logit.
__device__ __forceinline__ float LogitAt(const float* logits, int i) {
  const float logit = logits[i];
  return isnan(logit) ? -INFINITY : logit;
}

/// Whether logit `a` of expert i comes before `b` of expert j: the higher one, of equal ones the first.
__device__ __forceinline__ bool Before(float a, int i, float b, int j) { return a > b || (a == b && i < j); }

/// A warp's row: the `used` highest logits, one after the other, then the experts that have them in their order.
__device__ __forceinline__ void RouteRow(const ExpertsCall& a, int row, int lane) {
  const ExpertsPlan& plan = a.plan;
  const float* logits = static_cast<const float*>(plan.router.data) + row * plan.router.stride;
  const bool shared = plan.taken > plan.used;
  const int among = static_cast<int>(plan.router.cols) - (shared ? 1 : 0);
  float last = INFINITY, largest = 0, sum = 0;
  int last_at = -1;
  for (int n = 0; n < plan.used; ++n) {
    float best = -INFINITY;
    int at = INT_MAX;
    for (int i = lane; i < among; i += 32) {
      const float logit = LogitAt(logits, i);
      if (Before(last, last_at, logit, i) && Before(logit, i, best, at)) best = logit, at = i;
    }
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, best, step);
      const int other_at = __shfl_xor_sync(0xffffffffu, at, step);
      if (Before(other, other_at, best, at)) best = other, at = other_at;
    }
    if (n == 0) largest = best;
    last = best, last_at = at;
    sum += expf(best - largest);
  }
  if (!plan.normalised) {
    sum = 0;
    for (int i = lane; i < among; i += 32) sum += expf(logits[i] - largest);
    sum = SumOverWarp(sum);
  }
  int at = row * plan.taken;
  for (int first = 0; first < among; first += 32) {
    const int i = first + lane;
    const float logit = i < among ? LogitAt(logits, i) : -INFINITY;
    const bool takes = i < among && !Before(last, last_at, logit, i);
    const uint32_t all = __ballot_sync(0xffffffffu, takes);
    if (takes) {
      const int place = at + __popc(all & ((1u << lane) - 1));
      a.ids[place] = i, a.weights[place] = expf(logit - largest) / sum;
    }
    at += __popc(all);
  }
  if (shared && lane == 0) a.ids[at] = among, a.weights[at] = 1.0f / (1.0f + expf(-logits[among]));
}

struct Run {
  int first, count;
};
/// A warp's expert: its places, side by side in `order`.
__device__ __forceinline__ Run GroupRows(const ExpertsCall& a, int places, int expert, int lane) {
  constexpr int kAtATime = 4;  // loads of 32 places
  const auto load = [&](int first, int (&ids)[kAtATime]) {
#pragma unroll
    for (int n = 0; n < kAtATime; ++n) {
      const int i = first + n * 32 + lane;
      ids[n] = i < places ? a.ids[i] : INT_MAX;
    }
  };
  int before = 0, own = 0;
  for (int first = 0; first < places; first += 32 * kAtATime) {
    int ids[kAtATime];
    load(first, ids);
#pragma unroll
    for (const int id : ids) before += id < expert ? 1 : 0, own += id == expert ? 1 : 0;
  }
  const Run run{SumOverWarp(before), SumOverWarp(own)};
  int at = run.first;
  for (int first = 0; first < places && at < run.first + run.count; first += 32 * kAtATime) {
    int ids[kAtATime];
    load(first, ids);
#pragma unroll
    for (int n = 0; n < kAtATime; ++n) {
      const bool takes = ids[n] == expert;
      const uint32_t all = __ballot_sync(0xffffffffu, takes);
      if (takes) a.order[at + __popc(all & ((1u << lane) - 1))] = first + n * 32 + lane;
      at += __popc(all);
    }
  }
  return run;
}

/// Few rows, by one block: a group for every expert that some row takes.
__global__ void __launch_bounds__(1024) RouteFewKernel(ExpertsCall a) {
  __shared__ Run runs[kMostExperts];
  StartStep();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const int rows = static_cast<int>(a.x.rows), experts = static_cast<int>(a.plan.router.cols);
  const int places = rows * a.plan.taken;
  for (int row = warp; row < rows; row += warps) RouteRow(a, row, lane);
  __syncthreads();
  for (int expert = warp; expert < experts; expert += warps) {
    const Run run = GroupRows(a, places, expert, lane);
    if (lane == 0) runs[expert] = run;
  }
  __syncthreads();
  if (warp != 0) return;
  int at = 0;
  for (int first = 0; first < experts; first += 32) {
    const int expert = first + lane;
    const bool taken = expert < experts && runs[expert].count > 0;
    const uint32_t all = __ballot_sync(0xffffffffu, taken);
    if (taken) {
      a.groups[at + __popc(all & ((1u << lane) - 1))] = {expert, runs[expert].first, runs[expert].count, 0};
    }
    at += __popc(all);
  }
  for (int i = at + lane; i < a.group_count; i += 32) a.groups[i] = {0, 0, 0, 0};
}

__global__ void __launch_bounds__(kBlockThreads) RouteManyKernel(ExpertsCall a) {
  StartStep();
  const int row = blockIdx.x * (kBlockThreads / 32) + threadIdx.x / 32;
  if (row < a.x.rows) RouteRow(a, row, threadIdx.x % 32);
}

/// Many rows: groups of up to kExpertTileRows. Those of an expert begin at its first place / kExpertTileRows + its
/// number, so that no expert needs to know of the others' groups; some are empty.
__global__ void __launch_bounds__(kBlockThreads) GroupManyKernel(ExpertsCall a) {
  constexpr int kRows = kExpertTileRows;
  StartStep();
  const int expert = blockIdx.x * (kBlockThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (expert >= a.plan.router.cols) return;
  const int places = static_cast<int>(a.x.rows) * a.plan.taken;
  const Run run = GroupRows(a, places, expert, lane);
  const int end = run.first + run.count, begin_tile = run.first / kRows, tiles = end / kRows - begin_tile + 1;
  for (int t = lane; t < tiles; t += 32) {
    const int first = run.first + t * kRows;
    a.groups[begin_tile + expert + t] = {expert, first, max(0, min(kRows, end - first)), 0};
  }
}

/// y += the parts of a row's experts times their weights, in the order of the experts.
__global__ void __launch_bounds__(kBlockThreads) SumPartsKernel(ExpertsCall a) {
  StartStep();
  const int c = (blockIdx.x * kBlockThreads + threadIdx.x) * 4, row = blockIdx.y;
  const int taken = a.plan.taken, cols = static_cast<int>(a.y.cols);
  if (c >= cols) return;
  auto* at = reinterpret_cast<float4*>(static_cast<float*>(a.y.data) + row * a.y.stride + c);
  float4 sum = *at;
  for (int i = row * taken; i < (row + 1) * taken; ++i) {
    const float weight = a.weights[i];
    const float4 part = *reinterpret_cast<const float4*>(a.parts + static_cast<int64_t>(i) * cols + c);
    sum.x += weight * part.x, sum.y += weight * part.y, sum.z += weight * part.z, sum.w += weight * part.w;
  }
  *at = sum;
}

}  // namespace

void LaunchRouteExperts(const Launcher& on, const ExpertsCall& call) {
  constexpr int kWarps = kBlockThreads / 32;
  CHECK_LE(call.plan.router.cols, kMostExperts);
  if (call.few()) return Launch(on, RouteFewKernel, Grid(1), 1024, 0, call);
  Launch(on, RouteManyKernel, Grid((call.x.rows + kWarps - 1) / kWarps), kBlockThreads, 0, call);
  Launch(on, GroupManyKernel, Grid((call.plan.router.cols + kWarps - 1) / kWarps), kBlockThreads, 0, call);
}

void LaunchSumParts(const Launcher& on, const ExpertsCall& call) {
  constexpr int kColumns = 4 * kBlockThreads;
  Launch(on, SumPartsKernel, Grid((call.y.cols + kColumns - 1) / kColumns, call.y.rows), kBlockThreads, 0, call);
}

}  // namespace ringside::cuda
