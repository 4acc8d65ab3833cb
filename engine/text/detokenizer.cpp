#include "engine/text/detokenizer.h"

#include "engine/text/unicode.h"

namespace ringside {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool at_start)
    : tokenizer_(tokenizer), at_start_(at_start && tokenizer.strips_leading_space()) {}

std::string Detokenizer::Push(TokenId id) {
  std::string_view bytes = tokenizer_.TokenBytes(id);
  if (at_start_ && !bytes.empty()) {
    if (bytes.front() == ' ') bytes.remove_prefix(1);
    at_start_ = false;
  }
  pending_ += bytes;
  std::string text;
  pending_.erase(0, DecodeUtf8(pending_, /*final=*/false, &text));
  return text;
}

std::string Detokenizer::Finish() {
  std::string text;
  DecodeUtf8(pending_, /*final=*/true, &text);
  pending_.clear();
  return text;
}

}  // namespace ringside
