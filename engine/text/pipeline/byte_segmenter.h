// Byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM; Sennrich et al. 2016 on bytes): merges a word's bytes pair by pair.
// Owned by a tokenizer; immutable after Make. THREAD: any.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/text/token_list.h"
#include "engine/text/tokenizer_merge.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

class ByteSegmenter {
 public:
  /// ERRORS: kInvalidArgument for a merge of unknown tokens.
  static Result<ByteSegmenter> Make(const Vocabulary& vocabulary, const TokenizerData& data);

  /// Appends the tokens of `word`, which may contain any bytes. `symbols` is scratch memory.
  /// REQUIRES: `vocabulary` is the one passed to Make.
  void Segment(const Vocabulary& vocabulary, std::string_view word, std::vector<TokenId>* symbols,
               TokenList* ids) const;
  /// Bytes of the longest token, or TokenList::kUnknown.
  int64_t longest_token() const { return longest_token_; }

 private:
  explicit ByteSegmenter(MergeTable merges) : merges_(std::move(merges)) {}

  MergeTable merges_;
  bool ignore_merges_ = false;
  std::array<TokenId, 256> byte_ids_{};  // the unknown token for bytes without one; -1: such bytes are dropped
  int64_t longest_token_ = TokenList::kUnknown;
};

}  // namespace ringside
