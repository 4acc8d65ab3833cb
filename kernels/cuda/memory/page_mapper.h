// A thread that maps and unmaps device pages, which takes too long for the thread that issues steps. Jobs run in the
// order of the calls. Owned by DeviceMemory.
// THREAD: DeviceMemory's makes all calls.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/cuda/memory/device_pages.h"

namespace ringside::cuda {

class PageMapper {
 public:
  PageMapper() = default;
  PageMapper(const PageMapper&) = delete;
  PageMapper& operator=(const PageMapper&) = delete;
  /// Finishes all queued jobs first.
  ~PageMapper();

  void Start(int device, DevicePages* pages);
  void Map(std::byte* at, size_t pages);
  /// Maps the pages of `from` to these addresses, too; free pages if it is null.
  void Share(std::byte* at, const std::byte* from, size_t pages);
  /// Waits for these events first, then destroys them. `frees`: the pages are mapped nowhere else.
  void Unmap(std::byte* at, size_t pages, bool frees, std::vector<cudaEvent_t> after);
  /// Blocks until all queued mappings of these bytes are done. Costs nothing if there are none.
  void Await(const void* data, size_t bytes);
  /// Waits at most `timeout_us`; false if the bytes are not mapped by then.
  bool AwaitFor(const void* data, size_t bytes, int64_t timeout_us);
  /// Blocks until the queue is empty.
  void Drain();

 private:
  struct Job {
    std::byte* at;
    size_t pages;
    bool maps = false;
    const std::byte* from = nullptr;  // mapping: pages to share; null = free ones
    bool frees = false;               // unmapping: the pages are mapped nowhere else
    std::vector<cudaEvent_t> after = {};
  };
  struct Mapping {  // a mapping that may still be pending
    const std::byte *begin, *end;
    uint64_t job;
  };
  void Push(Job job);
  void Run(int device);
  void Do(const Job& job);
  void AwaitJob(uint64_t job);
  /// The last pending job that maps any of these bytes; 0: none.
  uint64_t LastJobOf(const void* data, size_t bytes);

  DevicePages* pages_ = nullptr;
  std::deque<Mapping> mappings_;  // oldest first
  uint64_t given_ = 0;            // jobs queued so far
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  uint64_t done_ = 0;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace ringside::cuda
