#include "kernels/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "base/check.h"

namespace ringside::cpu {
namespace {

constexpr int kFieldBits = 20;
constexpr uint64_t kField = (1 << kFieldBits) - 1;
constexpr uint64_t kGeneration = uint64_t{1} << (2 * kFieldBits);

uint64_t Next(uint64_t ticket) { return ticket & kField; }
uint64_t Count(uint64_t ticket) { return ticket >> kFieldBits & kField; }

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // about as many cycles as `pause`; most processors ignore `yield`
#endif
}

/// Spins for about 20 microseconds until ready(); false on timeout.
template <class Ready>
bool Spin(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

/// Whole cores granted by the cgroup ("quota period" in microseconds, or "max period").
int QuotaCores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  int64_t quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return 1 << 20;
  return static_cast<int>(std::clamp<int64_t>((quota + period - 1) / period, 1, 1 << 20));
}

}  // namespace

int UsableCores() {
  cpu_set_t set;
  const int affinity = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, std::min(affinity, QuotaCores()));
}

ThreadPool::ThreadPool(int threads) {
  CHECK_GE(threads, 1);
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  wake_.fetch_add(1);
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool ThreadPool::TakePiece() {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  if (Next(ticket) >= Count(ticket)) return false;
  ticket = ticket_.fetch_add(1, std::memory_order_acquire);  // possibly of a newer job by now, which is equally valid
  if (Next(ticket) >= Count(ticket)) return false;
  function_(context_, static_cast<int64_t>(Next(ticket)));
  if (done_.fetch_add(1) + 1 == Count(ticket)) done_.notify_one();
  return true;
}

void ThreadPool::RunJob(int64_t pieces, Function function, const void* context) {
  CHECK_LE(pieces, kMaxPieces);
  function_ = function;
  context_ = context;
  done_.store(0);
  const uint64_t generation = ticket_.load(std::memory_order_relaxed) & ~(kGeneration - 1);
  ticket_.store((generation + kGeneration) | static_cast<uint64_t>(pieces) << kFieldBits, std::memory_order_release);
  wake_.fetch_add(1);
  wake_.notify_all();
  while (TakePiece()) {
  }
  const uint32_t all = static_cast<uint32_t>(pieces);
  if (Spin([&] { return done_.load(std::memory_order_acquire) == all; })) return;
  for (uint32_t done = done_.load(); done != all; done = done_.load()) done_.wait(done);
}

void ThreadPool::Work() {
  for (;;) {
    while (TakePiece()) {
    }
    const uint32_t wake = wake_.load();
    const auto ready = [&] {
      const uint64_t ticket = ticket_.load(std::memory_order_acquire);
      return Next(ticket) < Count(ticket) || stop_.load(std::memory_order_relaxed);
    };
    if (!Spin(ready) && !ready()) wake_.wait(wake);
    if (stop_) return;
  }
}

}  // namespace ringside::cpu
