// A session's past events: replay and resume.
#include "session/session.h"

namespace ringside {

std::shared_ptr<const Response> Session::Snapshot(const std::shared_ptr<Response>& response) const {
  std::lock_guard lock(mutex_);
  return SnapshotOf(response);
}

void Session::Replay(const std::shared_ptr<Response>& response, uint64_t from, const std::shared_ptr<EventSink>& sink) {
  std::lock_guard lock(mutex_);
  const uint64_t first = sink->numbers().Of(response->before);
  if (response->begun) sink->OnReplay({SnapshotOf(response)}, first + from);
  if (turns_.running() && turns_.running()->response == response) turns_.listeners().AddToTurn(sink);
}

void Session::Resume(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink) {
  if (request.watch) {
    std::lock_guard lock(mutex_);
    return AttachLocked(request, cache, sink);
  }
  const int64_t most_stored = context_->options.LimitsOf(owner_).stored_bytes;
  {
    std::lock_guard lock(mutex_);
    // Otherwise the epoch holds until the next start, as when the disk is not writable.
    const bool may_write = most_stored <= 0 || journal_.stored_by_owner() <= most_stored;
    if (journal_.durable() && !may_write) ++conversation_.epoch;
    if (!journal_.durable() || !may_write) return AttachLocked(request, cache, sink);
  }
  JournalEntry entry;
  entry.session = key_;
  {
    std::lock_guard lock(mutex_);
    entry.records = {Encode(AttachedRecord{++conversation_.epoch})};
  }
  const auto attach = [self = shared_from_this(), request, cache, sink](const Status&, const JournalPosition& last) {
    std::lock_guard lock(self->mutex_);
    if (last.seq != 0) {
      self->journal_.SetRecorded(last);
      self->ChangedLocked();
    }
    self->AttachLocked(request, cache, sink);
  };
  // If writing fails, reading continues; the epoch then holds until the next start.
  if (const Status status = context_->journal->Append(std::move(entry), attach); !status.ok()) attach(status, {});
}

void Session::AttachLocked(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink) {
  const std::shared_ptr<Response> active =
      turns_.running() && turns_.running()->recorder.announced() ? turns_.running()->response : nullptr;
  const EventNumbers& numbers = sink->numbers();
  ResumeReply reply;
  reply.session = request.session;
  reply.present = true;
  reply.epoch = conversation_.epoch;
  reply.next_seq = numbers.Of(turns_.listeners().sent());
  reply.state = cache;
  reply.active_response_id = active != nullptr ? active->id : "";
  reply.kv_tokens = static_cast<int64_t>(conversation_.timeline.tokens().size());
  reply.recorded = journal_.recorded();

  const bool epoch_known =
      !request.epoch || (*request.epoch >= conversation_.first_epoch && *request.epoch <= conversation_.epoch);
  const bool numbers_known = request.after && epoch_known && *request.after < reply.next_seq;
  const uint64_t next = numbers_known ? *request.after + 1 : 0;
  const std::optional<size_t> first =
      numbers_known ? conversation_.responses.FirstToReplay(numbers, turns_.listeners().sent(), next) : std::nullopt;
  if (first && (next < reply.next_seq || active != nullptr)) {
    reply.replay = ResumeReply::Replay::kEvents;
  } else if (!first && active != nullptr) {
    reply.replay = ResumeReply::Replay::kSnapshot;
  }
  sink->OnResumed(reply);
  if (reply.replay == ResumeReply::Replay::kEvents) {
    const ResponseCopies copies = conversation_.responses.CopiesFrom(*first);
    if (!copies.empty()) sink->OnReplay(copies, next);
  } else if (reply.replay == ResumeReply::Replay::kSnapshot) {
    sink->OnSnapshot(SnapshotOf(active));
  }
  if (!request.watch) {
    turns_.listeners().Attach(sink, request.session);
  } else if (!turns_.listeners().Watch(sink)) {
    sink->OnTakenOver(request.session);
  }
}

}  // namespace ringside
