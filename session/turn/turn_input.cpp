#include "session/turn/turn_input.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/refusals/context_overflow.h"
#include "base/request_watch.h"
#include "base/worker_pool.h"

namespace ringside {
namespace {

constexpr int64_t kLeastAnswer = 1024;    // tokens reserved for the answer if the input alone fills the window
constexpr size_t kLongBytes = 256 << 10;  // of text: up to 40 ms of tokenising

/// True if the window must show the request's whole history.
bool HoldsWholeHistory(const TurnSpec& spec) { return spec.carries_history && !spec.truncates && !spec.history_slides; }

size_t FirstUnrendered(const Timeline& timeline) {
  // Rendered items come first.
  const SharedList<Item>& items = timeline.items();
  const auto rendered = [](const Item& item) { return item.rendered(); };
  return static_cast<size_t>(std::partition_point(items.begin(), items.end(), rendered) - items.begin());
}

size_t AfterLastAnswer(const Timeline& timeline) {
  size_t first = timeline.items().size();
  while (first > 0 && timeline.items()[first - 1].role != ChatRole::kAssistant) --first;
  return first;
}

/// Number of tokens from the first new item on.
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
    return InvalidArgument(
        "An empty input answers the conversation's last message, but the last message is already an answer.", "input",
        "invalid_value");
  }
  return Status::Ok();
}

/// Error for more than --max-input-tokens. Without `tokens`, tokenizing stopped at the limit.
Status TooMuchInput(const TurnSpec& spec, int64_t most, int64_t tokens = 0) {
  return ContextOverflow{.limit = most,
                         .tokens = std::max(tokens, most + 1),
                         .at_least = tokens == 0,
                         .prompt = spec.raw.has_value(),
                         .advice = "See --max-input-tokens."}
      .ToStatus();
}

/// Converts the overflow of Render and SetHead to the lower of the two limits; returns other errors unchanged.
Status TooLong(const TurnSpec& spec, const Status& status, int64_t session_room, int64_t input_room, int64_t most) {
  const bool refused = status.reason() != ContextOverflow::kReason;
  return refused || session_room <= input_room ? status : TooMuchInput(spec, most);
}

/// Number of TokensToShow that the window shows.
int64_t ShownOfNewInput(const TurnSpec& spec, const TurnInput& input, const RingWindow& window) {
  const SharedList<Item>& items = input.next.items();
  const bool all = input.first_new == 0 || HoldsWholeHistory(spec);
  const int64_t begin = all ? 0 : input.first_new < items.size() ? items[input.first_new].token_begin : window.pinned;
  return window.memory_len + std::max<int64_t>(0, window.pinned - begin);
}

/// Number of tokens of the new input, or of the whole history if the window must show that.
int64_t TokensToShow(const TurnSpec& spec, const TurnInput& input) {
  return HoldsWholeHistory(spec) ? std::ssize(input.next.tokens()) : NewTokens(input);
}

template <class Items>
size_t BytesOf(const Items& items) {
  size_t bytes = 0;
  for (const Item& item : items) bytes += item.text.size() + item.reasoning.size();
  return bytes;
}

/// Of the text that a turn renders.
size_t BytesToRender(const TurnSpec& spec, const std::vector<Item>& items, const Timeline& base, const Codec& codec) {
  const bool anew = base.forgotten() || codec.chat.renders_whole(base.head().tools.size() > 0);
  return BytesOf(items) + (spec.instructions ? spec.instructions->size() : 0) + (anew ? BytesOf(base.items()) : 0);
}

