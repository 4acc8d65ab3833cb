// Compaction: a summary replaces the beginning of a history. The served model writes the summary in a side turn
// (SessionTable::Summarize). Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "session/turn/turn_spec.h"

namespace ringside {

inline constexpr int64_t kMaxSummaryTokens = 1024;
inline constexpr int64_t kMaxSummaryReasoning = 256;  // tokens

struct Summary {
  std::string text;
  bool by_model = false;                                           // false: an outline
  int64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0;  // of the side turn
};

/// The index of the first item that a compaction keeps: messages after the last answer, and with results of its tool
/// calls the answer itself.
size_t BeginOfExchange(const std::vector<NewItem>& items);
/// Leading system messages, which a compaction keeps.
size_t CountLeadingSystem(const std::vector<NewItem>& items);
/// The question that a side turn answers with a summary. `instructions`: the client's, "" = ours.
NewItem AskForSummary(const std::string& instructions);
/// A summary without a model: the beginnings of the newest messages, at most 8 KiB.
std::string OutlineOf(const std::vector<NewItem>& items);
/// The message that replaces the history.
NewItem SummaryItem(std::string_view summary);

}  // namespace ringside
