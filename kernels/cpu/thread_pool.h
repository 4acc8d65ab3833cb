// The backend's workers. One caller at a time hands out a job of numbered pieces; the caller and the workers take
// pieces from a shared counter until none is left, and the caller returns when all are done. A worker without a piece
// spins for about 20 microseconds, then sleeps: an idle pool burns nothing, and a worker that has lost its core delays
// only the piece it holds. Which thread computes a piece must not change its result.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace ringside::cpu {

/// Cores this process may keep busy: its affinity, and its control group's quota where that is less. At least 1.
int UsableCores();

class ThreadPool {
 public:
  /// `threads` counts the caller; at least 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// body(i) for i in [0, pieces), in any order, on any of the threads; pieces <= kMaxPieces. Not re-entrant.
  template <class Body>
  void Run(int64_t pieces, const Body& body) {
    if (pieces <= 1 || workers_.empty()) {
      for (int64_t i = 0; i < pieces; ++i) body(i);
      return;
    }
    RunJob(
        pieces, [](const void* context, int64_t i) { (*static_cast<const Body*>(context))(i); }, &body);
  }
  static constexpr int64_t kMaxPieces = 1 << 19;

 private:
  using Function = void (*)(const void*, int64_t);

  void RunJob(int64_t pieces, Function function, const void* context);
  bool TakePiece();
  void Work();

  std::vector<std::thread> workers_;
  // Generation, number of pieces and next piece in one word, so that a late worker can never take a piece of one job
  // with the function of another: it holds a piece of the job whose function it then reads, or none.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<uint32_t> wake_{0};  // changes when there is something to do
  std::atomic<bool> stop_{false};
  Function function_ = nullptr;
  const void* context_ = nullptr;
};

}  // namespace ringside::cpu
