#include "session/history_text.h"

namespace ringside {
namespace {

// No byte of UTF-8: what stands behind it is no text.
constexpr char kTokens = '\xFE', kMessageEnd = '\xFF';

}  // namespace

void AppendMessage(ChatRole role, std::string_view text, std::string* history) {
  history->push_back(static_cast<char>('0' + static_cast<int>(role)));
  history->append(text);
  history->push_back(kMessageEnd);
}

std::string HistoryText(std::span<const TokenId> tokens) {
  std::string history(1, kTokens);
  history.reserve(1 + tokens.size() * sizeof(TokenId));
  for (const TokenId token : tokens) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      history.push_back(static_cast<char>(static_cast<uint32_t>(token) >> shift & 0xFF));
    }
  }
  return history;
}

std::string HistoryText(const TurnSpec& spec) {
  if (spec.raw) return HistoryText(spec.raw->tokens);
  std::string history;
  for (const NewItem& item : spec.input) AppendMessage(item.role, item.text, &history);
  return history;
}

}  // namespace ringside
