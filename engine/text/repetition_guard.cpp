#include "engine/text/repetition_guard.h"

#include <algorithm>

namespace ringside {

bool RepetitionGuard::Push(TokenId id) {
  std::ranges::rotate(last_, last_.begin() + 1);
  last_.back() = id;
  if (++pushed_ < kNgramTokens) return false;
  uint64_t run = 0;
  for (const TokenId token : last_) {
    run = (run ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15u;
    run ^= run >> 32;
  }
  const size_t number = pushed_ - kNgramTokens, size = kWindows.back();
  bool loops = false;
  for (size_t i = 0; i < kWindows.size(); ++i) {
    auto& counts = counts_[i];
    ++counts[run];
    if (number >= kWindows[i]) {
      const auto oldest = counts.find(runs_[(number - kWindows[i]) % size]);
      if (--oldest->second == 0) counts.erase(oldest);
    }
    loops = loops || (number + 1 >= kWindows[i] && counts.size() <= kWindows[i] / kDistinctDivisor);
  }
  if (runs_.size() < size) {
    runs_.push_back(run);
  } else {
    runs_[number % size] = run;
  }
  return loops;
}

}  // namespace ringside
