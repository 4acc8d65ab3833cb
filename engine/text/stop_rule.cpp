#include "engine/text/stop_rule.h"

#include <algorithm>
#include <utility>

namespace ringside {

StopRule::Pattern::Pattern(std::string pattern) : text(std::move(pattern)), border(text.size(), 0) {
  size_t k = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (k > 0 && text[i] != text[k]) k = border[k - 1];
    if (text[i] == text[k]) ++k;
    border[i] = k;
  }
}

bool StopRule::Pattern::Advance(char byte) {
  if (matched == text.size()) matched = border[matched - 1];  // complete before, and not accepted
  while (matched > 0 && text[matched] != byte) matched = border[matched - 1];
  if (text[matched] == byte) ++matched;
  return matched == text.size();
}

StopRule::StopRule(std::vector<std::string> strings, std::vector<TokenId> ids, int64_t min_tokens)
    : ids_(std::move(ids)), min_tokens_(min_tokens) {
  for (std::string& string : strings) {
    if (!string.empty()) patterns_.emplace_back(std::move(string));
  }
}

StopRule::Verdict StopRule::Push(TokenId id, std::string text) {
  if (tokens_ >= min_tokens_ && std::find(ids_.begin(), ids_.end(), id) != ids_.end()) {
    return {.text = std::exchange(held_, {}), .stop = true, .matched = {}};
  }
  ++tokens_;
  const size_t old = held_.size();
  held_ += text;
  for (size_t i = old; i < held_.size(); ++i) {
    const Pattern* ended = nullptr;
    for (Pattern& pattern : patterns_) {
      if (!pattern.Advance(held_[i]) || tokens_ < min_tokens_) continue;
      if (ended == nullptr || pattern.text.size() > ended->text.size()) ended = &pattern;
    }
    if (ended != nullptr) {
      // All partial matches are held back, so the whole match is in held_.
      Verdict verdict{.text = held_.substr(0, i + 1 - ended->text.size()), .stop = true, .matched = ended->text};
      held_.clear();
      return verdict;
    }
  }
  size_t keep = 0;
  for (const Pattern& pattern : patterns_) {
    const bool whole = pattern.matched == pattern.text.size();
    keep = std::max(keep, whole ? pattern.border.back() : pattern.matched);
  }
  Verdict verdict{.text = held_.substr(0, held_.size() - keep)};
  held_.erase(0, held_.size() - keep);
  return verdict;
}

std::string StopRule::Finish() { return std::exchange(held_, {}); }

}  // namespace ringside
