// Detects an answer that loops: small models repeat a few sentences, with small changes, until something stops them. A
// window of the answer is a loop if it has few distinct 4-grams of tokens. Owned by a running turn. THREAD: engine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/text/tokenizer.h"

namespace ringside {

class RepetitionGuard {
 public:
  /// Window sizes in 4-grams. A window is a loop if at most an eighth of its 4-grams are distinct: cycles of up to 64
  /// tokens in the shorter window, of up to 256 in the longer.
  static constexpr std::array<size_t, 2> kWindows = {512, 2048};
  static constexpr size_t kNgramTokens = 4, kDistinctDivisor = 8;

  /// Adds the answer's next token. True if a window that ends with it is a loop. Constant time, at most 100 KB.
  bool Push(TokenId id);

 private:
  std::array<TokenId, kNgramTokens> last_{};  // newest last
  size_t pushed_ = 0;
  std::vector<uint64_t> runs_;  // hashes of 4-grams: a ring of the longest window
  std::array<std::unordered_map<uint64_t, uint32_t>, kWindows.size()> counts_;
};

}  // namespace ringside
