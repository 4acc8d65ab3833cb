// Finds an answer that has become a loop: small models that decode greedily repeat one cycle of tokens until something
// ends them. Owned by a running turn; engine thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/text/tokenizer.h"

namespace ringside {

class RepetitionGuard {
 public:
  static constexpr int64_t kMaxCycleTokens = 64;
  static constexpr int64_t kLeastTokens = 512;  // of the loop: at least 8 times the longest cycle
  static_assert(kLeastTokens >= 8 * kMaxCycleTokens);

  /// Takes the answer's next token. True if the last kLeastTokens tokens are one cycle of at most kMaxCycleTokens
  /// tokens, repeated. Constant time.
  bool Push(TokenId id) {
    const int64_t known = std::min(pushed_, kMaxCycleTokens);
    bool loops = false;
    for (int64_t cycle = 1; cycle <= known; ++cycle) {
      int64_t& run = repeated_[static_cast<size_t>(cycle - 1)];
      run = last_[Place(pushed_ - cycle)] == id ? run + 1 : 0;
      loops = loops || run + cycle >= kLeastTokens;
    }
    last_[Place(pushed_++)] = id;
    return loops;
  }

 private:
  static size_t Place(int64_t position) { return static_cast<size_t>(position % kMaxCycleTokens); }

  std::array<TokenId, kMaxCycleTokens> last_{};      // a ring
  std::array<int64_t, kMaxCycleTokens> repeated_{};  // by cycle: last tokens that equal the one a cycle before them
  int64_t pushed_ = 0;
};

}  // namespace ringside
