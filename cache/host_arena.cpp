#include "cache/host_arena.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/log.h"
#include "cache/blob_reserve.h"
#include "kernels/backend.h"

namespace ringside {
namespace {

constexpr size_t kPieceBytes = size_t{128} << 20;  // pinned at a time

}  // namespace

HostArena::~HostArena() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void HostArena::Start(Backend& backend, size_t cell_bytes, size_t bytes) {
  if (cell_bytes == 0 || bytes < cell_bytes) return;
  thread_ = std::thread([this, &backend, cell_bytes, bytes] { Make(backend, cell_bytes, bytes); });
  pthread_setname_np(thread_.native_handle(), "host arena");
}

void HostArena::Make(Backend& backend, size_t cell_bytes, size_t bytes) {
  backend.UseOnThisThread();
  const size_t piece_cells = std::max<size_t>(1, std::min(kPieceBytes, bytes) / cell_bytes);
  size_t made = 0;
  for (; made < bytes && !stopping_; made += piece_cells * cell_bytes) {
    const size_t piece = piece_cells * cell_bytes;
    void* data = mmap(nullptr, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) break;
    madvise(data, piece, MADV_HUGEPAGE);  // fewer pages to pin
    if (!backend.PinHost(data, piece)) {
      munmap(data, piece);
      break;
    }
    BlobReserve::Instance().Lend(static_cast<std::byte*>(data), cell_bytes, piece_cells);
  }
  if (made > 0) LogInfo("{} MiB of host memory are pinned for caches on their way", made >> 20);
}

}  // namespace ringside
