// The ids of a text during tokenization, up to a limit. One per Encode. THREAD: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/request_watch.h"
#include "engine/text/tokenizer.h"

namespace ringside {

class TokenList {
 public:
  /// No bound on the bytes of a token: some bytes are dropped, or many bytes may yield one token.
  static constexpr int64_t kUnknown = 0;

  /// `longest_token`: maximum number of bytes of a token.
  TokenList(int64_t max_tokens, int64_t longest_token) : max_tokens_(max_tokens), longest_token_(longest_token) {}

  void Add(TokenId id) { ids_.push_back(id); }
  void Add(std::span<const TokenId> ids) { ids_.insert(ids_.end(), ids.begin(), ids.end()); }

  /// False if `text` cannot fit after the current ids, or the client of this thread's request has left. Once false, or
  /// over the limit, the list is full for good, and Take returns nullopt.
  bool HasRoomFor(std::string_view text) {
    if (++texts_ % kTextsBetweenLooks == 0) full_ = full_ || RequestWatch::ClientLeft();
    const int64_t room = max_tokens_ - static_cast<int64_t>(ids_.size());
    const bool fits = longest_token_ == kUnknown || static_cast<int64_t>(text.size()) / longest_token_ <= room;
    full_ = full_ || room < 0 || !fits;
    return !full_;
  }
  std::optional<std::vector<TokenId>> Take() { return HasRoomFor({}) ? std::optional(std::move(ids_)) : std::nullopt; }

 private:
  static constexpr int64_t kTextsBetweenLooks = 4096;  // words: about a millisecond

  const int64_t max_tokens_, longest_token_;
  int64_t texts_ = 0;
  std::vector<TokenId> ids_;
  bool full_ = false;
};

}  // namespace ringside
