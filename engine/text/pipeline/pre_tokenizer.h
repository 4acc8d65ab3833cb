// Cuts a text into the words that a model of tokens never joins. Owned by a tokenizer; immutable after Make, any
// thread.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/text/pipeline/matcher.h"
#include "engine/text/pipeline/steps.h"

namespace ringside {

class PreTokenizer {
 public:
  /// kInvalidArgument for a pattern that is none. `to_bytes`: the model wants a word's bytes, so the change into
  /// characters of GPT-2's alphabet is undone, or left out where it is the last step. `spelled`: texts arrive in it.
  static Result<PreTokenizer> Make(std::span<const PreTokenizerStep> steps, bool to_bytes, bool spelled);

  /// What becomes of a word, never empty; false ends the splitting.
  using TakeWord = FunctionRef<bool(std::string_view word)>;
  /// Gives the words of `text` (well-formed UTF-8) to `take`, in order. `first`: nothing precedes the text. False if
  /// `take` ended it.
  bool Split(std::string_view text, bool first, TextMatcher::Scratch& scratch, TakeWord take) const;
  /// True if the words together hold every byte of a text.
  bool keeps_all() const { return keeps_all_; }

 private:
  struct Step {
    PreTokenizerStep step;
    std::vector<TextMatcher> matcher;  // one, of a split
  };
  struct Word {
    std::string_view text;
    bool first;
  };
  struct Run {
    TextMatcher::Scratch& scratch;
    TakeWord take;
  };
  bool From(size_t step, Word word, const Run& run) const;
  bool SplitAt(size_t step, const TextMatcher& matcher, PreTokenizerStep::Behaviour behaviour, bool invert, Word word,
               const Run& run) const;
  bool Metaspace(size_t step, Word word, const Run& run) const;

  std::vector<Step> steps_;
  bool spelled_ = false;  // the words arrive in GPT-2's alphabet and are wanted as bytes
  bool keeps_all_ = true;
};

}  // namespace ringside
