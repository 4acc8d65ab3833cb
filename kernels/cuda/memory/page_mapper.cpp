#include "kernels/cuda/memory/page_mapper.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {

PageMapper::~PageMapper() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PageMapper::Start(int device, DevicePages* pages) {
  pages_ = pages;
  thread_ = std::thread([this, device] { Run(device); });
  pthread_setname_np(thread_.native_handle(), "page mapper");
}

void PageMapper::Map(std::byte* at, size_t pages) { Share(at, nullptr, pages); }

void PageMapper::Share(std::byte* at, const std::byte* from, size_t pages) {
  Push({.at = at, .pages = pages, .maps = true, .from = from});
  mappings_.push_back({at, at + pages * pages_->page_bytes(), given_});
}

void PageMapper::Unmap(std::byte* at, size_t pages, bool frees, std::vector<cudaEvent_t> after) {
  Push({.at = at, .pages = pages, .frees = frees, .after = std::move(after)});
}

void PageMapper::Push(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    ++given_;
  }
  changed_.notify_all();
}

uint64_t PageMapper::LastJobOf(const void* data, size_t bytes) {
  if (mappings_.empty()) return 0;
  {
    const std::lock_guard lock(mutex_);
    while (!mappings_.empty() && mappings_.front().job <= done_) mappings_.pop_front();
  }
  const auto *begin = static_cast<const std::byte*>(data), *end = begin + bytes;
  uint64_t last = 0;
  for (const Mapping& mapping : mappings_) {
    if (mapping.begin < end && begin < mapping.end) last = mapping.job;
  }
  return last;
}

void PageMapper::Await(const void* data, size_t bytes) {
  if (const uint64_t job = LastJobOf(data, bytes); job > 0) AwaitJob(job);
}

bool PageMapper::AwaitFor(const void* data, size_t bytes, int64_t timeout_us) {
  const uint64_t job = LastJobOf(data, bytes);
  if (job == 0) return true;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::microseconds(timeout_us), [&] { return done_ >= job; });
}

void PageMapper::Drain() { AwaitJob(given_); }

void PageMapper::AwaitJob(uint64_t job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= job; });
}

void PageMapper::Run(int device) {
  CHECK_CUDA(cudaSetDevice(device));
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stops_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Do(job);
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

void PageMapper::Do(const Job& job) {
  for (const cudaEvent_t event : job.after) {
    CHECK_CUDA(cudaEventSynchronize(event));
    CHECK_CUDA(cudaEventDestroy(event));
  }
  if (!job.maps) return pages_->Unmap(job.at, job.pages, job.frees);
  const bool mapped = job.from == nullptr ? pages_->Map(job.at, job.pages) : pages_->Share(job.at, job.from, job.pages);
  if (!mapped) RecordDeviceError(__FILE__, __LINE__, "a page could not be mapped");
}

}  // namespace ringside::cuda
