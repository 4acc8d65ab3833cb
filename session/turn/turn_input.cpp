#include "session/turn/turn_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace ringside {
namespace {

size_t FirstUnrendered(const Timeline& timeline) {
  // Rendered items come first.
  const SharedList<Item>& items = timeline.items();
  const auto rendered = [](const Item& item) { return item.rendered(); };
  return static_cast<size_t>(std::partition_point(items.begin(), items.end(), rendered) - items.begin());
}

size_t BehindTheLastAnswer(const Timeline& timeline) {
  size_t first = timeline.items().size();
  while (first > 0 && timeline.items()[first - 1].role != ChatRole::kAssistant) --first;
  return first;
}

/// Of everything from the first new item on.
int64_t NewTokens(const TurnInput& input) {
  const SharedList<Item>& items = input.next.items();
  const auto tokens = static_cast<int64_t>(input.next.tokens().size());
  if (input.first_new >= items.size()) return 0;
  return input.first_new == 0 ? tokens : tokens - items[input.first_new].token_begin;
}

Status CheckAnswerable(const TurnSpec& spec, const Timeline& next) {
  if (spec.warm_up || !spec.input.empty()) return Status::Ok();
  if (next.items().empty())
    return InvalidArgument("There is nothing to answer.", "input", "missing_required_parameter");
  if (next.items().back().role == ChatRole::kAssistant && !next.CanReopen()) {
    return InvalidArgument("An empty input answers the conversation's last message, but that is an answer already.",
                           "input", "invalid_value");
  }
  return Status::Ok();
}

/// What Render and SetHead say of too many tokens, in the words of the limit that was the lower one; anything else that
/// they say as it is.
Status TooLong(const Status& status, int64_t session_room, int64_t input_room, int64_t max_input_tokens) {
  const bool refused = !status.ok() && status.reason() != "context_length_exceeded";
  if (refused || session_room <= input_room) return status;
  return InvalidArgument(
      fmt::format("The new input has too many tokens: a turn may have {} (--max-input-tokens).", max_input_tokens),
      "input", "context_length_exceeded");
}

}  // namespace

Result<TurnInput> RenderInput(const TurnSpec& spec, std::vector<Item> items, const Timeline& base, const Codec& codec,
                              const InputLimits& limits) {
  const bool forgotten = base.forgotten();
  const int64_t most = limits.max_input_tokens;
  int64_t room = most > 0 && !forgotten ? most : std::numeric_limits<int64_t>::max();  // of what may be rendered
  TurnInput input{
      .next = base, .first_new = forgotten ? base.items().size() : FirstUnrendered(base), .recomputed = forgotten};
  Timeline& next = input.next;
  if (spec.raw) {
    const auto size = static_cast<int64_t>(spec.raw->tokens.size());
    if (size > room) return TooLong({}, limits.session_len, 0, most);
    ASSIGN_OR_RETURN(next, Timeline::OfPrompt(spec.raw->tokens, codec, spec.truncates));
    input.first_new = 0;
    return input;
  }
  // Of a history that comes with its request nobody knows how much has to be computed.
  if (spec.carries_history) room = std::max<int64_t>(0, room - static_cast<int64_t>(base.tokens().size()));
  if (spec.instructions || spec.tools || next.head().variables != limits.variables) {
    TimelineHead head = next.head();
    head.variables = limits.variables;
    if (spec.instructions) head.instructions = spec.instructions;
    if (spec.tools) head.tools = spec.tools->lines;
    const auto made = next.SetHead(std::move(head), codec, std::min(limits.session_len, room));
    if (!made.ok()) return TooLong(made.status(), limits.session_len, room, most);
    input.recomputed |= made->has_value();
    room -= made->value_or(0);
  }
  for (Item& item : items) next.AddItem(std::move(item));
  RETURN_IF_ERROR(CheckAnswerable(spec, next));
  if (spec.input.empty() && !spec.warm_up && next.CanReopen()) {
    if (codec.encoder && next.pinned() > codec.pinned_max) {
      return InvalidArgument(
          fmt::format("The answer stands behind an input of {} tokens; this server's encoder reads {} (--pinned-max).",
                      next.pinned(), codec.pinned_max),
          "input", "context_length_exceeded");
    }
    next.ReopenAnswer();
  } else {
    const auto before = static_cast<int64_t>(next.tokens().size());
    const int64_t session_room = limits.session_len - before;
    const Status rendered = next.Render(codec, !spec.warm_up, before + std::min(session_room, room), spec.truncates);
    if (!rendered.ok()) return TooLong(rendered, session_room, room, most);
    if (codec.chat.renders_anew()) {
      const SharedList<TokenId>& computed = base.tokens();
      input.recomputed |= SharedList<TokenId>::CommonPrefix(computed, next.tokens()) < computed.size();
    }
  }
  const auto tokens = static_cast<int64_t>(next.tokens().size());
  if (tokens > limits.session_len) {
    return InvalidArgument(
        fmt::format("The conversation would have {} tokens; its limit is {}.", tokens, limits.session_len), "input",
        "context_length_exceeded");
  }
  if (spec.carries_history) input.first_new = BehindTheLastAnswer(next);
  if (forgotten && most > 0 && NewTokens(input) > most) return TooLong({}, limits.session_len, 0, most);
  return input;
}

Status CheckShown(const TurnSpec& spec, const TurnInput& input, const RingWindow& window) {
  const int64_t tokens = NewTokens(input);
  const SharedList<Item>& items = input.next.items();
  const int64_t begin = input.first_new == 0             ? 0
                        : input.first_new < items.size() ? items[input.first_new].token_begin
                                                         : window.pinned;
  const int64_t shown = window.memory_len + std::max<int64_t>(0, window.pinned - begin);
  if (spec.truncates || tokens <= shown) return Status::Ok();
  const char* const remedy =
      spec.offers_truncation ? " With truncation \"auto\" it is taken and its beginning is forgotten." : "";
  return InvalidArgument(
      fmt::format("The new input has {} tokens; the window shows {} (--memory-len).{}", tokens, shown, remedy), "input",
      "context_length_exceeded");
}

}  // namespace ringside
