// A session's events: numbering, live delivery, replay and resume.
#include <algorithm>

#include "base/limits.h"
#include "session/session.h"

namespace ringside {

void Session::Emit(TurnEvent event) {
  told_ = running_->response->before + running_->response->events();
  if (listeners_.Tell([&](EventSink& sink) { sink.OnEvent(event); })) running_->detached_tokens = 0;
}

void Session::OnQueued(TurnId turn, int64_t position) {
  std::lock_guard lock(mutex_);
  if (!Runs(turn)) return;
  running_->queue_position = position;
  if (running_->heard()) NotifyQueued();
}

void Session::OnScored(TurnId turn, std::vector<OutputToken> tokens) {
  std::lock_guard lock(mutex_);
  if (!Runs(turn)) return;
  running_->response->scored_tokens = tokens.size();
  running_->response->tokens = std::move(tokens);
}

void Session::OnEmbedded(TurnId turn, std::vector<float> mean) {
  std::lock_guard lock(mutex_);
  if (Runs(turn)) running_->response->embedding = std::move(mean);
}

void Session::NotifyQueued() {
  if (running_->queue_position == 0 || running_->response->started) return;
  listeners_.Tell([&](EventSink& sink) { sink.OnQueued(*running_->response, running_->queue_position); });
}

void Session::AnnounceLocked() {
  ActiveTurn& turn = *running_;
  if (turn.heard()) return;
  turn.Announce();
  turn.response->before = told_;
  turn.response->begun = true;
  turn.begun = std::make_shared<const Response>(*turn.response);
  responses_.push_back(turn.response);
  Emit({.kind = TurnEvent::Kind::kBegun, .response = turn.begun});
  NotifyQueued();
}

void Session::OnStart(TurnId turn, const CacheReport& report, const JournalPosition& recorded) {
  std::lock_guard lock(mutex_);
  if (recorded.seq != 0) SetRecorded(recorded);
  if (Runs(turn)) StartLocked(report);
}

void Session::StartLocked(const CacheReport& report) {
  AnnounceLocked();
  Response& response = *running_->response;
  response.report = report;
  if (response.warm_up) return;
  response.started = true;
  if (response.calls == CallPlace::kNone && running_->channels == nullptr) return OpenMessage();
  if (running_->next.reopened()) EmitOpenCalls(*running_->next.reopened());
}

// Clients need complete calls: a continued answer repeats its open calls from their start.
void Session::EmitOpenCalls(const Item& reopened) {
  Response& response = *running_->response;
  const std::string_view text = reopened.text;
  const std::string_view begun = text.substr(FirstCall(text, reopened.calls_at, response.calls, response.syntax));
  response.begun_bytes = begun.size();
  if (!begun.empty()) EmitText(begun);
}

void Session::OpenMessage() {
  Response& response = *running_->response;
  if (response.opened) return;
  const EventCounts before = response.events();
  response.opened = true;
  Emit({.kind = TurnEvent::Kind::kOpened,
        .response = running_->begun,
        .before = before,
        .tokens = std::exchange(running_->held_reasoning, {})});
}

void Session::OnTokens(TurnId turn, const TokenDelta& delta, const JournalPosition& recorded) {
  std::lock_guard lock(mutex_);
  if (recorded.seq != 0) SetRecorded(recorded);
  if (!Runs(turn)) return;
  running_->detached_tokens += static_cast<int64_t>(delta.tokens.size());
  TokensLocked(delta);
  const int64_t limit = context_->options.max_detached_tokens;
  if (limit > 0 && !running_->background && running_->detached_tokens > limit &&
      running_->response->incomplete_reason.empty()) {
    running_->response->incomplete_reason = "detached";
    context_->engine.Cancel(turn);
  }
}

void Session::TokensLocked(const TokenDelta& delta) {
  Response& response = *running_->response;
  if (!response.started) return;
  response.output_tokens += static_cast<int64_t>(delta.tokens.size());
  response.reasoning_tokens += delta.reasoning_tokens;
  for (size_t i = 0; i < delta.tokens.size(); ++i) {
    running_->output.push_back(delta.tokens[i].id);
    const bool reasons = static_cast<int64_t>(i) < delta.reasoning_tokens;  // log probabilities belong to the message
    if (response.keeps_tokens() && !reasons) running_->held.push_back(delta.tokens[i]);
    if (response.token_ids && reasons) running_->held_reasoning.push_back(delta.tokens[i]);
  }
  EmitReasoning(delta.reasoning);
  if (delta.reasoning_ended || !delta.text.empty()) EndReasoning(true);
  if (!delta.text.empty()) EmitText(delta.text);
}

void Session::EmitText(std::string_view text) {
  ActiveTurn& turn = *running_;
  if (turn.reader.transcodes()) turn.sampled += text;
  for (const CallPart& part : turn.reader.Push(text, &turn.response->text)) EmitPart(part);
}

void Session::EmitPart(const CallPart& part) {
  Response& response = *running_->response;
  if (part.kind != CallPart::Kind::kText) return EmitCallPart(part);
  const size_t begin = std::max(part.begin, response.begun_bytes);  // the cut answer has sent the rest
  if (begin < part.end) EmitPiece(begin, part.end);
}

void Session::EmitPiece(size_t begin, size_t end) {
  Response& response = *running_->response;
  OpenMessage();
  const EventCounts before = response.events();
  response.piece_ends.push_back(static_cast<uint32_t>(end));
  std::vector<OutputToken> tokens = std::exchange(running_->held, {});
  response.tokens.insert(response.tokens.end(), tokens.begin(), tokens.end());
  if (response.keeps_tokens()) response.piece_token_ends.push_back(static_cast<uint32_t>(response.tokens.size()));
  Emit({.kind = TurnEvent::Kind::kText,
        .response = running_->begun,
        .before = before,
        .text = response.text.substr(begin, end - begin),
        .tokens = std::move(tokens)});
}

void Session::EmitCallPart(const CallPart& part) {
  Response& response = *running_->response;
  running_->held.clear();  // logprobs belong to the message
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
      running_->name = response.text.substr(part.begin, part.end - part.begin);
      running_->arguments.clear();
      return EmitStep({CallStep::Kind::kBegun, steps.empty() ? 0 : last + 1, begin, end});
    case CallPart::Kind::kArguments:
      running_->arguments += response.text.substr(part.begin, part.end - part.begin);
      return EmitStep({CallStep::Kind::kArguments, last, begin, end});
    case CallPart::Kind::kCallEnd:
      return EmitStep({CallStep::Kind::kWhole, last, begin, end});
  }
}

