// Bytes in host memory that are shared and no longer change: chunks of snapshots on their way between tiers. A value;
// any thread.
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
  /// Uninitialised; to be filled through `writable()` before it is shared.
  static Blob Make(size_t bytes) {
    Blob blob;
    blob.data_ = BlobReserve::Instance().Take(bytes);
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
  /// False for a blob whose bytes are elsewhere.
  explicit operator bool() const { return data_ != nullptr; }

 private:
  std::shared_ptr<std::byte[]> data_;
  size_t size_ = 0;
};

}  // namespace ringside
