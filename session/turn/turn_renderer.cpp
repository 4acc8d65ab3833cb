#include "session/turn/turn_renderer.h"

#include <algorithm>

#include "base/limits.h"
#include "base/worker_pool.h"
#include "engine/grammar/grammar.h"
#include "engine/text/channels/continued_answer.h"
#include "session/chat/templates/reasoning_settings.h"
#include "session/ids.h"
#include "session/image_records.h"
#include "session/turn/turn_input.h"

namespace ringside {
namespace {

constexpr size_t kAnswerReserve = 1024;  // tokens

std::vector<JournalRecord> RecordsOf(const TurnSpec& spec, const ActiveTurn& turn, const Timeline& base,
                                     const TurnRequest& request) {
  const Response& response = *turn.response;
  TimelinePatch patch = turn.next.PatchFrom(base);
  std::vector<JournalRecord> records = ImageRecords(patch, base);
  records.push_back(Encode(TurnRecord{
      .response_id = response.id,
      .item_id = response.item_id,
      .previous_id = response.previous_id,
      .request_key = response.request_key,
      .echo = response.echo,
      .stored = spec.store,
      .warm_up = response.warm_up,
      .logprobs = response.logprobs,
      .recomputed = turn.recomputed,
      .renumbers = turn.renumbers,
      .created_at = response.created_at,
      .patch = std::move(patch),
      .items_before = static_cast<int64_t>(response.items_before),
      .sampling = request.sampling,
      .max_tokens = request.max_tokens,
      .clamped = response.clamped,
      .calls = response.calls,
      .syntax = response.syntax,
      .form = response.form,
      .adapter = response.adapter,
      .ignored_reasoning = response.ignored_reasoning,
      .compaction = response.compaction,
  }));
  return records;
}

/// `reopened`: the existing part of an answer that is continued.
CallPlace PlaceOfCalls(const AnswerFormat& format, const std::optional<Item>& reopened) {
  if (format.calls == nullptr || !format.calls->may_call) return CallPlace::kNone;
  const bool text = format.kind == AnswerFormat::Kind::kText && !format.calls->must_call;
  const ToolSyntaxName syntax = format.calls->syntax;
  if (text && !SyntaxOf(syntax).alone) return CallPlace::kAny;
  const bool begun = reopened && FirstCall(reopened->text, reopened->calls_at, CallPlace::kStart, syntax) != 0;
  return begun ? CallPlace::kNone : CallPlace::kStart;
}

/// Checks that the answer can be continued as requested, and prepares its grammar.
Status PrepareContinuation(const Item& reopened, const TurnSpec& spec, CallPlace calls, TurnRequest* request) {
  if (reopened.calls_at >= 0 && calls == CallPlace::kNone) {
    return InvalidArgument(
        "The answer that is to go on was cut in a tool call: it goes on only as one, with its tools and a tool_choice "
        "that allows it.",
        "tool_choice", "invalid_value");
  }
  if (spec.grammar == nullptr) return Status::Ok();
  request->begun = reopened.text;
  const auto matcher = std::make_shared<GrammarMatcher>(spec.grammar);
  request->matcher = matcher;
  Status begins = Status::Ok();
  RETURN_IF_ERROR(RunLongWork([&] { begins = matcher->Append(reopened.text); }));
  if (begins.ok()) return Status::Ok();
  return InvalidArgument("The answer to be continued does not match the requested format.",
                         spec.format->param.empty() ? "tool_choice" : spec.format->param, "invalid_value");
}

/// The adapter is gone: a turn may name another, or the model itself, which recomputes the history.
Status NoAdapter(const std::string& name, const SessionTableOptions& options) {
  return NotFound("This server has no adapter '" + name + "', which the conversation has: its next turn may name " +
                      "another model, '" + options.model_name + "' for one.",
                  "model", "model_not_found");
}

/// Tokens of the longest answer to a request that gives no limit.
int64_t UsualAnswer(const SessionTableOptions& options, const TurnSpec& spec, const TurnInput& input,
                    const RingWindow& window) {
  int64_t most = options.max_output_tokens;
  if (most < 0) {
    most = RoomForAnswer(spec, input, window);
    if (options.max_output_tokens_limit > 0) most = std::min(most, options.max_output_tokens_limit);
  }
  return spec.sampling.beams.searches() ? std::min({most, limits::kMaxBeamTokens, window.memory_len}) : most;
}

}  // namespace

TurnRenderer::TurnRenderer(BoundContext context, WindowOverrides window)
    : context_(std::move(context)), window_(std::move(window)) {}

Item MakeItem(NewItem item) {
  Item made;
  made.id = MakeId("msg_");
  made.role = item.role;
  made.text = std::move(item.text);
  if (!item.reasoning.empty() && item.role == ChatRole::kAssistant) made.reasoning = std::move(item.reasoning);
  made.calls_at = item.calls_at;
  made.call_ids = std::move(item.call_ids);
  for (NewImage& image : item.images) made.images.push_back(std::move(image.image));
  return made;
}

// A session's own settings are kept for servers that allow more; this server's limits apply.
int64_t TurnRenderer::session_len() const {
  const int64_t most = context_->options.session_len;
  return std::min(window_.session_len.value_or(most), most);
}

RingWindow TurnRenderer::Window(int64_t pinned) const {
  const SessionTableOptions& options = context_->options;
  return {std::min(pinned, options.pinned_max),
          std::min(window_.memory_len.value_or(options.memory_len), options.memory_len),
          window_.eviction.value_or(options.eviction)};
}

ClampedLimits TurnRenderer::Clamped(int64_t pinned) const {
  const SessionTableOptions& options = context_->options;
  ClampedLimits clamped;
  if (window_.memory_len > options.memory_len) clamped.memory_len = options.memory_len;
  if (window_.session_len > options.session_len) clamped.session_len = options.session_len;
  if (pinned > options.pinned_max) clamped.pinned = options.pinned_max;
  return clamped;
}

Result<SamplingParams> TurnRenderer::Sampling(const TurnSpec& spec) const {
  SamplingParams sampling = spec.sampling;
  for (const std::string& word : spec.bad_words) {
    // A word after a space is a different token.
    for (const std::string& text : {word, " " + word}) {
      const TextPiece piece{text, false};
      auto ids = context_->codec.tokenizer.Encode({&piece, 1}, limits::kMaxStopStringBytes);
      if (!ids) {
        return InvalidArgument("A bad word has at most " + std::to_string(limits::kMaxStopStringBytes) + " tokens.",
                               "bad_words");
      }
      if (!ids->empty()) sampling.bad_words.push_back(*std::move(ids));
    }
  }
  return sampling;
}

// Learning a template for new settings takes tens of milliseconds, so no lock is held.
Result<SettledReasoning> TurnRenderer::Settle(const TurnSpec& spec) const {
  const ChatTemplate& chat = context_->codec.chat;
  if (spec.raw && spec.raw->chat) return chat.Settle({});
  if (spec.raw || context_->codec.encoder) return ReasoningSettings(nullptr, "").Settle(spec.reasoning, chat);
  if (spec.reasoning.says_nothing()) return chat.Settle(spec.reasoning);
  Result<SettledReasoning> settled = SettledReasoning();
  RETURN_IF_ERROR(RunLongWork([&] { settled = chat.Settle(spec.reasoning); }));
  if (settled.ok() && settled->budget >= 0 && spec.sampling.beams.searches()) {
    settled->budget = -1;  // tokens cannot be forced in beam search
    settled->ignored.emplace_back("budget_tokens");
  }
  return settled;
}

Codec TurnRenderer::CodecFor(const SettledReasoning& reasoning) const {
  const Codec& codec = context_->codec;
  return {.tokenizer = codec.tokenizer,
          .chat = reasoning.chat ? *reasoning.chat : codec.chat,
          .pinned_max = codec.pinned_max,
          .encoder = codec.encoder,
          .images = codec.images};
}

void TurnRenderer::SetReasoning(SettledReasoning reasoning, ActiveTurn* turn, TurnRequest* request) const {
  turn->response->ignored_reasoning = std::move(reasoning.ignored);
  SetChannels(std::move(reasoning.channels), turn);
  request->channels = turn->channels;
  request->begun_ids = turn->begun_ids;
  request->reasoning_budget = turn->channels != nullptr ? reasoning.budget : -1;
}

void TurnRenderer::SetChannels(std::shared_ptr<const ChannelFormat> channels, ActiveTurn* turn) const {
  const Timeline& next = turn->next;
  if (channels == nullptr || next.answer_begin() < 0 || context_->codec.encoder) return;
  if (next.raw()) {
    // The generation prompt's header starts with the prompt's last special token.
    size_t header = next.tokens().size();
    while (header > 0 && !context_->codec.tokenizer.IsSpecial(next.tokens()[header - 1])) --header;
    const bool has_header = channels->layout == ChannelFormat::Layout::kMessages && header > 0;
    if (has_header) turn->begun_ids = next.tokens().From(header - 1);
    turn->channels = std::move(channels);
    return;
  }
  const std::vector<TokenId> message = next.tokens().From(static_cast<size_t>(next.answer_begin()));
  const bool answered = next.reopened() && next.reopened()->text.size() > 0;
  ContinuedAnswer continued = ContinueAnswer(*channels, message, answered, context_->codec.tokenizer);
  turn->channels = std::move(continued.channels);
  turn->begun_ids = std::move(continued.begun);
}

// Takes time in proportion to the new text, without a lock, so that other callers do not wait.
Result<RenderedTurn> TurnRenderer::Render(const TurnSpec& spec, TurnId turn, std::shared_ptr<Response> response,
                                          const Timeline& base) const {
  const SessionTableOptions& options = context_->options;
  response->retokenised = base.forgotten();
  response->items_before = base.items().size();
  std::vector<Item> items;
  for (const NewItem& item : spec.input) items.push_back(MakeItem(item));
  ASSIGN_OR_RETURN(SettledReasoning reasoning, Settle(spec));
  ASSIGN_OR_RETURN(TurnInput input, RenderInput(spec, std::move(items), base, CodecFor(reasoning),
                                                {session_len(), options.max_input_tokens, reasoning.head}));
  if (input.next.reopened()) response->item_id = input.next.reopened()->id;
  const RingWindow window = Window(input.next.pinned());
  RETURN_IF_ERROR(CheckShown(spec, input, window));
  ASSIGN_OR_RETURN(SamplingParams sampling, Sampling(spec));

  const std::optional<int> adapter = options.NumberOfAdapter(response->adapter);
  if (!adapter) return NoAdapter(response->adapter, options);

  TurnRequest request;
  request.turn = turn;
  request.adapter = *adapter;
  if (options.models != nullptr) request.model = options.model_name;
  // The engine appends sampled tokens: the reserve avoids another copy of the history.
  request.tokens = input.next.tokens().From(0, kAnswerReserve);
  request.message_starts = input.next.message_starts().From(0);
  ASSIGN_OR_RETURN(const std::vector<PlacedImage> placed, input.next.PlacedImages(context_->codec.images));
  std::vector<ItemImage> images;
  for (const PlacedImage& image : placed) {
    request.images.push_back({image.position, image.tokens, nullptr});
    images.push_back(image.image);
  }
  request.window = window;
  request.session_len = session_len();
  request.sampling = std::move(sampling);
  request.stop_strings = spec.stop_strings;
  // A format determines where the answer ends; the client's stop strings still apply.
  if (!spec.raw && spec.format->kind == AnswerFormat::Kind::kText) {
    const std::vector<std::string>& own_stops = context_->codec.chat.stop_strings();
    request.stop_strings.insert(request.stop_strings.end(), own_stops.begin(), own_stops.end());
  }
  request.grammar = spec.grammar;
  request.recipients = spec.recipients;
  request.must_call = spec.format && spec.format->calls != nullptr && spec.format->calls->must_call;
  response->calls = PlaceOfCalls(*spec.format, input.next.reopened());
  if (const std::optional<Item>& reopened = input.next.reopened()) {
    RETURN_IF_ERROR(PrepareContinuation(*reopened, spec, response->calls, &request));
  }
  request.stop_ids = spec.stop_ids;
  if (!spec.ignore_end_of_turn) {
    request.stop_ids.insert(request.stop_ids.end(), options.end_of_turn.begin(), options.end_of_turn.end());
  }
  request.continues = !base.tokens().empty() || base.forgotten();
  request.continues_answer = input.next.reopened().has_value() || (spec.raw && !context_->codec.encoder);
  request.known_tokens = input.recomputed ? 0 : std::ssize(base.tokens());
  request.may_branch = spec.may_branch;
  request.admitted = spec.admitted || !spec.compaction.empty();  // its summary was a turn
  request.scored = spec.raw && spec.raw->scored;
  request.embedded = spec.raw && spec.raw->embedded;
  request.max_tokens = spec.warm_up ? 0 : spec.max_output_tokens.value_or(UsualAnswer(options, spec, input, window));
  request.ends_repetition = options.ends_repetition && !spec.max_output_tokens;

  response->clamped = Clamped(input.next.pinned());
  response->syntax = context_->codec.chat.tool_syntax();
  response->form = Encode(AnswerForm{*spec.format, *spec.tool_choice});
  response->created_at = context_->clock.WallSeconds();
  response->input_tokens = static_cast<int64_t>(request.tokens.size());
  if (response->token_ids) response->prompt_ids = input.next.tokens();
  response->input_items_end = input.next.items().size();
  ActiveTurn running(turn, std::move(input.next));
  running.background = spec.background;
  running.recomputed = input.recomputed;
  running.renumbers = options.durability == Durability::kTurn;
  running.response = std::move(response);
  running.events = AnswerEvents(running.response, running.next.head().tools);
  SetReasoning(std::move(reasoning), &running, &request);
  std::vector<JournalRecord> records = RecordsOf(spec, running, base, request);
  return RenderedTurn{std::move(running), std::move(request), std::move(images), std::move(records)};
}

Result<SharedList<TokenId>> TurnRenderer::InputTokens(const TurnSpec& spec, const Timeline& base) const {
  std::vector<Item> items;
  for (const NewItem& item : spec.input) items.push_back(MakeItem(item));
  ASSIGN_OR_RETURN(const SettledReasoning reasoning, Settle(spec));
  ASSIGN_OR_RETURN(const TurnInput input,
                   RenderInput(spec, std::move(items), base, CodecFor(reasoning),
                               {session_len(), context_->options.max_input_tokens, reasoning.head}));
  return input.next.tokens();
}

}  // namespace ringside
