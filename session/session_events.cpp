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

void Session::Emit(TurnEvent::Kind kind, std::string_view text, std::span<const OutputToken> tokens) {
  Response& response = *running_->response;
  const TurnEvent event{kind, response, response.next_sequence, text, tokens, 0};
  response.next_sequence += WireEvents(event);
  next_seq_ = response.first_seq + static_cast<uint64_t>(response.next_sequence);
  const std::shared_ptr<EventSink> attached = attached_.lock();
  bool attached_told = attached == nullptr;
  std::erase_if(running_->sinks, [&](const std::weak_ptr<EventSink>& weak) {
    const std::shared_ptr<EventSink> sink = weak.lock();
    if (sink == nullptr) return true;
    attached_told = attached_told || sink->connection() == attached->connection();
    sink->OnEvent(event);
    return false;
  });
  if (!attached_told) attached->OnEvent(event);
}

void Session::AnnounceLocked() {
  ActiveTurn& turn = *running_;
  if (turn.announced) return;
  turn.announced = true;
  turn.response->first_seq = next_seq_;
  responses_.push_back(turn.response);
  Emit(TurnEvent::Kind::kCreated);
  if (!turn.response->warm_up) Emit(TurnEvent::Kind::kInProgress);
}

void Session::Announce(TurnId turn) {
  std::lock_guard lock(mutex_);
  if (running_ && running_->id == turn) AnnounceLocked();
}

void Session::OnStart(TurnId turn, const CacheReport& report) {
  std::lock_guard lock(mutex_);
  if (!running_ || running_->id != turn) return;
  AnnounceLocked();
  Response& response = *running_->response;
  response.report = report;
  if (response.warm_up) return;
  response.opened = true;
  Emit(TurnEvent::Kind::kOpened);
}

void Session::OnTokens(TurnId turn, const TokenDelta& delta) {
  std::lock_guard lock(mutex_);
  if (!running_ || running_->id != turn) return;
  Response& response = *running_->response;
  if (!response.opened) return;
  response.output_tokens += static_cast<int64_t>(delta.tokens.size());
  if (response.logprobs) {
    // Of what was shown only: an end of turn has no text.
    for (const OutputToken& token : delta.tokens) {
      if (!context_->codec.tokenizer.IsSpecial(token.id)) running_->held.push_back(token);
    }
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

void Session::Resume(const std::string& name, std::optional<uint64_t> epoch, std::optional<uint64_t> after,
                     const std::shared_ptr<EventSink>& sink) {
  std::lock_guard lock(mutex_);
  const Response* active = running_ && running_->announced ? running_->response.get() : nullptr;
  ResumeReply reply;
  reply.session = name;
  reply.present = true;
  reply.epoch = context_->epoch;
  reply.next_seq = next_seq_;
  reply.state = timeline_.tokens().empty() ? CacheSource::kNew : CacheSource::kSlot;
  reply.active_response_id = active != nullptr ? active->id : "";
  reply.kv_tokens = static_cast<int64_t>(timeline_.tokens().size());

  const bool numbers_known = after && (!epoch || *epoch == context_->epoch) && *after < next_seq_;
  const uint64_t next = numbers_known ? *after + 1 : 0;
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
  if (old != nullptr && old->connection() != sink->connection()) old->OnTakenOver(name);
  attached_ = sink;
}

}  // namespace ringside
