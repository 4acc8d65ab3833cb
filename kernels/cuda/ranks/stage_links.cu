// Transfers of rows between pipeline stages over peer memory. Calls are numbered from 1 at both ends and every signal
// carries the number, so nothing is ever cleared. Each block of the sender writes its part and signals the
// corresponding block of the receiver; before it overwrites a buffer it waits until the receiver has consumed it.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ranks/rank_waits.cuh"
#include "kernels/cuda/ranks/stage_links.h"

namespace ringside::cuda {
namespace {

constexpr int kThreads = 512;
constexpr uint32_t kAhead = StageLinks::kCallsInFlight;

__device__ __forceinline__ uint32_t Load(const uint32_t* from) { return LoadOne(from); }
__device__ __forceinline__ uint4 Load(const uint4* from) { return LoadWord(from); }

/// Calls each(i) for every word of the block's part.
template <class Each>
__device__ __forceinline__ void ForPart(int64_t count, const Each& each) {
  const int64_t part = (count + gridDim.x - 1) / gridDim.x;
  const int64_t begin = min(count, blockIdx.x * part), end = min(count, begin + part);
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) each(i);
}

template <class Word>
__global__ void __launch_bounds__(kThreads) SendKernel(StageLinks links, const Word* x, int64_t count) {
  BeginDependentKernel();
  const uint32_t call = LoadOne(links.sent) + 1;
  if (threadIdx.x == 0) {
    WaitUntil(links.timeout, [&] { return HasPublished(links.consumed, call - kAhead, kAhead); });
  }
  __syncthreads();
  auto* to = reinterpret_cast<Word*>(links.next_inbox + call % StageLinks::kCallsInFlight * StageLinks::kBytes);
  ForPart(count, [&](int64_t i) { to[i] = x[i]; });
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) Publish(links.next_published + blockIdx.x, call);
  EndCall(links.send_blocks, links.sent, call);
}

template <class Word>
__global__ void __launch_bounds__(kThreads) ReceiveKernel(StageLinks links, Word* x, int64_t count) {
  BeginDependentKernel();
  const uint32_t call = LoadOne(links.received) + 1;
  if (threadIdx.x == 0)
    WaitUntil(links.timeout, [&] { return HasPublished(links.published + blockIdx.x, call, kAhead); });
  __syncthreads();
  const auto* from =
      reinterpret_cast<const Word*>(links.inbox + call % StageLinks::kCallsInFlight * StageLinks::kBytes);
  ForPart(count, [&](int64_t i) { x[i] = Load(from + i); });
  if (EndCall(links.receive_blocks, links.received, call)) Publish(links.consumed_of_previous, call);
}

int Blocks(int64_t words) {
  return static_cast<int>(std::clamp<int64_t>((words + kThreads - 1) / kThreads, 1, StageLinks::kMaxBlocks));
}

/// Calls launch(pointer to words, count).
template <class Launched>
void InWords(Tensor x, const Launched& launch) {
  const int64_t count = x.rows * x.cols;
  if (count % 4 == 0 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0)
    return launch(static_cast<uint4*>(x.data), count / 4);
  launch(static_cast<uint32_t*>(x.data), count);
}

}  // namespace

void LaunchSend(const Launcher& on, const StageLinks& links, Tensor x) {
  InWords(x, [&](auto* words, int64_t count) {
    using Word = std::remove_pointer_t<decltype(words)>;
    Launch(on, SendKernel<Word>, Grid(Blocks(count)), kThreads, 0, links, static_cast<const Word*>(words), count);
  });
}

void LaunchReceive(const Launcher& on, const StageLinks& links, Tensor x) {
  InWords(x, [&](auto* words, int64_t count) {
    using Word = std::remove_pointer_t<decltype(words)>;
    Launch(on, ReceiveKernel<Word>, Grid(Blocks(count)), kThreads, 0, links, words, count);
  });
}

}  // namespace ringside::cuda
