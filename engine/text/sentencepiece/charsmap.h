// SentencePiece's compiled normalisation rules (Kudo and Richardson 2018, 3.5: which strings become which, often NFKC
// and more) as model files hold them: a double-array trie of the strings, then what they become. Read as hostile input.
// Owned by a tokenizer; immutable after Make, any thread.
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
  /// Of no rules.
  Charsmap() = default;
  /// kInvalidArgument, saying what is wrong, for bytes that are no such rules, or rules that make texts much longer.
  static Result<Charsmap> Make(std::string_view bytes);

  /// `text` (well-formed UTF-8) with the longest rule applied at each place, as SentencePiece does it.
  std::string Apply(std::string_view text) const;
  /// As the library `tokenizers` does it: a grapheme of fewer than 6 bytes that begins like a rule becomes what the
  /// shortest such rule says, all of it; else each character does.
  std::string ApplyToGraphemes(std::string_view text) const;

 private:
  struct Rule {
    size_t length;  // of the string in the text, bytes
    std::string_view replacement;
  };
  // The longest or the shortest rule that `text` begins with.
  std::optional<Rule> Find(std::string_view text, bool longest) const;
  void AppendGrapheme(std::string_view grapheme, std::string* out) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends in NUL
};

}  // namespace ringside