void Session::EmitStep(const CallStep& step) {
  Response& response = *running_->response;
  EventCounts before = response.events();
  before.message_ended = response.opened;
  response.call_steps.push_back(step);
  TurnEvent event{.kind = TurnEvent::Kind::kCall, .response = running_->begun, .before = before};
  if (step.kind == CallStep::Kind::kArguments) {
    event.kind = TurnEvent::Kind::kCallText;
    event.text = response.bytes_of(step);
  }
  if (step.ends()) {
    event.kind = TurnEvent::Kind::kCallEnded;
    event.text = running_->arguments;
  }
  event.call = step.call;
  event.name = running_->name;
  event.whole = step.kind != CallStep::Kind::kCut;
  Emit(std::move(event));
}

void Session::EndText() {
  if (!running_->response->started) return;
  const bool cut = running_->response->cut_in_reasoning;
  EndReasoning(!cut);
  for (const CallPart& part : running_->reader.Finish()) EmitPart(part);
  const std::vector<CallStep>& steps = running_->response->call_steps;
  if (running_->reader.in_call()) EmitStep({CallStep::Kind::kCut, steps.back().call, 0, 0});
  if (!steps.empty() || (cut && !running_->response->opened)) return;
  OpenMessage();
  // Tokens without text (an end of turn), or whose text a stop string removed.
  if (!running_->held.empty()) EmitPiece(running_->response->text.size(), running_->response->text.size());
}

// A finished response changes only by losing its logprobs, at the end of the next one.
std::shared_ptr<const Response> Session::SnapshotLocked(const std::shared_ptr<Response>& response) {
  if (!response->running() && response->tokens.empty()) return response;
  return std::make_shared<const Response>(*response);
}

