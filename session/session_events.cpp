// What a session tells its sinks: numbering, live events, replay and resume.
#include <algorithm>

#include "base/limits.h"
#include "session/session.h"

namespace ringside {
int64_t WireEvents(const TurnEvent& event) {
  switch (event.kind) {
    case TurnEvent::Kind::kCreated:
    case TurnEvent::Kind::kInProgress:
    case TurnEvent::Kind::kDelta:
      return 1;
    case TurnEvent::Kind::kOpened:
      return 2;
    case TurnEvent::Kind::kEnd:
      return event.response.opened ? 4 : 1;
    case TurnEvent::Kind::kSnapshot:
      return 0;
  }
  return 0;
}

bool Session::TellListeners(const std::function<void(EventSink&)>& tell) {
  const std::shared_ptr<EventSink> attached = attached_.lock();
  bool attached_told = attached == nullptr;
  std::erase_if(running_->sinks, [&](const std::weak_ptr<EventSink>& weak) {
    const std::shared_ptr<EventSink> sink = weak.lock();
    if (sink == nullptr) return true;
    attached_told = attached_told || sink->connection() == attached->connection();
    tell(*sink);
    return false;
  });
  if (!attached_told) tell(*attached);
  return attached != nullptr || !running_->sinks.empty();
}

void Session::Emit(TurnEvent::Kind kind, std::string_view text, std::span<const OutputToken> tokens) {
  Response& response = *running_->response;
  const TurnEvent event{kind, response, response.next_sequence, text, tokens, 0};
  response.next_sequence += WireEvents(event);
  next_seq_ = response.first_seq + static_cast<uint64_t>(response.next_sequence);
  if (TellListeners([&](EventSink& sink) { sink.OnEvent(event); })) running_->unheard_tokens = 0;
}

void Session::OnQueued(TurnId turn, int64_t position) {
  std::lock_guard lock(mutex_);
  if (!running_ || running_->id != turn) return;
  running_->queue_position = position;
  if (running_->announced) TellQueued();
}

void Session::TellQueued() {
  if (running_->queue_position == 0 || running_->response->opened) return;
  TellListeners([&](EventSink& sink) { sink.OnQueued(*running_->response, running_->queue_position); });
}

void Session::AnnounceLocked() {
  ActiveTurn& turn = *running_;
  if (turn.announced) return;
  turn.announced = true;
  turn.response->first_seq = next_seq_;
  responses_.push_back(turn.response);
  Emit(TurnEvent::Kind::kCreated);
  if (!turn.response->warm_up) Emit(TurnEvent::Kind::kInProgress);
  TellQueued();
}

void Session::OnStart(TurnId turn, const CacheReport& report, const JournalPosition& recorded) {
  std::lock_guard lock(mutex_);
  if (recorded.seq != 0) recorded_ = recorded;
  if (running_ && running_->id == turn) StartLocked(report);
}

void Session::StartLocked(const CacheReport& report) {
  AnnounceLocked();
  Response& response = *running_->response;
  response.report = report;
  if (response.warm_up) return;
  response.opened = true;
  Emit(TurnEvent::Kind::kOpened);
}

void Session::OnTokens(TurnId turn, const TokenDelta& delta, const JournalPosition& recorded) {
  std::lock_guard lock(mutex_);
  if (recorded.seq != 0) recorded_ = recorded;
  if (!running_ || running_->id != turn) return;
  running_->unheard_tokens += static_cast<int64_t>(delta.tokens.size());
  TokensLocked(delta);
  const int64_t limit = context_->options.max_detached_tokens;
  if (limit > 0 && running_->unheard_tokens > limit && running_->response->incomplete_reason.empty()) {
    running_->response->incomplete_reason = "detached";
    context_->cancel_turn(turn);
  }
}

void Session::TokensLocked(const TokenDelta& delta) {
  Response& response = *running_->response;
  if (!response.opened) return;
  response.output_tokens += static_cast<int64_t>(delta.tokens.size());
  for (const OutputToken& token : delta.tokens) {
    running_->output.push_back(token.id);
    // Of what was shown only: an end of turn has no text.
    if (response.logprobs && !context_->codec.tokenizer.IsSpecial(token.id)) running_->held.push_back(token);
  }
  if (!delta.text.empty()) EmitDelta(delta.text);
}

void Session::EmitDelta(std::string_view text) {
  Response& response = *running_->response;
  response.text += text;
  response.delta_ends.push_back(static_cast<uint32_t>(response.text.size()));
  std::vector<OutputToken>& held = running_->held;
  const size_t begin = response.tokens.size();
  response.tokens.insert(response.tokens.end(), std::make_move_iterator(held.begin()),
                         std::make_move_iterator(held.end()));
  held.clear();
  if (response.logprobs) response.delta_token_ends.push_back(static_cast<uint32_t>(response.tokens.size()));
  Emit(TurnEvent::Kind::kDelta, text, std::span<const OutputToken>(response.tokens).subspan(begin));
}

void Session::ReplayTo(EventSink& sink, const Response& response, int64_t from) {
  // Of an event that stands for several wire events the receiver may know some: it drops those itself.
  const auto emit = [&](TurnEvent::Kind kind, int64_t sequence, std::string_view text = {},
                        std::span<const OutputToken> tokens = {}) {
    const TurnEvent event{kind, response, sequence, text, tokens, from};
    if (sequence + WireEvents(event) > from && sequence < response.next_sequence) sink.OnEvent(event);
  };
  emit(TurnEvent::Kind::kCreated, 0);
  if (!response.warm_up) emit(TurnEvent::Kind::kInProgress, 1);
  if (response.opened) {
    emit(TurnEvent::Kind::kOpened, 2);
    const std::string_view text = response.text;
    const std::span<const OutputToken> tokens = response.tokens;
    const auto first = static_cast<size_t>(std::max<int64_t>(0, from - Response::kFirstDelta));
    for (size_t i = first; i < response.delta_ends.size(); ++i) {
      const size_t begin = i > 0 ? response.delta_ends[i - 1] : 0;
      std::span<const OutputToken> part;
      if (i < response.delta_token_ends.size()) {
        const size_t token_begin = i > 0 ? response.delta_token_ends[i - 1] : 0;
        part = tokens.subspan(token_begin, response.delta_token_ends[i] - token_begin);
      }
      emit(TurnEvent::Kind::kDelta, Response::kFirstDelta + static_cast<int64_t>(i),
           text.substr(begin, response.delta_ends[i] - begin), part);
    }
  }
  if (!response.running()) emit(TurnEvent::Kind::kEnd, response.end_sequence());
}

void Session::Replay(const Response& response, int64_t from, const std::shared_ptr<EventSink>& sink) {
  std::lock_guard lock(mutex_);
  ReplayTo(*sink, response, from);
  if (running_ && running_->response.get() == &response) running_->sinks.push_back(sink);
}

// A superseded connection may still have a message on its way: it must not act on what is no longer its own.
void Session::Fence(uint64_t old_connection, uint64_t new_connection) {
  constexpr size_t kMaxFenced = 64;
  std::erase(fenced_, new_connection);
  if (old_connection != new_connection) fenced_.push_back(old_connection);
  if (fenced_.size() > kMaxFenced) fenced_.pop_front();
}

void Session::Resume(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink) {
  {
    std::lock_guard lock(mutex_);
    if (!durable_) return AttachLocked(request, cache, sink);
  }
  JournalEntry entry;
  entry.session = key_;
  {
    std::lock_guard lock(mutex_);
    entry.records = {Encode(AttachedRecord{++epoch_})};
  }
  const auto attach = [self = shared_from_this(), request, cache, sink](const Status&, const JournalPosition& last) {
    std::lock_guard lock(self->mutex_);
    if (last.seq != 0) self->recorded_ = last;
    self->AttachLocked(request, cache, sink);
  };
  // Where nothing can be written, reading goes on; the epoch then holds until the next start.
  if (const Status status = context_->journal->Append(std::move(entry), attach); !status.ok()) attach(status, {});
}

void Session::AttachLocked(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink) {
  const Response* active = running_ && running_->announced ? running_->response.get() : nullptr;
  ResumeReply reply;
  reply.session = request.session;
  reply.present = true;
  reply.epoch = epoch_;
  reply.next_seq = next_seq_;
  reply.state = cache;
  reply.active_response_id = active != nullptr ? active->id : "";
  reply.kv_tokens = static_cast<int64_t>(timeline_.tokens().size());
  reply.recorded = recorded_;

  const bool epoch_known = !request.epoch || (*request.epoch >= first_epoch_ && *request.epoch <= epoch_);
  const bool numbers_known = request.after && epoch_known && *request.after < next_seq_;
  const uint64_t next = numbers_known ? *request.after + 1 : 0;
  // Every event from `next` on belongs to a response that is still listed, without a gap.
  bool whole = numbers_known && next_seq_ - next <= static_cast<uint64_t>(limits::kMaxReplayedEvents);
  uint64_t expected = next_seq_;
  size_t first = responses_.size();
  while (whole && expected > next) {
    if (first == 0 ||
        responses_[first - 1]->first_seq + static_cast<uint64_t>(responses_[first - 1]->next_sequence) != expected) {
      whole = false;
      break;
    }
    expected = responses_[--first]->first_seq;
  }
  if (whole && next == next_seq_ && active == nullptr) {
    reply.replay = ResumeReply::Replay::kNone;
  } else if (whole) {
    reply.replay = ResumeReply::Replay::kEvents;
  } else if (active != nullptr) {
    reply.replay = ResumeReply::Replay::kSnapshot;
  }
  sink->OnResumed(reply);
  if (reply.replay == ResumeReply::Replay::kEvents) {
    for (size_t i = first; i < responses_.size(); ++i) {
      const Response& response = *responses_[i];
      const int64_t from = next > response.first_seq ? static_cast<int64_t>(next - response.first_seq) : 0;
      ReplayTo(*sink, response, from);
    }
  } else if (reply.replay == ResumeReply::Replay::kSnapshot) {
    sink->OnEvent({TurnEvent::Kind::kSnapshot, *active, active->next_sequence, active->text, {}, 0});
  }
  const std::shared_ptr<EventSink> old = attached_.lock();
  if (old != nullptr && old->connection() != sink->connection()) old->OnTakenOver(request.session);
  Fence(old != nullptr ? old->connection() : sink->connection(), sink->connection());
  attached_ = sink;
}

}  // namespace ringside
