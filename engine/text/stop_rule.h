// Decides when an answer ends: stop strings, matched on the text across token boundaries and never shown; stop token
// ids; end of turn. Holds back the longest suffix that could still become a stop string. One per answer. THREAD: one at
// a time.
//
// The answer ends at the first match that is complete in the text, byte by byte; among matches complete at the same
// byte, the longest wins. The result is thus independent of the tokenization. Before token number min_tokens, neither
// ids nor complete strings end the answer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"

namespace ringside {

class StopRule {
 public:
  /// Ignores empty strings. `min_tokens`: minimum length of the answer in tokens.
  StopRule(std::vector<std::string> strings, std::vector<TokenId> ids, int64_t min_tokens = 0);

  struct Verdict {
    std::string text;     // safe to show now
    bool stop = false;    // the answer ends here
    std::string matched;  // the stop string that ended it; "" for an id
  };
  /// Processes the next token and the text it completed. The text of a stop id is not shown.
  Verdict Push(TokenId id, std::string text);
  /// The answer ended for another reason: returns the held-back text.
  std::string Finish();

 private:
  // One stop string and its current partial match (Knuth, Morris, Pratt).
  struct Pattern {
    std::string text;
    std::vector<size_t> border;  // [i]: length of the longest proper prefix of text[0..i] that is also its suffix
    size_t matched = 0;

    explicit Pattern(std::string pattern);
    /// Processes one byte; true if it completes the pattern.
    bool Advance(char byte);
  };

  std::vector<Pattern> patterns_;
  std::vector<TokenId> ids_;
  int64_t min_tokens_;
  int64_t tokens_ = 0;
  std::string held_;
};

}  // namespace ringside
