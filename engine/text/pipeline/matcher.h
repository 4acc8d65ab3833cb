// Finds all matches of a step's pattern in a text. Owned by a tokenizer; immutable after Make. THREAD: any.
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
  /// Match state of one thread; one for all matchers and texts of a call.
  class Scratch {
   public:
    Scratch();
    ~Scratch();

   private:
    friend class TextMatcher;
    struct Parts;
    std::unique_ptr<Parts> parts_;
  };

  /// ERRORS: kInvalidArgument, with the position, for a regular expression that PCRE2 rejects.
  static Result<TextMatcher> Make(const TextPattern& pattern);

  TextMatcher(TextMatcher&&) noexcept;
  TextMatcher& operator=(TextMatcher&&) noexcept;
  ~TextMatcher();

  /// Called for the match [begin, end), which may be empty; false stops the search.
  using OnMatch = FunctionRef<bool(size_t begin, size_t end)>;
  /// Calls `on_match` for the matches in `text` (well-formed UTF-8), from left to right, without overlap; never an
  /// empty match at the end of the previous one. False if `on_match` stopped it. Linear for the patterns of known
  /// models; if a match exceeds PCRE2's limits, the rest of the text has none.
  bool ForEach(std::string_view text, Scratch& scratch, OnMatch on_match) const;

 private:
  struct Code;
  TextMatcher(std::string literal, std::unique_ptr<Code> code);
  bool ForEachRegex(std::string_view text, Scratch& scratch, OnMatch on_match) const;

  std::string literal_;         // if not empty, a literal search
  std::unique_ptr<Code> code_;  // otherwise, the compiled pattern
};

}  // namespace ringside
