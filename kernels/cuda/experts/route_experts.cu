// Routing: selects the experts of each row and their weights, and sorts the rows by expert; at the end sums the
// experts' outputs per row. All results are in the order of rows and experts, so they do not depend on scheduling.
#include <climits>

#include "kernels/cuda/experts/route_row.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {
namespace {

struct Run {
  int first, count;
};
/// Collects an expert's pairs, by one warp, contiguously into `order`.
__device__ __forceinline__ Run GroupRows(const ExpertsCall& a, int pairs, int expert, int lane) {
  constexpr int kAtATime = 4;  // loads of 32 pairs each
  const auto load = [&](int first, int(&ids)[kAtATime]) {
#pragma unroll
    for (int n = 0; n < kAtATime; ++n) {
      const int i = first + n * 32 + lane;
      ids[n] = i < pairs ? a.ids[i] : INT_MAX;
    }
  };
  int before = 0, own = 0;
  for (int first = 0; first < pairs; first += 32 * kAtATime) {
    int ids[kAtATime];
    load(first, ids);
#pragma unroll
    for (const int id : ids) before += id < expert ? 1 : 0, own += id == expert ? 1 : 0;
  }
  const Run run{SumOverWarp(before), SumOverWarp(own)};
  int at = run.first;
  for (int first = 0; first < pairs && at < run.first + run.count; first += 32 * kAtATime) {
    int ids[kAtATime];
    load(first, ids);
#pragma unroll
    for (int n = 0; n < kAtATime; ++n) {
      const bool matches = ids[n] == expert;
      const uint32_t all = __ballot_sync(0xffffffffu, matches);
      if (matches) a.order[at + __popc(all & ((1u << lane) - 1))] = first + n * 32 + lane;
      at += __popc(all);
    }
  }
  return run;
}

/// Few rows, in one block with a warp per row: groups of up to kRows for every selected expert, empty groups last.
/// Shared memory holds per expert a bit mask of its rows and the start of its pairs in `order`; and per pair its
/// expert.
template <class Router, int kRows>
__global__ void __launch_bounds__(32 * kFewExpertRows) RouteFewKernel(ExpertsCall a) {
  extern __shared__ uint32_t few_shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int rows = static_cast<int>(a.x.rows), experts = static_cast<int>(a.plan.router.cols),
            per_row = a.plan.experts_per_row;
  uint32_t *row_masks = few_shared, *begins = row_masks + experts, *expert_of = begins + experts;
  TriggerProgrammaticLaunch();
#pragma unroll 1
  for (int e = threadIdx.x; e < experts; e += blockDim.x) {
    row_masks[e] = 0;
    Prefetch(a.plan.packed + e);  // for the expert GEMMs
  }
  __syncthreads();
  GridDependencySync();
  Router::Route(a.plan, warp, lane, [&](int i, int expert, float weight) {
    a.weights[warp * per_row + i] = weight;
    expert_of[warp * per_row + i] = expert;
    atomicOr(row_masks + expert, 1u << warp);
  });
  __syncthreads();
  if (warp == 0) {
    int group = 0, pair = 0;
#pragma unroll 1
    for (int first = 0; first < experts; first += 32) {
      const int expert = first + lane, count = expert < experts ? __popc(row_masks[expert]) : 0,
                groups = (count + kRows - 1) / kRows;
      const int ends = ScanOverWarp(groups << 16 | count);  // inclusive prefix sums of groups and pairs in this round
      if (count > 0) {
        const int begin = pair + (ends & 0xffff) - count, own = group + (ends >> 16) - groups;
        begins[expert] = begin;
#pragma unroll 1
        for (int g = 0; g < groups; ++g) {
          a.groups[own + g] = {expert, begin + g * kRows, min(kRows, count - g * kRows), 0};
        }
      }
      const int all = __shfl_sync(0xffffffffu, ends, 31);
      group += all >> 16, pair += all & 0xffff;
    }
#pragma unroll 1
    for (int i = group + lane; i < a.group_count; i += 32) a.groups[i] = {0, 0, 0, 0};
  }
  __syncthreads();
#pragma unroll 1
  for (int pair = threadIdx.x; pair < rows * per_row; pair += blockDim.x) {
    const uint32_t expert = expert_of[pair], before = row_masks[expert] & ((1u << pair / per_row) - 1);
    a.order[begins[expert] + __popc(before)] = pair;
  }
}

template <class Router>
__global__ void __launch_bounds__(kBlockThreads) RouteManyKernel(ExpertsCall a) {
  BeginDependentKernel();
  const int warp = threadIdx.x / 32, row = blockIdx.x * (kBlockThreads / 32) + warp;
  if (row >= a.x.rows) return;
  Router::Route(a.plan, row, threadIdx.x % 32, [&](int i, int expert, float weight) {
    const int pair = row * a.plan.experts_per_row + i;
    a.ids[pair] = expert, a.weights[pair] = weight;
  });
}

/// Many rows: groups of up to kRows. An expert's groups start at index (its first pair / kRows + its number), so that
/// no expert needs to know the group counts of others; some groups are empty.
template <int kRows>
__global__ void __launch_bounds__(kBlockThreads) GroupManyKernel(ExpertsCall a) {
  BeginDependentKernel();
  const int expert = blockIdx.x * (kBlockThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (expert >= a.plan.router.cols) return;
  const int pairs = static_cast<int>(a.x.rows) * a.plan.experts_per_row;
  const Run run = GroupRows(a, pairs, expert, lane);
  const int end = run.first + run.count, begin_tile = run.first / kRows, tiles = end / kRows - begin_tile + 1;
  for (int t = lane; t < tiles; t += 32) {
    const int first = run.first + t * kRows;
    a.groups[begin_tile + expert + t] = {expert, first, max(0, min(kRows, end - first)), 0};
  }
}

/// y (+)= the weighted sum of the outputs of a row's experts, in index order.
__global__ void __launch_bounds__(kBlockThreads) SumPartsKernel(ExpertsCall a) {
  BeginDependentKernel();
  const int c = (blockIdx.x * kBlockThreads + threadIdx.x) * 4, row = blockIdx.y;
  const int per_row = a.plan.experts_per_row, cols = static_cast<int>(a.y.cols);
  if (c >= cols) return;
  auto* at = reinterpret_cast<float4*>(static_cast<float*>(a.y.data) + row * a.y.stride + c);
  const float* weights = a.weights + row * per_row;
  const float* parts = a.parts + static_cast<int64_t>(row) * per_row * cols + c;
  float4 sum = a.plan.accumulate ? *at : float4{0, 0, 0, 0};
#pragma unroll 8
  for (int i = 0; i < per_row; ++i, parts += cols) {
    const float4 part = *reinterpret_cast<const float4*>(parts);
    const float weight = a.plan.traits.scales_input ? 1.0f : weights[i];
    sum.x += weight * part.x, sum.y += weight * part.y;
    sum.z += weight * part.z, sum.w += weight * part.w;
  }
  *at = sum;
}

template <class Router, int kRows>
void LaunchRoute(const Launcher& on, const ExpertsCall& call) {
  constexpr int kWarps = kBlockThreads / 32;
  if (call.x.rows <= kFewExpertRows) {
    const auto words = static_cast<size_t>(2 * call.plan.router.cols + call.pairs());
    return Launch(on, RouteFewKernel<Router, kRows>, Grid(1), 32 * static_cast<int>(call.x.rows),
                  words * sizeof(uint32_t), call);
  }
  Launch(on, RouteManyKernel<Router>, Grid((call.x.rows + kWarps - 1) / kWarps), kBlockThreads, 0, call);
  Launch(on, GroupManyKernel<kRows>, Grid((call.plan.router.cols + kWarps - 1) / kWarps), kBlockThreads, 0, call);
}
template <class Router>
void LaunchRouteOfPath(const Launcher& on, const ExpertsCall& call) {
  switch (call.path) {
    case ExpertsPath::kIntegers:
    case ExpertsPath::kWholeIntegers:
      return LaunchRoute<Router, kIntegerExpertRows>(on, call);
    case ExpertsPath::kFew:
    case ExpertsPath::kSeveral:
      return LaunchRoute<Router, kFewExpertRows>(on, call);
    case ExpertsPath::kMany:
      return LaunchRoute<Router, kManyExpertRows>(on, call);
  }
}
template <int kOwn>
void LaunchRouteOfSize(const Launcher& on, const ExpertsCall& call) {
  call.plan.traits.plain() ? LaunchRouteOfPath<PlainRouter<kOwn>>(on, call)
                           : LaunchRouteOfPath<TraitsRouter<kOwn>>(on, call);
}

}  // namespace

void LaunchRouteExperts(const Launcher& on, const ExpertsCall& call) {
  const int64_t routed = call.plan.router.cols - (call.plan.experts_per_row > call.plan.top_k ? 1 : 0);
  CHECK_LE(routed, 1024);
  if (routed <= 128) return LaunchRouteOfSize<4>(on, call);
  if (routed <= 256) return LaunchRouteOfSize<8>(on, call);
  if (routed <= 512) return LaunchRouteOfSize<16>(on, call);
  LaunchRouteOfSize<32>(on, call);
}

void LaunchSumParts(const Launcher& on, const ExpertsCall& call) {
  constexpr int kColumns = 4 * kBlockThreads;
  Launch(on, SumPartsKernel, Grid((call.y.cols + kColumns - 1) / kColumns, call.y.rows), kBlockThreads, 0, call);
}

}  // namespace ringside::cuda
