#include "engine/text/score_merges.h"

#include <algorithm>
#include <cmath>

#include "engine/text/unicode.h"

namespace ringside {

using TokenType = TokenizerData::TokenType;

SymbolTable::SymbolTable(const Vocabulary& vocabulary) : next_(static_cast<TokenId>(vocabulary.size())) {
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const TokenType type = vocabulary.type(id);
    const std::string_view name = vocabulary.Name(id);
    if (type != TokenType::kNormal && type != TokenType::kUserDefined) continue;
    if (name.empty() || ToValidUtf8(name) != name) continue;
    if (!by_name_.emplace(name, id).second) continue;
    const CodePoint c = FirstCodePoint(name);
    if (c.length == name.size()) characters_.emplace(c.value, id);
  }
}

TokenId SymbolTable::Find(std::string_view name, bool make) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) return found->second;
  const CodePoint c = FirstCodePoint(name);
  if (c.length != name.size()) return -1;
  if (const auto found = characters_.find(c.value); found != characters_.end()) return found->second;
  if (!make) return -1;
  characters_.emplace(c.value, next_);
  return next_++;
}

Result<MergeTable> MakeMergeTable(const Vocabulary& vocabulary, const TokenizerData& data) {
  std::unordered_map<std::string_view, TokenId> by_name;
  by_name.reserve(static_cast<size_t>(vocabulary.size()));
  for (TokenId id = 0; id < vocabulary.size(); ++id) by_name.emplace(vocabulary.Name(id), id);
  MergeTable table(data.merges.size());
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const auto& [left, right] = data.merges[rank];
    const auto find = [&](const std::string& name) {
      const auto found = by_name.find(name);
      return found == by_name.end() ? TokenId{-1} : found->second;
    };
    const TokenId ids[3] = {find(left), find(right), find(left + right)};
    for (const TokenId id : ids) {
      if (id < 0) {
        return InvalidArgument("tokenizer: merge " + std::to_string(rank) + " ('" + left + "' + '" + right +
                               "') names or makes no token");
      }
    }
    if (vocabulary.IsSpecial(ids[0]) || vocabulary.IsSpecial(ids[1]) || vocabulary.IsSpecial(ids[2])) continue;
    if (left.empty() || right.empty()) continue;  // no text produces such a token
    table.Add(ids[0], ids[1], {static_cast<uint32_t>(rank), ids[2]}, LastCodePoint(left).value,
              FirstCodePoint(right).value);
  }
  return table;
}

Result<MergeTable> MergesByScore(const Vocabulary& vocabulary, const std::vector<double>& scores,
                                 SymbolTable* symbols) {
  if (scores.size() != static_cast<size_t>(vocabulary.size())) {
    return InvalidArgument("tokenizer: " + std::to_string(scores.size()) + " scores for " +
                           std::to_string(vocabulary.size()) + " tokens");
  }
  std::vector<double> order;
  for (const double score : scores) {
    if (std::isnan(score)) return InvalidArgument("tokenizer: a score is not a number");
    order.push_back(score);
  }
  std::ranges::sort(order, std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  MergeTable table(static_cast<size_t>(vocabulary.size()) * 4);
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string_view name = vocabulary.Name(id);
    const auto listed = symbols->tokens().find(name);
    if (listed == symbols->tokens().end() || listed->second != id) continue;
    const auto rank =
        std::ranges::lower_bound(order, scores[static_cast<size_t>(id)], std::greater<>()) - order.begin();
    for (size_t cut = FirstCodePoint(name).length; cut < name.size(); cut += FirstCodePoint(name.substr(cut)).length) {
      const TokenId left = symbols->Find(name.substr(0, cut), false), right = symbols->Find(name.substr(cut), false);
      const bool left_character = cut == FirstCodePoint(name).length;
      const bool right_character = FirstCodePoint(name.substr(cut)).length == name.size() - cut;
      if ((left < 0 && !left_character) || (right < 0 && !right_character)) continue;
      table.Add(symbols->Find(name.substr(0, cut), true), symbols->Find(name.substr(cut), true),
                {static_cast<uint32_t>(rank), id}, LastCodePoint(name.substr(0, cut)).value,
                FirstCodePoint(name.substr(cut)).value);
    }
  }
  return table;
}

}  // namespace ringside
