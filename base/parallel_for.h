// Parallel loops over host work that is large enough to start threads for: loading weights, reading stored caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace ringside {

/// Calls do_part(first, last) for non-empty parts of [0, count), at most `most_threads` at once; returns when all are
/// done. The caller's thread computes a part, and every part that no thread could be started for.
template <class F>
void ParallelParts(size_t count, size_t most_threads, const F& do_part) {
  const size_t threads = std::min(count, most_threads);
  std::vector<std::jthread> running;
  for (size_t t = threads; t-- > 0;) {
    const auto part = [&do_part, first = count * t / threads, last = count * (t + 1) / threads] {
      do_part(first, last);
    };
    try {
      if (t > 0) running.emplace_back(part);
    } catch (const std::system_error&) {
      part();
    }
    if (t == 0) part();
  }
}

/// ParallelParts on all cores, at most 16.
template <class F>
void ParallelFor(size_t count, const F& do_part) {
  ParallelParts(count, std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 16), do_part);
}

}  // namespace ringside
