#include "cache/host_arena.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/log.h"
#include "cache/blob_reserve.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

constexpr size_t kPieceBytes = size_t{128} << 20;  // bytes pinned by one call
constexpr unsigned kMostThreads = 8;               // for page faults only: the driver serializes the pinning itself

/// Faults pages in before they are pinned: faulting takes longer than pinning, and several threads can share it.
void Populate(void* data, size_t bytes) {
  if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return;
  constexpr size_t kPage = 4096;
  for (size_t at = 0; at < bytes; at += kPage) static_cast<volatile std::byte*>(data)[at] = {};
}

}  // namespace

HostArena::~HostArena() {
  Stop();
  Wait();
}

void HostArena::Start(SlabMemory& memory, size_t cell_bytes, size_t bytes) {
  if (cell_bytes == 0 || bytes < cell_bytes) return;
  thread_ = std::thread([this, &memory, cell_bytes, bytes] { Make(memory, cell_bytes, bytes); });
  pthread_setname_np(thread_.native_handle(), "host arena");
}

void HostArena::Wait() {
  if (thread_.joinable()) thread_.join();
}

void HostArena::Make(SlabMemory& memory, size_t cell_bytes, size_t bytes) {
  const auto began = std::chrono::steady_clock::now();
  memory.MakeCurrent();
  // Stop early if the backend cannot pin the first chunk.
  const size_t first = std::max<size_t>(1, std::min(kPieceBytes, bytes) / cell_bytes);
  begun_ = first * cell_bytes;
  if (!MakePiece(memory, cell_bytes, first, /*with_pages=*/false)) return;
  std::vector<std::thread> helpers;
  const unsigned threads = std::clamp(std::thread::hardware_concurrency() / 2, 1U, kMostThreads);
  for (unsigned i = 1; i < threads; ++i) {
    helpers.emplace_back([this, &memory, cell_bytes, bytes] { MakePieces(memory, cell_bytes, bytes); });
    pthread_setname_np(helpers.back().native_handle(), "host arena");
  }
  MakePieces(memory, cell_bytes, bytes);
  for (std::thread& helper : helpers) helper.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  LogInfo("pinned {} MiB of host memory for snapshots in transit in {:.1f} s", made_ >> 20, took.count());
}

void HostArena::MakePieces(SlabMemory& memory, size_t cell_bytes, size_t bytes) {
  memory.MakeCurrent();
  const size_t cells = std::max<size_t>(1, kPieceBytes / cell_bytes);
  while (!stopping_ && begun_.fetch_add(cells * cell_bytes) < bytes) {
    if (!MakePiece(memory, cell_bytes, cells, /*with_pages=*/true)) Stop();
  }
}

bool HostArena::MakePiece(SlabMemory& memory, size_t cell_bytes, size_t cells, bool with_pages) {
  const size_t bytes = cells * cell_bytes;
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return false;
  madvise(data, bytes, MADV_HUGEPAGE);  // fewer pages to pin
  if (with_pages) Populate(data, bytes);
  if (!memory.PinHost(data, bytes)) {
    munmap(data, bytes);
    return false;
  }
  made_ += bytes;
  BlobReserve::Instance().Lend(static_cast<std::byte*>(data), cell_bytes, cells);
  return true;
}

}  // namespace ringside
