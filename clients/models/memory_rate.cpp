#include "clients/models/memory_rate.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

namespace ringside::client {
namespace {

constexpr size_t kBytes = size_t{256} << 20;  // beyond the caches of current processors
constexpr auto kTime = std::chrono::milliseconds(300);

int UsableProcessors() {
  cpu_set_t usable;
  return sched_getaffinity(0, sizeof usable, &usable) == 0 ? std::max(1, CPU_COUNT(&usable)) : 1;
}

using Lane [[gnu::vector_size(16)]] = uint64_t;

uint64_t Sum(std::span<const Lane> numbers) {
  Lane sums[8] = {};  // independent, so that reads do not wait for one sum
  for (size_t i = 0; i + 8 <= numbers.size(); i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += numbers[i + j];
  }
  const Lane all = std::accumulate(std::begin(sums), std::end(sums), Lane{});
  return all[0] + all[1];
}

/// Reads the whole memory, a share per thread, until the time is over; returns the shortest round in seconds.
double ShortestRound(std::span<Lane> memory, int threads) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + kTime;
  auto start = Clock::now();
  double shortest = std::numeric_limits<double>::max();
  int rounds = 0;  // the first one makes the pages resident and is not measured
  bool measuring = true;
  std::barrier round(threads, [&]() noexcept {
    const auto now = Clock::now();
    if (rounds++ > 0) shortest = std::min(shortest, std::chrono::duration<double>(now - start).count());
    measuring = rounds < 2 || now < end;
    start = now;
  });
  const size_t share = memory.size() / static_cast<size_t>(threads);
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  const auto work = [&](size_t thread) {
    const auto own = memory.subspan(thread * share, share);
    std::ranges::fill(own, Lane{1, 1});
    round.arrive_and_wait();
    while (measuring) {
      sums[thread] += Sum(own);
      round.arrive_and_wait();
    }
  };
  std::vector<std::jthread> pool;
  for (int thread = 1; thread < threads; ++thread) pool.emplace_back(work, static_cast<size_t>(thread));
  work(0);
  pool.clear();
  [[maybe_unused]] volatile uint64_t used = std::accumulate(sums.begin(), sums.end(), uint64_t{0});
  return shortest;
}

}  // namespace

double MeasureMemoryRate() {
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  const double seconds = ShortestRound({static_cast<Lane*>(memory), kBytes / sizeof(Lane)}, UsableProcessors());
  ::munmap(memory, kBytes);
  return static_cast<double>(kBytes) / seconds;
}

}  // namespace ringside::client
