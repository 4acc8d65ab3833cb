#include "cache/host_arena.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "cache/blob_reserve.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

constexpr size_t kPieceBytes = size_t{128} << 20;  // lent at a time
constexpr size_t kCallBytes = size_t{8} << 20;     // pinned by one call, which keeps others from the device
constexpr int kBusyPause = 5;                      // times as long as a call, where the device is wanted

/// Brings the pages in before they are pinned. A driver that has to wait for them lets nobody use the device meanwhile.
void Populate(void* data, size_t bytes) {
  if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return;
  constexpr size_t kPage = 4096;
  for (size_t at = 0; at < bytes; at += kPage) static_cast<volatile std::byte*>(data)[at] = {};
}

}  // namespace

HostArena::~HostArena() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void HostArena::Start(SlabMemory& memory, size_t cell_bytes, size_t bytes) {
  if (cell_bytes == 0 || bytes < cell_bytes) return;
  thread_ = std::thread([this, &memory, cell_bytes, bytes] { Make(memory, cell_bytes, bytes); });
  pthread_setname_np(thread_.native_handle(), "host arena");
}

bool HostArena::Pin(SlabMemory& memory, std::byte* data, size_t bytes, size_t cell_bytes) {
  for (size_t at = 0; at < bytes; at += kCallBytes) {
    while (device_busy_ && !stopping_ && BlobReserve::Instance().free_cells(cell_bytes) * cell_bytes >= ready_bytes_)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto began = std::chrono::steady_clock::now();
    if (!memory.PinHost(data + at, std::min(kCallBytes, bytes - at))) {
      if (at == 0) munmap(data, bytes);  // else it stays: nobody unpins
      return false;
    }
    if (device_busy_ && !stopping_)
      std::this_thread::sleep_for(kBusyPause * (std::chrono::steady_clock::now() - began));
  }
  return true;
}

void HostArena::Make(SlabMemory& memory, size_t cell_bytes, size_t bytes) {
  memory.UseOnThisThread();
  const size_t piece_cells = std::max<size_t>(1, std::min(kPieceBytes, bytes) / cell_bytes);
  size_t made = 0;
  for (; made < bytes && !stopping_; made += piece_cells * cell_bytes) {
    const size_t piece = piece_cells * cell_bytes;
    void* data = mmap(nullptr, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) break;
    madvise(data, piece, MADV_HUGEPAGE);  // fewer pages to pin
    if (made > 0) Populate(data, piece);  // the first tells whether there is any use in it
    if (!Pin(memory, static_cast<std::byte*>(data), piece, cell_bytes)) break;
    BlobReserve::Instance().Lend(static_cast<std::byte*>(data), cell_bytes, piece_cells);
  }
  if (made > 0) LogInfo("{} MiB of host memory are pinned for caches on their way", made >> 20);
}

}  // namespace ringside
