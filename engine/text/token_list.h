// The ids of a text that is being tokenised, up to a limit. One per Encode; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/tokenizer.h"

namespace ringside {

class TokenList {
 public:
  /// Nothing is known of how many bytes a token can stand for: some vanish from the ids, or many give one.
  static constexpr int64_t kUnknown = 0;

  /// `longest_token`: the most bytes that one token can stand for.
  TokenList(int64_t max_tokens, int64_t longest_token) : max_tokens_(max_tokens), longest_token_(longest_token) {}

  void Add(TokenId id) { ids_.push_back(id); }
  void Add(std::span<const TokenId> ids) { ids_.insert(ids_.end(), ids.begin(), ids.end()); }

  /// False if `text` cannot fit behind what is there. Then, and if there is too much already, the list is full for
  /// good: Take gives nothing.
  bool HasRoomFor(std::string_view text) {
    const int64_t room = max_tokens_ - static_cast<int64_t>(ids_.size());
    const bool fits = longest_token_ == kUnknown || static_cast<int64_t>(text.size()) / longest_token_ <= room;
    full_ = full_ || room < 0 || !fits;
    return !full_;
  }
  std::optional<std::vector<TokenId>> Take() { return HasRoomFor({}) ? std::optional(std::move(ids_)) : std::nullopt; }

 private:
  const int64_t max_tokens_, longest_token_;
  std::vector<TokenId> ids_;
  bool full_ = false;
};

}  // namespace ringside
