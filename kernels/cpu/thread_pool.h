// The backend's thread pool. One caller at a time submits a job of numbered pieces. The caller and the workers take
// pieces from a shared counter, and the caller returns when all are done. An idle worker spins for about 20
// microseconds, then sleeps, so an idle pool uses no CPU time, and a preempted worker delays only the piece it holds. A
// piece's result must not depend on the thread that computes it.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace ringside::cpu {

/// Cores that this process may use: the smaller of its affinity and its cgroup's quota, at least 1.
int UsableCores();

class ThreadPool {
 public:
  /// `threads` includes the caller; at least 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(i) for i in [0, pieces), in any order, on any of the threads; pieces <= kMaxPieces. Not reentrant.
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
  // Generation, number of pieces and next piece in one word. So a late worker can never combine a piece of one job with
  // the function of another: it holds a piece of the job whose function it then reads, or none.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<uint32_t> wake_{0};  // changes when there is work
  std::atomic<bool> stop_{false};
  Function function_ = nullptr;
  const void* context_ = nullptr;
};

}  // namespace ringside::cpu
