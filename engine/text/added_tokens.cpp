#include "engine/text/added_tokens.h"

#include <algorithm>

#include "engine/text/unicode.h"
#include "engine/text/unicode_case.h"

namespace ringside {

void AddedTokens::Add(const TokenizerData::AddedToken& token, std::string_view spelling) {
  tree_.Add(spelling, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
}

std::optional<AddedTokens::Match> AddedTokens::FindFirst(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    std::optional<Match> longest;
    uint32_t node = ByteTree::kRoot;
    for (size_t i = begin; i < text.size() && (node = tree_.Step(node, text[i])) != ByteTree::kRoot; ++i) {
      const int32_t value = tree_.Value(node);
      if (value >= 0) longest = Match{begin, i + 1, &tokens_[static_cast<size_t>(value)]};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

bool AddedTokens::IsWhole(const Match& match, std::string_view text, bool after_word, bool before_word) {
  if (!match.token->single_word) return match.token->id >= 0;
  const bool word_before = match.begin == 0 ? after_word : EndsWithWord(text.substr(0, match.begin));
  const bool word_behind = match.end == text.size() ? before_word : BeginsWithWord(text.substr(match.end));
  return !word_before && !word_behind;
}

void AddedTokens::Cut(std::string_view text, bool after_word, bool before_word, std::vector<TokenRun>* runs) const {
  size_t done = 0;
  size_t from = 0;
  while (const auto match = tokens_.empty() ? std::nullopt : FindFirst(text, from)) {
    from = match->end;
    if (!IsWhole(*match, text, after_word, before_word)) continue;
    size_t begin = match->begin, end = match->end;
    if (match->token->strip_left) {
      while (begin > done) {
        const CodePoint c = LastCodePoint(text.substr(0, begin));
        if (!IsUnicodeSpace(c.value)) break;
        begin -= c.length;
      }
      begin = std::max(begin, done);
    }
    while (match->token->strip_right && end < text.size()) {
      const CodePoint c = FirstCodePoint(text.substr(end));
      if (!IsUnicodeSpace(c.value)) break;
      end += c.length;
    }
    if (done < begin) runs->push_back({-1, std::string(text.substr(done, begin - done))});
    runs->push_back({match->token->id, ""});
    done = end;
  }
  if (done < text.size()) runs->push_back({-1, std::string(text.substr(done))});
}

}  // namespace ringside
