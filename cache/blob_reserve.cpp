#include "cache/blob_reserve.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/limits.h"

namespace ringside {
namespace {

constexpr size_t kPage = 4096;
// Smaller blocks are not worth caching: the allocator keeps those itself.
constexpr size_t kLeastBytes = 16 * kPage;
constexpr size_t kPart = 8;  // a blob must fill 1/kPart of a cell to use it

}  // namespace

BlobReserve& BlobReserve::Instance() {
  static auto* const instance = new BlobReserve;  // never destroyed: must outlive every blob
  return *instance;
}

BlobReserve::Cell BlobReserve::AcquireCell(size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto cells = cells_.lower_bound(bytes);
  if (cells == cells_.end() || cells->second.empty() || bytes < cells->first / kPart) return {};
  const Cell cell{cells->second.back(), cells->first};
  cells->second.pop_back();
  return cell;
}

void BlobReserve::Lend(std::byte* cells, size_t cell_bytes, size_t count) {
  std::lock_guard lock(mutex_);
  lent_[cells] = cell_bytes * count;
  for (size_t i = count; i > 0; --i) cells_[cell_bytes].push_back(cells + (i - 1) * cell_bytes);
}

size_t BlobReserve::free_cells(size_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto cells = cells_.lower_bound(bytes);
  return cells == cells_.end() || bytes < cells->first / kPart ? 0 : cells->second.size();
}

bool BlobReserve::has_cells(size_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto cells = cells_.lower_bound(bytes);  // a size keeps its entry even when all its cells are in use
  return cells != cells_.end() && bytes >= cells->first / kPart;
}

bool BlobReserve::IsInCell(const std::byte* data) const {
  std::lock_guard lock(mutex_);
  const auto after = lent_.upper_bound(data);
  return after != lent_.begin() && data < std::prev(after)->first + std::prev(after)->second;
}

std::shared_ptr<std::byte[]> BlobReserve::Acquire(size_t bytes) {
  taken_bytes_ += bytes;
  if (const Cell cell = AcquireCell(bytes); cell.data != nullptr) {
    return {cell.data, [this, bytes, size = cell.bytes](std::byte* data) {
              taken_bytes_ -= bytes;
              std::lock_guard lock(mutex_);
              cells_[size].push_back(data);
            }};
  }
  Block block;
  if (bytes >= kLeastBytes) {
    std::lock_guard lock(mutex_);
    if (const auto waiting = blocks_.find(bytes); waiting != blocks_.end()) {
      block = std::move(waiting->second.back());
      waiting->second.pop_back();
      if (waiting->second.empty()) blocks_.erase(waiting);
      waiting_bytes_ -= bytes;
    }
  }
  if (block == nullptr) block = std::make_unique_for_overwrite<std::byte[]>(bytes);
  return {block.release(), [this, bytes](std::byte* data) {
            taken_bytes_ -= bytes;
            GiveBack(Block(data), bytes);
          }};
}

void BlobReserve::GiveBack(Block block, size_t bytes) {
  if (bytes < kLeastBytes) return;
  std::lock_guard lock(mutex_);
  if (waiting_bytes_ + bytes > static_cast<size_t>(limits::kBlobReserveBytes)) return;
  waiting_bytes_ += bytes;
  blocks_[bytes].push_back(std::move(block));
}

void BlobReserve::Prefault(size_t bytes, size_t blocks) {
  constexpr auto kLimit = static_cast<size_t>(limits::kBlobReserveBytes);
  if (bytes < kLeastBytes || free_cells(bytes) >= blocks) return;
  for (blocks = std::min(blocks, kLimit / bytes); waiting_blocks(bytes) < blocks;) {
    Block block = std::make_unique_for_overwrite<std::byte[]>(bytes);
    for (size_t at = 0; at < bytes; at += kPage) block[at] = std::byte{0};  // touch each page
    std::vector<Block> displaced;  // blocks of other sizes; freed outside the lock
    std::lock_guard lock(mutex_);
    for (auto other = blocks_.begin(); waiting_bytes_ + bytes > kLimit && other != blocks_.end();) {
      if (other->first == bytes) {
        ++other;
        continue;
      }
      displaced.push_back(std::move(other->second.back()));
      other->second.pop_back();
      waiting_bytes_ -= other->first;
      if (other->second.empty()) other = blocks_.erase(other);
    }
    if (waiting_bytes_ + bytes > kLimit) return;
    waiting_bytes_ += bytes;
    blocks_[bytes].push_back(std::move(block));
  }
}

size_t BlobReserve::waiting_bytes() const {
  std::lock_guard lock(mutex_);
  return waiting_bytes_;
}

size_t BlobReserve::waiting_blocks(size_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto waiting = blocks_.find(bytes);
  return waiting == blocks_.end() ? 0 : waiting->second.size();
}

}  // namespace ringside
