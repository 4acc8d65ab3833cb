#include "kernels/cuda/memory/arena.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace ringside::cuda {
namespace {

size_t RoundUp(size_t bytes) { return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment; }

}  // namespace

void Arena::Reset(void* base, size_t bytes) {
  base_ = static_cast<std::byte*>(base);
  free_bytes_ = bytes / kAlignment * kAlignment;
  gaps_.clear();
  gaps_.emplace(0, free_bytes_);
}

void* Arena::AllocateFrom(std::map<size_t, size_t>::iterator gap, size_t offset, size_t bytes) {
  const auto [begin, size] = *gap;
  gaps_.erase(gap);
  if (offset > begin) gaps_.emplace(begin, offset - begin);
  if (begin + size > offset + bytes) gaps_.emplace(offset + bytes, begin + size - offset - bytes);
  free_bytes_ -= bytes;
  return base_ + offset;
}

void* Arena::AllocateLow(size_t bytes) {
  if (bytes > free_bytes_) return nullptr;
  bytes = RoundUp(bytes);
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second >= bytes) return AllocateFrom(gap, gap->first, bytes);
  }
  return nullptr;
}

void* Arena::AllocateHigh(size_t bytes) {
  if (bytes > free_bytes_) return nullptr;
  bytes = RoundUp(bytes);
  for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
    if (gap->second < bytes) continue;
    const size_t offset = (gap->first + gap->second - bytes) / kHighAlignment * kHighAlignment;
    if (offset >= gap->first) return AllocateFrom(std::prev(gap.base()), offset, bytes);
  }
  return nullptr;
}

void Arena::Free(void* data, size_t bytes) {
  bytes = RoundUp(bytes);
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(data) - base_);
  const auto [gap, fresh] = gaps_.emplace(offset, bytes);
  CHECK(fresh);
  free_bytes_ += bytes;
  if (const auto next = std::next(gap); next != gaps_.end() && offset + bytes == next->first) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap == gaps_.begin()) return;
  if (const auto before = std::prev(gap); before->first + before->second == offset) {
    before->second += gap->second;
    gaps_.erase(gap);
  }
}

}  // namespace ringside::cuda
