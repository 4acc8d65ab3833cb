// Parallel loops over host work that is large enough to start threads for: weight loading.
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

namespace ringside {

/// Calls do_part(first, last) for non-empty parts of [0, count) on all cores, at most 16; returns when all are done.
template <class F>
void ParallelFor(size_t count, const F& do_part) {
  const size_t threads = std::min<size_t>(count, std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 16));
  std::vector<std::jthread> running;
  for (size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] { do_part(count * t / threads, count * (t + 1) / threads); });
  }
}

}  // namespace ringside
