// Immutable, reference-counted bytes in host memory: chunks of snapshots in transit between tiers. A value. THREAD:
// any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cache/blob_reserve.h"

namespace ringside {

class Blob {
 public:
  Blob() = default;
  /// Uninitialized; fill through `writable()` before sharing.
  static Blob Make(size_t bytes) {
    Blob blob;
    blob.data_ = BlobReserve::Instance().Acquire(bytes);
    blob.size_ = bytes;
    return blob;
  }
  static Blob CopyOf(std::span<const std::byte> bytes) {
    Blob blob = Make(bytes.size());
    if (!bytes.empty()) std::copy(bytes.begin(), bytes.end(), blob.data_.get());
    return blob;
  }

  std::byte* writable() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  /// False for a blob without bytes, such as a chunk that is only in a store.
  explicit operator bool() const { return data_ != nullptr; }

 private:
  std::shared_ptr<std::byte[]> data_;
  size_t size_ = 0;
};

}  // namespace ringside
