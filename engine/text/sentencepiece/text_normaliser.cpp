#include "engine/text/sentencepiece/text_normaliser.h"

#include <algorithm>

#include "engine/text/unicode.h"

namespace ringside {
namespace {

// As SentencePiece: a U+2581 at the end counts as a space.
void TrimSpaces(bool front, bool back, std::string* text) {
  if (front) text->erase(0, std::min(text->find_first_not_of(' '), text->size()));
  while (back) {
    if (text->ends_with(' ')) {
      text->pop_back();
    } else if (text->ends_with(kLowerOneEighthBlock)) {
      text->resize(text->size() - kLowerOneEighthBlock.size());
    } else {
      break;
    }
  }
}

}  // namespace

Result<TextNormaliser> TextNormaliser::Make(const TokenizerData& data) {
  TextNormaliser normaliser;
  normaliser.white_space_ = data.white_space;
  ASSIGN_OR_RETURN(normaliser.charsmap_, Charsmap::Make(data.charsmap));
  return normaliser;
}

std::string TextNormaliser::Apply(std::string_view text, bool first, bool last) const {
  std::string out = charsmap_.Apply(text);
  TrimSpaces(white_space_.trim_front && first, white_space_.trim_back && last, &out);
  if (white_space_.collapse) {
    const auto extra = std::ranges::unique(out, [](char a, char b) { return a == ' ' && b == ' '; });
    out.erase(extra.begin(), extra.end());
  }
  return out;
}

}  // namespace ringside
