// The store folder's lock: one server at a time. Held by the App for as long as it runs.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace ringside {

class StoreLock {
 public:
  /// Makes the folder (mode 0700) if it is missing and locks the file `lock` in it, which then names this process.
  /// kBusy if another server holds it; kIo if the folder cannot be had.
  static Result<StoreLock> Acquire(const std::string& folder);
  StoreLock(StoreLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  StoreLock& operator=(StoreLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~StoreLock();

 private:
  explicit StoreLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace ringside
