// SentencePiece's normalization: the model's rules, then white space. Owned by a tokenizer; immutable after Make.
// THREAD: any.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/text/sentencepiece/charsmap.h"
#include "engine/text/tokenizer.h"

namespace ringside {

class TextNormaliser {
 public:
  /// ERRORS: kInvalidArgument for malformed rules.
  static Result<TextNormaliser> Make(const TokenizerData& data);

  /// Normalizes a run of text (well-formed UTF-8). `first`, `last`: no text before or after it that SentencePiece would
  /// have normalized together with it.
  std::string Apply(std::string_view text, bool first, bool last) const;

 private:
  TokenizerData::WhiteSpace white_space_;
  Charsmap charsmap_;
};

}  // namespace ringside