Result<TurnInput> Render(const TurnSpec& spec, std::vector<Item> items, const Timeline& base, const Codec& codec,
                         const InputLimits& limits) {
  const bool forgotten = base.forgotten();
  const int64_t most = limits.max_input_tokens;
  int64_t room = most > 0 && !forgotten ? most : std::numeric_limits<int64_t>::max();  // limit of rendered tokens
  TurnInput input{
      .next = base, .first_new = forgotten ? base.items().size() : FirstUnrendered(base), .recomputed = forgotten};
  Timeline& next = input.next;
  if (spec.raw) {
    const auto size = static_cast<int64_t>(spec.raw->tokens.size());
    if (size > room) return TooMuchInput(spec, most, size);
    ASSIGN_OR_RETURN(next, Timeline::OfPrompt(spec.raw->tokens, codec, spec.truncates));
    input.first_new = 0;
    return input;
  }
  // For a history that comes with its request, the computed part is unknown.
  if (spec.carries_history) room = std::max<int64_t>(0, room - static_cast<int64_t>(base.tokens().size()));
  if (spec.instructions || spec.tools || next.head().variables != limits.variables) {
    TimelineHead head = next.head();
    head.variables = limits.variables;
    if (spec.instructions) head.instructions = spec.instructions;
    if (spec.tools) head.tools = spec.tools->lines;
    const auto made = next.SetHead(std::move(head), codec, std::min(limits.session_len, room));
    if (!made.ok()) return TooLong(spec, made.status(), limits.session_len, room, most);
    input.recomputed |= made->has_value();
    room -= made->value_or(0);
  }
  for (Item& item : items) next.AddItem(std::move(item));
  RETURN_IF_ERROR(CheckAnswerable(spec, next));
  if (spec.input.empty() && !spec.warm_up && next.CanReopen()) {
    if (codec.encoder && next.pinned() > codec.pinned_max) {
      return ContextOverflow{
          .limit = codec.pinned_max, .tokens = next.pinned(), .advice = "The encoder reads no more (--pinned-max)."}
          .ToStatus();
    }
    next.ReopenAnswer();
  } else {
    const auto before = static_cast<int64_t>(next.tokens().size());
    const int64_t session_room = limits.session_len - before;
    Codec strict = codec;
    strict.refuses = spec.keeps_to_template;
    const Status rendered = next.Render(strict, !spec.warm_up, before + std::min(session_room, room), spec.truncates);
    if (!rendered.ok()) return TooLong(spec, rendered, session_room, room, most);
    const SharedList<TokenId>& computed = base.tokens();
    input.recomputed |= SharedList<TokenId>::CommonPrefix(computed, next.tokens()) < computed.size();
  }
  const auto tokens = static_cast<int64_t>(next.tokens().size());
  if (tokens > limits.session_len) {
    return ContextOverflow{.limit = limits.session_len, .tokens = tokens, .advice = "See --session-len."}.ToStatus();
  }
  if (spec.carries_history) input.first_new = AfterLastAnswer(next);
  if (forgotten && most > 0 && NewTokens(input) > most) return TooMuchInput(spec, most);
  return input;
}

}  // namespace

Status TokeniseLong(size_t bytes, const std::function<void()>& work) {
  if (bytes < kLongBytes) {
    const RequestWatch uninterrupted([] { return false; });
    work();
    return Status::Ok();
  }
  RETURN_IF_ERROR(RunLongWork(work));
  return RequestWatch::ClientLeft() ? Status(StatusCode::kCancelled, "The client disconnected.") : Status::Ok();
}

Result<TurnInput> RenderInput(const TurnSpec& spec, std::vector<Item> items, const Timeline& base, const Codec& codec,
                              const InputLimits& limits) {
  std::optional<Result<TurnInput>> rendered;
  const size_t bytes = BytesToRender(spec, items, base, codec);
  RETURN_IF_ERROR(TokeniseLong(bytes, [&] { rendered.emplace(Render(spec, std::move(items), base, codec, limits)); }));
  return *std::move(rendered);
}

Status CheckShown(const TurnSpec& spec, const TurnInput& input, const RingWindow& window) {
  const int64_t tokens = TokensToShow(spec, input), shown = ShownOfNewInput(spec, input, window);
  if (spec.truncates || tokens <= shown) return Status::Ok();
  return ContextOverflow{
      .limit = shown,
      .tokens = tokens,
      .prompt = spec.raw.has_value(),
      .advice = spec.offers_truncation ? "Truncation \"auto\" drops its beginning." : "See --memory-len."}
      .ToStatus();
}

int64_t RoomForAnswer(const TurnSpec& spec, const TurnInput& input, const RingWindow& window) {
  const int64_t least = spec.truncates ? std::min<int64_t>(kLeastAnswer, window.memory_len) : 1;
  return std::max(least, ShownOfNewInput(spec, input, window) - TokensToShow(spec, input));
}

}  // namespace ringside
