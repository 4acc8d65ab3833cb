// A session's events: live delivery, replay and resume.
#include "session/session.h"

namespace ringside {

void Session::OnQueued(TurnId turn, int64_t position) {
  std::lock_guard lock(mutex_);
  if (!Runs(turn)) return;
  running_->events.Queued(position);
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

void Session::AnnounceLocked() {
  ActiveTurn& turn = *running_;
  if (turn.recorder.announced()) return;
  turn.recorder.Announce();
  responses_.Add(turn.response);
  turn.events.Announce();
}

void Session::OnStart(TurnId turn, const CacheReport& report, const JournalPosition& recorded) {
  std::lock_guard lock(mutex_);
  if (recorded.seq != 0) SetRecorded(recorded);
  if (Runs(turn)) StartLocked(report);
}

void Session::StartLocked(const CacheReport& report) {
  AnnounceLocked();
  running_->events.Start(report, running_->next.reopened(), running_->channels != nullptr);
}

void Session::OnTokens(TurnId turn, const TokenDelta& delta, const JournalPosition& recorded) {
  std::lock_guard lock(mutex_);
  if (recorded.seq != 0) SetRecorded(recorded);
  if (!Runs(turn)) return;
  running_->events.Tokens(delta);
  const int64_t limit = context_->options.max_detached_tokens;
  if (limit > 0 && !running_->background && running_->events.detached_tokens() > limit &&
      running_->response->incomplete_reason.empty()) {
    running_->response->incomplete_reason = "detached";
    context_->engine.Cancel(turn);
  }
}

std::shared_ptr<const Response> Session::Snapshot(const std::shared_ptr<Response>& response) const {
  std::lock_guard lock(mutex_);
  return SnapshotOf(response);
}

void Session::Replay(const std::shared_ptr<Response>& response, uint64_t from, const std::shared_ptr<EventSink>& sink) {
  std::lock_guard lock(mutex_);
  const uint64_t first = sink->numbers().Of(response->before);
  if (response->begun) sink->OnReplay({SnapshotOf(response)}, first + from);
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

void Session::AttachLocked(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink) {
  const std::shared_ptr<Response> active = running_ && running_->recorder.announced() ? running_->response : nullptr;
  const EventNumbers& numbers = sink->numbers();
  ResumeReply reply;
  reply.session = request.session;
  reply.present = true;
  reply.epoch = epoch_;
  reply.next_seq = numbers.Of(listeners_.sent());
  reply.state = cache;
  reply.active_response_id = active != nullptr ? active->id : "";
  reply.kv_tokens = static_cast<int64_t>(timeline_.tokens().size());
  reply.recorded = recorded_;

  const bool epoch_known = !request.epoch || (*request.epoch >= first_epoch_ && *request.epoch <= epoch_);
  const bool numbers_known = request.after && epoch_known && *request.after < reply.next_seq;
  const uint64_t next = numbers_known ? *request.after + 1 : 0;
  const std::optional<size_t> first =
      numbers_known ? responses_.FirstToReplay(numbers, listeners_.sent(), next) : std::nullopt;
  if (first && (next < reply.next_seq || active != nullptr)) {
    reply.replay = ResumeReply::Replay::kEvents;
  } else if (!first && active != nullptr) {
    reply.replay = ResumeReply::Replay::kSnapshot;
  }
  sink->OnResumed(reply);
  if (reply.replay == ResumeReply::Replay::kEvents) {
    const ResponseCopies copies = responses_.CopiesFrom(*first);
    if (!copies.empty()) sink->OnReplay(copies, next);
  } else if (reply.replay == ResumeReply::Replay::kSnapshot) {
    sink->OnSnapshot(SnapshotOf(active));
  }
  listeners_.Attach(sink, request.session);
}

}  // namespace ringside
