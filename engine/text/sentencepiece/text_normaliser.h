// How SentencePiece prepares text before it is cut into pieces: by the model's rules, then its white space. Owned by a
// tokenizer; immutable after Make, any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/text/sentencepiece/charsmap.h"
#include "engine/text/tokenizer.h"

namespace ringside {

class TextNormaliser {
 public:
  /// kInvalidArgument for rules that are none.
  static Result<TextNormaliser> Make(const TokenizerData& data);

  /// Of a run of text (well-formed UTF-8). `first`, `last`: nothing stands before or behind it that SentencePiece would
  /// have read together with it.
  std::string Apply(std::string_view text, bool first, bool last) const;

 private:
  TokenizerData::WhiteSpace white_space_;
  Charsmap charsmap_;
};

}  // namespace ringside
