#include "session/turn_input.h"

#include <fmt/format.h>

namespace ringside {

size_t FirstNewItem(const TurnSpec& spec, const Timeline& next) {
  const SharedList<Item>& items = next.items();
  size_t first = items.size() - spec.input.size();
  if (next.forgotten()) return first;
  while (first > 0 && !items[first - 1].rendered() && items[first - 1].role != ChatRole::kAssistant) --first;
  return first;
}

Status CheckNewInput(const TurnSpec& spec, const Timeline& next, size_t first_new, const RingWindow& window,
                     int64_t max_tokens) {
  if (first_new >= next.items().size()) return Status::Ok();
  const auto tokens = static_cast<int64_t>(next.tokens().size());
  const int64_t input = first_new == 0 ? tokens : tokens - next.items()[first_new].token_begin;
  if (max_tokens > 0 && input > max_tokens) {
    return InvalidArgument(
        fmt::format("The new input has {} tokens; a turn may have {} (--max-input-tokens).", input, max_tokens),
        "input", "context_length_exceeded");
  }
  const int64_t shown = window.memory_len + (first_new == 0 ? window.pinned : 0);
  if (spec.truncates || input <= shown) return Status::Ok();
  return InvalidArgument(
      fmt::format(
          "The new input has {} tokens; the window shows {} (--memory-len). With truncation \"auto\" it is taken "
          "and its beginning is forgotten.",
          input, shown),
      "input", "context_length_exceeded");
}

}  // namespace ringside
