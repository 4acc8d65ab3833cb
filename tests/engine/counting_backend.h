// A backend decorator that tracks copies.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "tests/kernels/forwarding_backend.h"

namespace ringside {

/// Counts bytes copied between slabs. Fills committed memory with NaN, like another conversation's stale rows.
class CountingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void CopyOnDevice(void* to, const void* from, size_t bytes) override {
    copied += static_cast<int64_t>(bytes);
    largest = std::max(largest.load(), static_cast<int64_t>(bytes));
    ForwardingBackend::CopyOnDevice(to, from, bytes);
  }
  Status Commit(void* data, size_t bytes) override {
    RETURN_IF_ERROR(ForwardingBackend::Commit(data, bytes));
    const std::vector<std::byte> nan(bytes, std::byte{0xff});
    CopyToDevice(data, nan.data(), bytes);
    Synchronize();
    return Status::Ok();
  }
  std::atomic<int64_t> copied{0}, largest{0};
};

}  // namespace ringside
