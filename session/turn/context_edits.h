// Edits that make a request's history shorter: results of old tool calls and old reasoning are cleared. An edit is a
// pure function of the history, so that a client that sends the unedited history again finds the edited timeline, and
// the cache before the first edited message stays. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "session/turn/turn_spec.h"

namespace ringside {

/// Replaces the cleared result of a tool call.
inline constexpr std::string_view kClearedResult = "[Old tool result cleared]";

/// Clears the results of the oldest tool calls.
struct ClearToolUses {
  int64_t trigger = 100'000;                     // input tokens above which the edit is made
  bool counts_uses = false;                      // `trigger` is a number of tool uses
  int64_t keep = 3;                              // newest results that stay
  int64_t clear_at_least = 0;                    // tokens; the history stays as it is where fewer would be cleared
  std::vector<std::string> excluded = {};        // tools whose results stay
  bool clears_inputs = false;                    // the arguments of the calls are cleared, too
  std::vector<std::string> cleared_inputs = {};  // ... of these tools
};

/// Clears the reasoning of all assistant turns but the last `keep` that have some. A turn ends at a user message.
struct ClearThinking {
  int64_t keep = 1;  // -1 = all
};

using ContextEdit = std::variant<ClearToolUses, ClearThinking>;

struct AppliedEdit {
  size_t edit = 0;     // index in the request's edits
  int64_t count = 0;   // tool uses, or turns with reasoning
  int64_t tokens = 0;  // net, of the texts alone
};

/// The number of tokens of a text without markup.
using TextTokens = std::function<int64_t(std::string_view)>;

/// Tool results in `items`.
int64_t CountToolUses(const std::vector<NewItem>& items);
/// Makes the edit, whatever its trigger. `count` 0: nothing was cleared, and `items` are as before.
AppliedEdit ApplyEdit(const ContextEdit& edit, const TextTokens& tokens, std::vector<NewItem>* items);

}  // namespace ringside
