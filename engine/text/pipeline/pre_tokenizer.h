// Splits a text into words, across which no token extends. Owned by a tokenizer; immutable after Make. THREAD: any.
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
  /// `to_bytes`: the model needs a word's bytes, so the mapping to the byte-level alphabet is undone, or skipped if it
  /// is the last step. `spelled`: the input is in that alphabet. ERRORS: kInvalidArgument for a malformed pattern.
  static Result<PreTokenizer> Make(std::span<const PreTokenizerStep> steps, bool to_bytes, bool spelled);

  /// Called for each word, never empty; false stops the splitting.
  using OnWord = FunctionRef<bool(std::string_view word)>;
  /// Calls `take` for the words of `text` (well-formed UTF-8), in order. `first`: nothing precedes the text. False if
  /// `take` stopped it.
  bool Split(std::string_view text, bool first, TextMatcher::Scratch& scratch, OnWord take) const;
  /// True if the words together contain every byte of a text.
  bool keeps_all() const { return keeps_all_; }

 private:
  struct Step {
    PreTokenizerStep step;
    std::vector<TextMatcher> matcher;  // one, for kSplit
  };
  struct Word {
    std::string_view text;
    bool first;
  };
  struct Run {
    TextMatcher::Scratch& scratch;
    OnWord take;
  };
  bool From(size_t step, Word word, const Run& run) const;
  bool SplitAt(size_t step, const TextMatcher& matcher, PreTokenizerStep::Behaviour behaviour, bool invert, Word word,
               const Run& run) const;
  bool Metaspace(size_t step, Word word, const Run& run) const;
  bool SplitAtScripts(size_t step, Word word, const Run& run) const;

  std::vector<Step> steps_;
  bool spelled_ = false;  // words arrive in the byte-level alphabet and must become bytes
  bool keeps_all_ = true;
};

}  // namespace ringside