std::shared_ptr<const Response> Session::Snapshot(const std::shared_ptr<Response>& response) const {
  std::lock_guard lock(mutex_);
  return SnapshotLocked(response);
}

void Session::Replay(const std::shared_ptr<Response>& response, uint64_t from, const std::shared_ptr<EventSink>& sink) {
  std::lock_guard lock(mutex_);
  const uint64_t first = sink->numbers().Of(response->before);
  if (response->begun) sink->OnReplay({SnapshotLocked(response)}, first + from);
  if (running_ && running_->response == response) listeners_.AddToTurn(sink);
}

void Session::Resume(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink) {
  const int64_t most_stored = context_->options.LimitsOf(owner_).stored_bytes;
  {
    std::lock_guard lock(mutex_);
    // Otherwise the epoch holds until the next start, as when the disk is not writable.
    const bool may_write = most_stored <= 0 || *owners_stored_ <= most_stored;
    if (durable_ && !may_write) ++epoch_;
    if (!durable_ || !may_write) return AttachLocked(request, cache, sink);
  }
  JournalEntry entry;
  entry.session = key_;
  {
    std::lock_guard lock(mutex_);
    entry.records = {Encode(AttachedRecord{++epoch_})};
  }
  const auto attach = [self = shared_from_this(), request, cache, sink](const Status&, const JournalPosition& last) {
    std::lock_guard lock(self->mutex_);
    if (last.seq != 0) {
      self->SetRecorded(last);
      self->ChangedLocked();
    }
    self->AttachLocked(request, cache, sink);
  };
  // If writing fails, reading continues; the epoch then holds until the next start.
  if (const Status status = context_->journal->Append(std::move(entry), attach); !status.ok()) attach(status, {});
}

std::optional<size_t> Session::FirstToReplay(const EventNumbers& numbers, uint64_t next) const {
  uint64_t expected = numbers.Of(told_);
  if (expected - next > static_cast<uint64_t>(limits::kMaxReplayedEvents)) return std::nullopt;
  size_t first = responses_.size();
  while (expected > next) {
    if (first == 0) return std::nullopt;
    const Response& response = *responses_[first - 1];
    if (numbers.Of(response.before + response.events()) != expected) return std::nullopt;
    expected = numbers.Of(response.before);
    --first;
  }
  return first;
}

void Session::AttachLocked(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink) {
  const std::shared_ptr<Response> active = running_ && running_->heard() ? running_->response : nullptr;
  const EventNumbers& numbers = sink->numbers();
  ResumeReply reply;
  reply.session = request.session;
  reply.present = true;
  reply.epoch = epoch_;
  reply.next_seq = numbers.Of(told_);
  reply.state = cache;
  reply.active_response_id = active != nullptr ? active->id : "";
  reply.kv_tokens = static_cast<int64_t>(timeline_.tokens().size());
  reply.recorded = recorded_;

  const bool epoch_known = !request.epoch || (*request.epoch >= first_epoch_ && *request.epoch <= epoch_);
  const bool numbers_known = request.after && epoch_known && *request.after < reply.next_seq;
  const uint64_t next = numbers_known ? *request.after + 1 : 0;
  const std::optional<size_t> first = numbers_known ? FirstToReplay(numbers, next) : std::nullopt;
  if (first && (next < reply.next_seq || active != nullptr)) {
    reply.replay = ResumeReply::Replay::kEvents;
  } else if (!first && active != nullptr) {
    reply.replay = ResumeReply::Replay::kSnapshot;
  }
  sink->OnResumed(reply);
  if (reply.replay == ResumeReply::Replay::kEvents) {
    ResponseCopies copies;
    for (size_t i = *first; i < responses_.size(); ++i) copies.push_back(SnapshotLocked(responses_[i]));
    if (!copies.empty()) sink->OnReplay(copies, next);
  } else if (reply.replay == ResumeReply::Replay::kSnapshot) {
    sink->OnSnapshot(SnapshotLocked(active));
  }
  listeners_.Attach(sink, request.session);
}

}  // namespace ringside
