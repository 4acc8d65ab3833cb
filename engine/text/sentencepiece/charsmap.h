// SentencePiece's compiled normalization rules (Kudo and Richardson 2018, 3.5: string replacements, often NFKC plus
// more) as stored in model files: a double-array trie of the strings, then the replacements. Hostile input. Owned by a
// tokenizer; immutable after Make. THREAD: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ringside {

class Charsmap {
 public:
  /// No rules.
  Charsmap() = default;
  /// ERRORS: kInvalidArgument, with the reason, for malformed rules, or rules that lengthen a text too much.
  static Result<Charsmap> Make(std::string_view bytes);

  /// Applies the longest matching rule at each place of `text` (well-formed UTF-8), as SentencePiece does.
  std::string Apply(std::string_view text) const;
  /// As the `tokenizers` library does: a grapheme of fewer than 6 bytes that starts with a rule's string is replaced as
  /// a whole, by the shortest such rule; otherwise rules apply to each character.
  std::string ApplyToGraphemes(std::string_view text) const;

 private:
  struct Rule {
    size_t length;  // bytes of the matched string
    std::string_view replacement;
  };
  // The longest or the shortest rule that matches at the start of `text`.
  std::optional<Rule> Find(std::string_view text, bool longest) const;
  void AppendGrapheme(std::string_view grapheme, std::string* out) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // each NUL-terminated
};

}  // namespace ringside
