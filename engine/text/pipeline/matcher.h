// Searches a text for all matches of a step's pattern. Owned by a tokenizer; immutable after Make, any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/text/pipeline/function_ref.h"
#include "engine/text/pipeline/steps.h"

namespace ringside {

class TextMatcher {
 public:
  /// What the matches of one thread need; one for all matchers and texts of a call.
  class Scratch {
   public:
    Scratch();
    ~Scratch();

   private:
    friend class TextMatcher;
    struct Parts;
    std::unique_ptr<Parts> parts_;
  };

  /// kInvalidArgument, with the place, for a regular expression that PCRE2 does not take.
  static Result<TextMatcher> Make(const TextPattern& pattern);

  TextMatcher(TextMatcher&&) noexcept;
  TextMatcher& operator=(TextMatcher&&) noexcept;
  ~TextMatcher();

  /// What becomes of the match [begin, end), which may be empty; false ends the search.
  using OnMatch = FunctionRef<bool(size_t begin, size_t end)>;
  /// Gives the matches in `text` (well-formed UTF-8), from left to right, none overlapping; an empty one never at the
  /// end of the one before. False if `on_match` ended it. Linear for the patterns of the known models; where a match
  /// meets PCRE2's limits, the rest of the text has none.
  bool ForEach(std::string_view text, Scratch& scratch, OnMatch on_match) const;

 private:
  struct Code;
  TextMatcher(std::string literal, std::unique_ptr<Code> code);
  bool ForEachRegex(std::string_view text, Scratch& scratch, OnMatch on_match) const;

  std::string literal_;         // not empty: this is searched for
  std::unique_ptr<Code> code_;  // otherwise
};

}  // namespace ringside
