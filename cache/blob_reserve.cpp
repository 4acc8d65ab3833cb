#include "cache/blob_reserve.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace ringside {
namespace {

constexpr size_t kPage = 4096;
// What the allocator has at hand anyway is not worth keeping.
constexpr size_t kLeastBytes = 16 * kPage;

}  // namespace

BlobReserve& BlobReserve::Instance() {
  static auto* const instance = new BlobReserve;  // outlives every blob
  return *instance;
}

std::shared_ptr<std::byte[]> BlobReserve::Take(size_t bytes) {
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
  return {block.release(), [this, bytes](std::byte* data) { GiveBack(Block(data), bytes); }};
}

void BlobReserve::GiveBack(Block block, size_t bytes) {
  if (bytes < kLeastBytes) return;
  std::lock_guard lock(mutex_);
  if (waiting_bytes_ + bytes > static_cast<size_t>(limits::kBlobReserveBytes)) return;
  waiting_bytes_ += bytes;
  blocks_[bytes].push_back(std::move(block));
}

void BlobReserve::LayIn(size_t bytes, size_t blocks) {
  constexpr auto kLimit = static_cast<size_t>(limits::kBlobReserveBytes);
  if (bytes < kLeastBytes) return;
  for (blocks = std::min(blocks, kLimit / bytes); waiting_blocks(bytes) < blocks;) {
    Block block = std::make_unique_for_overwrite<std::byte[]>(bytes);
    for (size_t at = 0; at < bytes; at += kPage) block[at] = std::byte{0};  // gives it its pages
    std::vector<Block> displaced;                                           // of other sizes; freed outside the lock
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
