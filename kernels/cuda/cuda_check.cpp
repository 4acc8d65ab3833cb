#include "kernels/cuda/cuda_check.h"

#include <atomic>
#include <mutex>

#include "base/log.h"

namespace ringside::cuda {
namespace {

std::atomic<bool> failed{false};  // fast path: no failure so far
std::mutex mutex;
std::string& First() {
  static auto* const first = new std::string;  // leaked on purpose: outlives every thread
  return *first;
}

}  // namespace

void RecordDeviceError(const char* file, int line, const std::string& what) {
  std::lock_guard lock(mutex);
  if (failed) return;
  First() = "the device has failed: " + what;
  failed = true;
  LogError("{}:{}: {}", file, line, First());
}

Status DeviceStatus() {
  if (!failed) return Status::Ok();
  std::lock_guard lock(mutex);
  return Unavailable(First());
}

}  // namespace ringside::cuda
