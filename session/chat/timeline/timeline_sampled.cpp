// Sampled ids in a conversation that is rendered as a whole.
#include <algorithm>

#include "session/chat/timeline/timeline.h"

namespace ringside {
namespace {

std::string_view Spelled(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.IsSpecial(id) ? tokenizer.TokenName(id) : tokenizer.TokenBytes(id);
}

/// Number of leading ids of `made` that spell the same text as all of `sampled`; 0 if there is none.
size_t SameText(const Tokenizer& tokenizer, std::span<const TokenId> sampled, std::span<const TokenId> made) {
  std::string text;
  for (const TokenId id : sampled) text += Spelled(tokenizer, id);
  std::string_view rest = text;
  for (size_t i = 0; i < made.size() && !rest.empty(); ++i) {
    const std::string_view spelled = Spelled(tokenizer, made[i]);
    if (!rest.starts_with(spelled)) return 0;
    rest.remove_prefix(spelled.size());
    if (rest.empty()) return i + 1;
  }
  return 0;
}

}  // namespace

void Timeline::KeepSampled(const Tokenizer& tokenizer, WholeEncoding* anew) const {
  const std::vector<TokenId> made = std::move(anew->ids);
  std::vector<TokenId>& ids = anew->ids;
  ids.clear();
  size_t from = 0, agreed = 0;  // from: ids of `made` copied; agreed: common prefix of `ids` and tokens_
  const auto copy_to = [&](size_t end) {
    ids.insert(ids.end(), made.begin() + static_cast<ptrdiff_t>(from), made.begin() + static_cast<ptrdiff_t>(end));
    from = end;
    while (agreed < ids.size() && agreed < tokens_.size() && ids[agreed] == tokens_[agreed]) ++agreed;
  };
  anew->sampled.assign(anew->starts.size(), false);
  for (size_t message = 0; message < anew->starts.size(); ++message) {
    copy_to(static_cast<size_t>(anew->starts[message]));
    anew->starts[message] = std::ssize(ids);
    const size_t i = anew->left_out + message;
    if (i >= items_.size() || !items_[i].sampled || items_[i].token_begin != std::ssize(ids) || agreed < ids.size()) {
      continue;
    }
    const auto begin = static_cast<size_t>(items_[i].token_begin), end = static_cast<size_t>(items_[i].token_end);
    const size_t next =
        message + 1 < anew->starts.size() ? static_cast<size_t>(anew->starts[message + 1]) : made.size();
    std::vector<TokenId> sampled = tokens_.From(begin);
    sampled.resize(end - begin);
    const size_t same = SameText(tokenizer, sampled, std::span(made).subspan(from, next - from));
    if (same == 0) continue;
    anew->sampled[message] = true;
    ids.insert(ids.end(), sampled.begin(), sampled.end());
    agreed = ids.size();
    from += same;
  }
  copy_to(made.size());
}

}  // namespace ringside
