// Normalizes a text before pre-tokenization. Owned by a tokenizer; immutable after Make. THREAD: any.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/text/pipeline/matcher.h"
#include "engine/text/pipeline/steps.h"
#include "engine/text/sentencepiece/charsmap.h"

namespace ringside {

class Normaliser {
 public:
  /// ERRORS: kInvalidArgument for a malformed pattern or charsmap.
  static Result<Normaliser> Make(std::span<const NormaliserStep> steps);

  bool empty() const { return steps_.empty(); }
  /// Applies all steps in order to `text` (well-formed UTF-8).
  std::string Apply(std::string text, TextMatcher::Scratch& scratch) const;

 private:
  struct Step {
    NormaliserStep step;
    std::vector<TextMatcher> matcher;  // one, for kReplace
    Charsmap charsmap;
  };
  static std::string Apply(const Step& step, std::string text, TextMatcher::Scratch& scratch);

  std::vector<Step> steps_;
};

}  // namespace ringside
