// Finds tokens in a text by their spelling: leftmost-longest, with the flags of tokenizer.json. Owned by a tokenizer;
// immutable once filled. THREAD: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/byte_tree.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// A token, or a run of text without one (`token` < 0, `text` not empty, well-formed UTF-8).
struct TokenRun {
  TokenId token = -1;
  std::string text;
};

class AddedTokens {
 public:
  /// The first of equal spellings wins.
  void Add(const TokenizerData::AddedToken& token, std::string_view spelling);
  /// Keeps this spelling, and any token inside it, as text.
  void Pass(std::string_view spelling) { Add({.id = -1}, spelling); }
  bool empty() const { return tokens_.empty(); }

  /// Splits `text` (well-formed UTF-8) at the tokens in it. `after_word`, `before_word`: a word character precedes or
  /// follows the text.
  void Cut(std::string_view text, bool after_word, bool before_word, std::vector<TokenRun>* runs) const;

  struct Match {
    size_t begin = 0, end = 0;
    const TokenizerData::AddedToken* token = nullptr;
  };
  /// The next match at or after `from`, whatever its flags.
  std::optional<Match> FindFirst(std::string_view text, size_t from) const;
  /// False for a spelling kept as text, and for a `single_word` token inside a longer word. `text`: any bytes.
  static bool IsWhole(const Match& match, std::string_view text, bool after_word, bool before_word);

 private:
  ByteTree tree_;  // values are indices into `tokens_`
  std::vector<TokenizerData::AddedToken> tokens_;
};

}  // namespace ringside
