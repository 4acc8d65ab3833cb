// A thread that maps and unmaps the device's pages, which takes too long for the one that issues steps: job after job,
// in the order in which they are given. Owned by DeviceMemory, whose thread makes all calls.
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
  /// Does what it was given first.
  ~PageMapper();

  void Start(int device, DevicePages* pages);
  void Map(std::byte* at, size_t pages);
  /// Once these events have happened, which it then destroys.
  void Unmap(std::byte* at, size_t pages, std::vector<cudaEvent_t> after);
  /// Returns when whatever of these bytes was to be mapped is. Costs nothing where nothing is under way.
  void Await(const void* data, size_t bytes);
  /// Waits `most_us` at most; false if the bytes are not mapped then.
  bool AwaitFor(const void* data, size_t bytes, int64_t most_us);
  /// Returns when nothing is left to do.
  void Drain();

 private:
  struct Job {
    std::byte* at;
    size_t pages;
    bool maps;
    std::vector<cudaEvent_t> after;
  };
  struct Mapping {  // that may not be done
    const std::byte *begin, *end;
    uint64_t job;
  };
  void Push(Job job);
  void Run(int device);
  void Do(const Job& job);
  void AwaitJob(uint64_t job);
  /// The last job under way that maps some of these bytes; 0 = none.
  uint64_t LastJobOf(const void* data, size_t bytes);

  DevicePages* pages_ = nullptr;
  std::deque<Mapping> mappings_;  // oldest first
  uint64_t given_ = 0;            // jobs
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  uint64_t done_ = 0;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace ringside::cuda
