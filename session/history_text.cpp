#include "session/history_text.h"

#include "session/tools/tool_calls.h"

namespace ringside {
namespace {

// No byte of UTF-8: what stands behind it is no text.
constexpr char kAdapter = '\xFC', kTools = '\xFD', kTokens = '\xFE', kMessageEnd = '\xFF';

}  // namespace

void AppendMessage(ChatRole role, std::string_view text, int64_t calls_at, std::string* history) {
  history->push_back(static_cast<char>('0' + static_cast<int>(role)));
  calls_at < 0 ? history->append(text) : history->append(ComparableText(text, calls_at));
  history->push_back(kMessageEnd);
}

void AppendAdapter(std::string_view adapter, std::string* history) {
  if (adapter.empty()) return;
  history->push_back(kAdapter);
  history->append(adapter);
  history->push_back(kMessageEnd);
}

void AppendTools(std::string_view lines, std::string* history) {
  if (lines.empty()) return;
  history->push_back(kTools);
  history->append(lines);
  history->push_back(kMessageEnd);
}

void AppendTokens(std::span<const TokenId> tokens, std::string* history) {
  history->push_back(kTokens);
  history->reserve(history->size() + tokens.size() * sizeof(TokenId));
  for (const TokenId token : tokens) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      history->push_back(static_cast<char>(static_cast<uint32_t>(token) >> shift & 0xFF));
    }
  }
}

std::string HistoryText(const TurnSpec& spec) {
  std::string history;
  AppendAdapter(spec.adapter.value_or(""), &history);
  if (spec.raw) {
    AppendTokens(spec.raw->tokens, &history);
    return history;
  }
  if (spec.tools) AppendTools(spec.tools->lines, &history);
  for (const NewItem& item : spec.input) AppendMessage(item.role, item.text, item.calls_at, &history);
  return history;
}

}  // namespace ringside
