// When an answer ends: stop strings matched on the text across token borders and never shown, stop token ids, end of
// turn. Holds back the longest tail that could still become a stop string. One per answer; one thread at a time.
//
// The match that ends the answer is the first to be complete in the text, byte by byte; of those complete at the same
// byte, the longest. So how the text is cut into tokens never matters. Under min_tokens ids do not stop, and strings
// that are complete before token number min_tokens do not either.
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
  /// Empty strings never match. `min_tokens`: the answer has at least that many tokens.
  StopRule(std::vector<std::string> strings, std::vector<TokenId> ids, int64_t min_tokens = 0);

  struct Verdict {
    std::string text;     // may be shown now
    bool stop = false;    // the answer ends here
    std::string matched;  // the stop string that ended it; "" for an id
  };
  /// Takes the next token and the text it completed. A stop id's own text is not shown.
  Verdict Push(TokenId id, std::string text);
  /// The answer ended for another reason: what was held back.
  std::string Finish();

 private:
  // One stop string and how much of it the text so far ends with (Knuth, Morris, Pratt).
  struct Pattern {
    std::string text;
    std::vector<size_t> border;  // [i]: the longest proper prefix of text[0..i] that is also its suffix
    size_t matched = 0;

    explicit Pattern(std::string pattern);
    /// Takes one byte; true if the pattern is complete with it.
    bool Advance(char byte);
  };

  std::vector<Pattern> patterns_;
  std::vector<TokenId> ids_;
  int64_t min_tokens_;
  int64_t tokens_ = 0;
  std::string held_;
};

}  // namespace ringside
