// Memory of all compiled grammars of one server. THREAD: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/limits.h"

namespace ringside {

class GrammarMemory {
 public:
  int64_t bytes() const { return bytes_; }
  int64_t grammars() const { return grammars_; }
  /// Limit for one grammar's parse tables. Under memory pressure, grammars above their share must release the excess.
  int64_t TableBytes() const {
    if (bytes_ <= limits::kMaxGrammarCacheBytes) return limits::kMaxGrammarTableBytes;
    const int64_t share = limits::kMaxGrammarCacheBytes / std::max<int64_t>(grammars_, 1);
    return std::clamp(share, limits::kMinGrammarTableBytes, limits::kMaxGrammarTableBytes);
  }

 private:
  friend class MemoryCount;
  std::atomic<int64_t> bytes_ = 0, grammars_ = 0;
};

/// One grammar's contribution, or a detached counter. THREAD: one at a time.
class MemoryCount {
 public:
  explicit MemoryCount(std::shared_ptr<GrammarMemory> memory) : memory_(std::move(memory)) {
    if (memory_ != nullptr) ++memory_->grammars_;
  }
  ~MemoryCount() {
    if (memory_ == nullptr) return;
    memory_->bytes_ -= bytes_;
    --memory_->grammars_;
  }
  MemoryCount(const MemoryCount&) = delete;
  MemoryCount& operator=(const MemoryCount&) = delete;

  void Set(int64_t bytes) {
    if (memory_ != nullptr) memory_->bytes_ += bytes - bytes_;
    bytes_ = bytes;
  }
  int64_t TableBytes() const { return memory_ != nullptr ? memory_->TableBytes() : limits::kMaxGrammarTableBytes; }

 private:
  const std::shared_ptr<GrammarMemory> memory_;
  int64_t bytes_ = 0;
};

}  // namespace ringside
