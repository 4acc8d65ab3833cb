// A CPU backend whose device fails permanently on request, as a GPU does: calls continue, results are meaningless,
// status() reports the failure. Also counts allocations.
#pragma once

#include <atomic>
#include <string>

#include "tests/kernels/forwarding_backend.h"

namespace ringside {

class FailingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  /// Fails from the n-th following Synchronize on; 0 = now.
  void FailAfter(int64_t n) { left_ = n; }
  int64_t allocations() const { return allocations_; }

  Status status() const override {
    return left_ == 0 ? Unavailable("the device has failed: an injected error") : Status::Ok();
  }
  Result<Buffer> Allocate(size_t bytes) override {
    ++allocations_;
    return ForwardingBackend::Allocate(bytes);
  }
  void Synchronize() override {
    ForwardingBackend::Synchronize();
    if (left_ > 0) --left_;
  }
  uint64_t Submit() override {  // the CPU has no run-ahead
    Synchronize();
    return 1;
  }
  std::string Describe() const override { return "failing " + ForwardingBackend::Describe(); }

 private:
  std::atomic<int64_t> left_{-1};
  std::atomic<int64_t> allocations_{0};
};

}  // namespace ringside
