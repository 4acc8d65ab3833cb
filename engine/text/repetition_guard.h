// Finds an answer that has become a loop: small models repeat a few sentences, with small changes, until something ends
// them. A loop is a stretch of the answer with few different runs of four tokens. Owned by a running turn; engine
// thread.
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
  /// Numbers of runs. A stretch is a loop if at most an eighth of its runs differ: cycles of up to 64 tokens in the
  /// shorter stretch, of up to 256 in the longer.
  static constexpr std::array<size_t, 2> kStretches = {512, 2048};
  static constexpr size_t kRunTokens = 4, kShareOfDifferent = 8;

  /// Takes the answer's next token. True if a stretch that ends with it is a loop. Constant time, 100 KB at most.
  bool Push(TokenId id);

 private:
  std::array<TokenId, kRunTokens> last_{};  // tokens, the newest last
  size_t pushed_ = 0;
  std::vector<uint64_t> runs_;  // hashes: a ring of the longest stretch
  std::array<std::unordered_map<uint64_t, uint32_t>, kStretches.size()> counts_;
};

}  // namespace ringside
