// Cuts text into the words that byte-pair merges never cross, by the regular expressions of the model's pre-tokenizer.
// Owned by a tokenizer; immutable after Make, any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ringside {

class TextSplitter {
 public:
  /// `patterns` are applied one after another, each to every word that the one before left; a match becomes a word, and
  /// so does what lies between two matches. \s and \S mean Unicode's White_Space. kInvalidArgument, with the place, for
  /// a pattern that PCRE2 does not take.
  static Result<TextSplitter> Make(const std::vector<std::string>& patterns);

  TextSplitter(TextSplitter&&) noexcept;
  TextSplitter& operator=(TextSplitter&&) noexcept;
  ~TextSplitter();

  /// What becomes of a word; false ends the splitting.
  using TakeWord = std::function<bool(std::string_view word)>;
  /// Gives the words of `text` (well-formed UTF-8) to `take`, as views into it, in order and without a gap. False if
  /// `take` ended it. Linear for the patterns of the known models; where a match meets PCRE2's limits, the rest of the
  /// text is left uncut.
  bool Split(std::string_view text, const TakeWord& take) const;

 private:
  struct Pattern;
  struct Scratch;
  bool SplitFrom(size_t pattern, std::string_view text, Scratch& scratch, const TakeWord& take) const;
  explicit TextSplitter(std::vector<Pattern> patterns);
  std::vector<Pattern> patterns_;
};

/// The patterns of known pre-tokenizers.
namespace split_patterns {
extern const char kGpt2[];
extern const char kLlama3[];
extern const char kQwen2[];
extern const char kTekken[];       // Mistral NeMo
extern const char kO200k[];        // GPT-4o, gpt-oss
extern const char kSingleDigit[];  // one digit of any script
extern const char kDigits[];       // a run of digits
}  // namespace split_patterns

}  // namespace ringside
