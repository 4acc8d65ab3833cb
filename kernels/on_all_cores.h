// Work on the host's cores that is large enough for threads of its own: weights on their way to a device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

namespace ringside {

/// Calls do_part(first, last) for parts of [0, count), none of them empty, on all cores, 16 at most; returns when all
/// are done.
template <class F>
void OnAllCores(size_t count, const F& do_part) {
  const size_t threads = std::min<size_t>(count, std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 16));
  std::vector<std::jthread> running;
  for (size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] { do_part(count * t / threads, count * (t + 1) / threads); });
  }
}

}  // namespace ringside
