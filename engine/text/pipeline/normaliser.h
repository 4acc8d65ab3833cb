// Prepares a text before it is cut into words. Owned by a tokenizer; immutable after Make, any thread.
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
  /// kInvalidArgument for a pattern or a charsmap that is none.
  static Result<Normaliser> Make(std::span<const NormaliserStep> steps);

  bool empty() const { return steps_.empty(); }
  /// `text` (well-formed UTF-8) after all steps, one after another.
  std::string Apply(std::string text, TextMatcher::Scratch& scratch) const;

 private:
  struct Step {
    NormaliserStep step;
    std::vector<TextMatcher> matcher;  // one, of a replacement
    Charsmap charsmap;
  };
  static std::string Apply(const Step& step, std::string text, TextMatcher::Scratch& scratch);

  std::vector<Step> steps_;
};

}  // namespace ringside
