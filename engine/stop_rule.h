// When an answer ends: stop strings matched on the text across token borders and never shown, stop token ids, end of
// turn. Holds back the longest tail that could still become a stop string. One per answer; one thread at a time.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/tokenizer.h"

namespace ringside {

class StopRule {
 public:
  StopRule(std::vector<std::string> strings, std::vector<TokenId> ids, int64_t min_tokens = 0);

  struct Verdict {
    std::string text;      // may be shown now
    bool stop = false;     // the answer ends here
    std::string matched;   // the stop string that ended it; "" for an id
  };
  /// Takes the next token and the text it completed. A stop id's own text is not shown.
  Verdict Push(TokenId id, std::string text);
  /// The answer ended for another reason: what was held back.
  std::string Finish();

 private:
  std::vector<std::string> strings_;
  std::vector<TokenId> ids_;
  int64_t min_tokens_;
  int64_t tokens_ = 0;
  std::string held_;
};

}  // namespace ringside
