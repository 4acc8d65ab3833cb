#include "engine/grammar/token_trie.h"

#include <algorithm>

namespace ringside {

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  std::ranges::sort(entries);
  std::vector<uint32_t> path;  // nodes along the last entry's bytes
  std::string_view last;
  for (const auto& [bytes, id] : entries) {
    size_t common = 0;
    while (common < last.size() && common < bytes.size() && last[common] == bytes[common]) ++common;
    while (path.size() > common) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
    }
    for (size_t i = common; i < bytes.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back(
          {static_cast<uint8_t>(bytes[i]), static_cast<uint16_t>(i), 0, static_cast<uint32_t>(tokens_.size())});
    }
    tokens_.push_back(id);
    last = bytes;
    depth_ = std::max(depth_, bytes.size());
  }
  for (const uint32_t node : path) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({.first_token = static_cast<uint32_t>(tokens_.size())});
}

GrammarVocabulary::GrammarVocabulary(const Tokenizer& text)
    : tokenizer(text), strips_first(text.strips_leading_space()) {
  std::vector<TokenTrie::Entry> entries, first;
  for (TokenId id = 0; id < text.vocab_size(); ++id) {
    std::string_view bytes = text.TokenBytes(id);
    if (bytes.empty()) continue;
    entries.emplace_back(bytes, id);
    if (bytes.front() == ' ') bytes.remove_prefix(1);
    if (!bytes.empty()) first.emplace_back(bytes, id);
  }
  tokens = TokenTrie(std::move(entries));
  if (strips_first) first_tokens = TokenTrie(std::move(first));
}

}  // namespace ringside
