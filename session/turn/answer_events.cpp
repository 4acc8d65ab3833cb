#include "session/turn/answer_events.h"

#include <algorithm>

#include "engine/text/channels/answer_reader.h"
#include "session/turn/response_list.h"

namespace ringside {

AnswerEvents::AnswerEvents(std::shared_ptr<Response> response, std::string_view tools)
    : response_(std::move(response)) {
  const bool typed = response_->calls != CallPlace::kNone && SyntaxOf(response_->syntax).loose();
  reader_ =
      ToolCallReader(response_->calls, response_->syntax, typed ? std::make_shared<ParameterTypes>(tools) : nullptr);
}

void AnswerEvents::Emit(TurnEvent event) {
  if (listeners_->Send(event, response_->before + response_->events())) detached_tokens_ = 0;
}

void AnswerEvents::Announce() {
  response_->before = listeners_->sent();
  response_->begun = true;
  begun_ = std::make_shared<const Response>(*response_);
  Emit({.kind = TurnEvent::Kind::kBegun, .response = begun_});
  SendQueued();
}

void AnswerEvents::Queued(int64_t position) {
  queue_position_ = position;
  if (begun_ != nullptr) SendQueued();
}

void AnswerEvents::SendQueued() {
  if (queue_position_ == 0 || response_->started) return;
  listeners_->Notify([&](EventSink& sink) { sink.OnQueued(*response_, queue_position_); });
}

void AnswerEvents::Start(const CacheReport& report, const std::optional<Item>& reopened, bool has_channels) {
  response_->report = report;
  if (response_->warm_up) return;
  response_->started = true;
  if (response_->calls == CallPlace::kNone && !has_channels) return OpenMessage();
  if (reopened) EmitOpenCalls(*reopened);
}

void AnswerEvents::Tokens(const TokenDelta& delta) {
  detached_tokens_ += static_cast<int64_t>(delta.tokens.size());
  if (!response_->started) return;
  response_->output_tokens += static_cast<int64_t>(delta.tokens.size());
  response_->reasoning_tokens += delta.reasoning_tokens;
  for (size_t i = 0; i < delta.tokens.size(); ++i) {
    output_.push_back(delta.tokens[i].id);
    const bool reasons = static_cast<int64_t>(i) < delta.reasoning_tokens;  // log probabilities belong to the message
    if (response_->keeps_tokens() && !reasons) held_.push_back(delta.tokens[i]);
    if (response_->token_ids && reasons) held_reasoning_.push_back(delta.tokens[i]);
  }
  EmitReasoning(delta.reasoning);
  if (delta.reasoning_ended || !delta.text.empty()) EndReasoning(true);
  if (!delta.text.empty()) EmitText(delta.text);
}

void AnswerEvents::End() { Emit({.kind = TurnEvent::Kind::kEnded, .response = SnapshotOf(response_)}); }

void AnswerEvents::OpenMessage() {
  Response& response = *response_;
  if (response.opened) return;
  const EventCounts before = response.events();
  response.opened = true;
  Emit({.kind = TurnEvent::Kind::kOpened,
        .response = begun_,
        .before = before,
        .tokens = std::exchange(held_reasoning_, {})});
}

// Clients need complete calls: a continued answer repeats its open calls from their start.
void AnswerEvents::EmitOpenCalls(const Item& reopened) {
  Response& response = *response_;
  const std::string_view text = reopened.text;
  const std::string_view begun = text.substr(FirstCall(text, reopened.calls_at, response.calls, response.syntax));
  response.begun_bytes = begun.size();
  if (!begun.empty()) EmitText(begun);
}

void AnswerEvents::EmitText(std::string_view text) {
  if (reader_.transcodes()) sampled_ += text;
  for (const CallPart& part : reader_.Push(text, &response_->text)) EmitPart(part);
}

void AnswerEvents::EmitPart(const CallPart& part) {
  Response& response = *response_;
  if (part.kind != CallPart::Kind::kText) return EmitCallPart(part);
  const size_t begin = std::max(part.begin, response.begun_bytes);  // the cut answer has sent the rest
  if (begin < part.end) EmitPiece(begin, part.end);
}

void AnswerEvents::EmitPiece(size_t begin, size_t end) {
  Response& response = *response_;
  OpenMessage();
  const EventCounts before = response.events();
  response.piece_ends.push_back(static_cast<uint32_t>(end));
  std::vector<OutputToken> tokens = std::exchange(held_, {});
  response.tokens.insert(response.tokens.end(), tokens.begin(), tokens.end());
  if (response.keeps_tokens()) response.piece_token_ends.push_back(static_cast<uint32_t>(response.tokens.size()));
  Emit({.kind = TurnEvent::Kind::kText,
        .response = begun_,
        .before = before,
        .text = response.text.substr(begin, end - begin),
        .tokens = std::move(tokens)});
}

void AnswerEvents::EmitCallPart(const CallPart& part) {
  Response& response = *response_;
  held_.clear();  // logprobs belong to the message
  std::vector<CallStep>& steps = response.call_steps;
  if (steps.empty() && response.opened) {
    Emit({.kind = TurnEvent::Kind::kMessageEnded,
          .response = std::make_shared<const Response>(response),
          .before = response.events()});
  }
  const auto begin = static_cast<uint32_t>(part.begin), end = static_cast<uint32_t>(part.end);
  const uint32_t last = steps.empty() ? 0 : steps.back().call;
  switch (part.kind) {
    case CallPart::Kind::kText:
      return;
    case CallPart::Kind::kCall:
      name_ = response.text.substr(part.begin, part.end - part.begin);
      arguments_.clear();
      return EmitStep({CallStep::Kind::kBegun, steps.empty() ? 0 : last + 1, begin, end});
    case CallPart::Kind::kArguments:
      arguments_ += response.text.substr(part.begin, part.end - part.begin);
      return EmitStep({CallStep::Kind::kArguments, last, begin, end});
    case CallPart::Kind::kCallEnd:
      return EmitStep({CallStep::Kind::kWhole, last, begin, end});
  }
}

void AnswerEvents::EmitStep(const CallStep& step) {
  Response& response = *response_;
  EventCounts before = response.events();
  before.message_ended = response.opened;
  response.call_steps.push_back(step);
  TurnEvent event{.kind = TurnEvent::Kind::kCall, .response = begun_, .before = before};
  if (step.kind == CallStep::Kind::kArguments) {
    event.kind = TurnEvent::Kind::kCallText;
    event.text = response.bytes_of(step);
  }
  if (step.ends()) {
    event.kind = TurnEvent::Kind::kCallEnded;
    event.text = arguments_;
  }
  event.call = step.call;
  event.name = name_;
  event.whole = step.kind != CallStep::Kind::kCut;
  Emit(std::move(event));
}

void AnswerEvents::EndText() {
  if (!response_->started) return;
  const bool cut = response_->cut_in_reasoning;
  EndReasoning(!cut);
  for (const CallPart& part : reader_.Finish()) EmitPart(part);
  const std::vector<CallStep>& steps = response_->call_steps;
  if (reader_.in_call()) EmitStep({CallStep::Kind::kCut, steps.back().call, 0, 0});
  if (!steps.empty() || (cut && !response_->opened)) return;
  OpenMessage();
  // Tokens without text (an end of turn), or whose text a stop string removed.
  if (!held_.empty()) EmitPiece(response_->text.size(), response_->text.size());
}

void AnswerEvents::EmitReasoning(std::string_view text) {
  if (text.empty()) return;
  Response& response = *response_;
  // Between two parts of the answer the reasoning would have no event; its ids stay in the timeline.
  if (response.reasoning_ended || response.opened || !response.call_steps.empty()) return;
  response.reasoning += text;
  const auto end = static_cast<uint32_t>(response.reasoning.size());
  if (response.reasoning_ends.empty()) {
    EventCounts before = response.events();
    before.reasoning_opened = 0;
    Emit({.kind = TurnEvent::Kind::kReasoningOpened, .response = begun_, .before = before});
  }
  EventCounts before = response.events();
  before.reasoning_opened = 1;
  response.reasoning_ends.push_back(end);
  Emit({.kind = TurnEvent::Kind::kReasoning,
        .response = begun_,
        .before = before,
        .text = std::string(text),
        .tokens = std::exchange(held_reasoning_, {})});
}

void AnswerEvents::EndReasoning(bool whole) {
  Response& response = *response_;
  if (response.reasoning_ended || response.reasoning_ends.empty()) return;
  const EventCounts before = response.events();
  response.reasoning_ended = true;
  Emit({.kind = TurnEvent::Kind::kReasoningEnded,
        .response = begun_,
        .before = before,
        .text = response.reasoning,
        .tokens = std::exchange(held_reasoning_, {}),
        .whole = whole});
}

bool AnswerEvents::EmitHeldBack(const Tokenizer& tokenizer, const std::optional<Item>& reopened,
                                const std::shared_ptr<const ChannelFormat>& channels,
                                const std::vector<TokenId>& begun_ids) {
  const Response& response = *response_;
  AnswerReader reader(tokenizer, /*at_start=*/!reopened, channels, StopRule({}, {}));
  (void)reader.Replay(begun_ids);
  std::string text, reasoning;
  const auto add = [&](const AnswerReader::Step& step) {
    reasoning += step.reasoning;
    text += step.text;
  };
  for (const TokenId id : output_) add(reader.Push(id));
  const bool cut_in_reasoning = !reader.answer_begun() && !reader.undecided();
  add(reader.Finish());
  const auto rest = [](std::string_view all, std::string_view sent) {
    return all.size() > sent.size() && all.starts_with(sent) ? all.substr(sent.size()) : std::string_view();
  };
  EmitReasoning(rest(reasoning, response.reasoning));
  const std::string_view more = rest(text, sampled_text().substr(response.begun_bytes));
  if (more.empty()) return cut_in_reasoning;
  EndReasoning(true);
  EmitText(more);
  return cut_in_reasoning;
}

int64_t AnswerEvents::CallsAt(const std::optional<Item>& reopened) const {
  const int64_t at = reader_.calls_at();
  if (at < 0 || !reopened) return at;
  return at + static_cast<int64_t>(reopened->text.size() - response_->begun_bytes);
}

// An answer that may be continued keeps the model's syntax, because its grammar reads it again. Calls of all other
// answers are stored in Hermes syntax unless the model's is JSON: their types then do not depend on the tools of later
// turns.
SharedText AnswerEvents::StoredText(bool cut, bool empty, Timeline* next) const {
  if (!reader_.transcodes() || cut || reader_.in_call()) {
    return std::string(sampled_text().substr(response_->begun_bytes));
  }
  if (!empty) next->TrimReopened(response_->begun_bytes);
  return response_->text;
}

}  // namespace ringside
