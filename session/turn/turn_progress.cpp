#include "session/turn/turn_progress.h"

#include <algorithm>

#include "base/log.h"
#include "cache/store/tiered_store.h"

namespace ringside {
namespace {

const char* ReasonName(const Response& response) {
  if (!response.incomplete_reason.empty()) return response.incomplete_reason.c_str();
  switch (response.reason) {
    case FinishReason::kStop:
      return "completed";
    case FinishReason::kLength:
    case FinishReason::kSessionFull:
      return "max_output_tokens";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "failed";
    case FinishReason::kRepetition:
      return kRepetition;
  }
  return "";
}

/// One log line about a turn's cost, without any of its text.
void LogTurn(const std::string& key, const std::string& owner, const Response& response) {
  const TurnTimes& times = response.times;
  const double tokens_per_s =
      times.decode_ms > 0 ? 1000.0 * static_cast<double>(response.output_tokens - 1) / times.decode_ms : 0;
  const LogTrace trace(response.trace);
  WriteLog(LogLevel::kInfo,
           fmt::format("turn: {} in session {}: {} tokens in, {} of them cached, {} out; first token {:.0f} ms, {:.1f} "
                       "tokens/s; source {}; {}",
                       response.id, key, response.input_tokens, response.report.tokens_reused, response.output_tokens,
                       times.queue_ms + times.prefill_ms, std::max(tokens_per_s, 0.0),
                       CacheSourceName(response.report.source), ReasonName(response)),
           {{"event", "turn"},
            {"response_id", response.id},
            {"session_id", key},
            {"owner", owner},
            {"tokens_in", response.input_tokens},
            {"tokens_cached", response.report.tokens_reused},
            {"tokens_computed", response.report.tokens_computed},
            {"tokens_out", response.output_tokens},
            {"queue_ms", times.queue_ms},
            {"slot_ms", times.slot_ms},
            {"restore_ms", response.report.restore_ms},
            {"prefill_ms", times.prefill_ms},
            {"others_ms", times.others_ms},
            {"decode_ms", times.decode_ms},
            {"source", CacheSourceName(response.report.source)},
            {"end", ReasonName(response)}});
}

}  // namespace

TurnProgress::TurnProgress(BoundContext context, std::string key, std::string owner, Conversation* conversation,
                           SessionJournal* journal, Hooks hooks)
    : context_(std::move(context)),
      key_(std::move(key)),
      owner_(std::move(owner)),
      conversation_(*conversation),
      journal_(*journal),
      hooks_(std::move(hooks)) {}

ActiveTurn& TurnProgress::Begin(ActiveTurn turn) {
  running_ = std::move(turn);
  running_->events.SendTo(&listeners_);
  return *running_;
}

void TurnProgress::Recorded(TurnId turn, const Status& status) {
  if (Runs(turn)) Advance(running_->recorder.Recorded(status));
}

void TurnProgress::Submitted(TurnId turn) {
  if (Runs(turn)) Advance(running_->recorder.Submitted());
}

void TurnProgress::Advance(TurnRecorder::Next next) {
  if (next == TurnRecorder::Next::kAnnounce) Announce();
  if (next != TurnRecorder::Next::kFail) return;
  context_->engine.Cancel(running_->id);
  if (!IsUnknown(running_->recorder.refused())) Fail(running_->recorder.refused());
}

// Another server may have the session by now, and only the store knows what it has of the turn. No event may claim
// anything; the process ends, and its clients reconnect.
bool TurnProgress::IsUnknown(const Status& failed) const {
  return failed.code() == StatusCode::kIo && context_->journal != nullptr && context_->journal->shared() != nullptr;
}

void TurnProgress::Announce() {
  ActiveTurn& turn = *running_;
  if (turn.recorder.announced()) return;
  turn.recorder.Announce();
  conversation_.responses.Add(turn.response);
  turn.events.Announce();
}

void TurnProgress::Fail(const Status& status) {
  if (!running_->recorder.announced()) {
    running_->response->refused = true;
    running_->response->error = status;
  }
  Announce();
  TurnEnd end;
  end.reason = FinishReason::kError;
  end.error = status;
  Finish(end, context_->clock.WallSeconds());
}

void TurnProgress::EndEarly(TurnId turn, const std::string& reason) {
  if (!Runs(turn) || !running_->response->incomplete_reason.empty()) return;
  running_->response->incomplete_reason = reason;
  context_->engine.Cancel(turn);
}

void TurnProgress::OnQueued(TurnId turn, int64_t position) {
  if (!Runs(turn)) return;
  running_->events.Queued(position);
}

void TurnProgress::OnScored(TurnId turn, std::vector<OutputToken> tokens) {
  if (!Runs(turn)) return;
  running_->response->scored_tokens = tokens.size();
  running_->response->tokens = std::move(tokens);
}

void TurnProgress::OnEmbedded(TurnId turn, std::vector<float> mean) {
  if (Runs(turn)) running_->response->embedding = std::move(mean);
}

void TurnProgress::OnStart(TurnId turn, const CacheReport& report, const JournalPosition& recorded) {
  if (recorded.seq != 0) journal_.SetRecorded(recorded);
  if (Runs(turn)) Start(report);
}

void TurnProgress::Start(const CacheReport& report) {
  Announce();
  running_->events.Start(report, running_->next.reopened(), running_->channels != nullptr);
}

void TurnProgress::OnTokens(TurnId turn, const TokenDelta& delta, const JournalPosition& recorded) {
  if (recorded.seq != 0) journal_.SetRecorded(recorded);
  if (!Runs(turn)) return;
  running_->events.Tokens(delta);
  const int64_t limit = context_->options.max_detached_tokens;
  if (limit > 0 && !running_->background && running_->events.detached_tokens() > limit &&
      running_->response->incomplete_reason.empty()) {
    running_->response->incomplete_reason = "detached";
    context_->engine.Cancel(turn);
  }
}

void TurnProgress::OnEnd(TurnId turn, const TurnEnd& end, double completed_at, const JournalPosition& recorded) {
  if (!Runs(turn)) return;
  if (recorded.seq != 0) journal_.SetRecorded(running_->response->recorded = recorded);
  Announce();
  // it ended before it was cut
  if (end.reason != FinishReason::kCancelled) running_->response->incomplete_reason.clear();
  Finish(end, completed_at);
  hooks_.changed();
}

void TurnProgress::OnInterrupted(TurnId turn, const Status& cause, const JournalPosition& recorded) {
  if (!Runs(turn)) return;
  LogCut(cause);
  // Only its client's own history leads to this session, and the client sends that again.
  if (key_.starts_with(TieredStore::kMemoryOnly)) return Fail(cause);
  if (recorded.seq != 0) journal_.SetRecorded(running_->response->recorded = recorded);
  ++context_->shared->interrupted;
  Cut(cause);
  hooks_.changed();
}

void TurnProgress::OnLost(TurnId turn, const Status& status) {
  if (!Runs(turn)) return;
  LogCut(status);
  context_->engine.Cancel(turn);
  if (IsUnknown(status)) return;
  // A turn that was never recorded was never acknowledged; its end must not acknowledge it.
  running_->recorder.recorded() ? Cut() : Fail(status);
}

void TurnProgress::LogCut(const Status& cause) const {
  const TraceContext trace = running_->response->trace;
  const LogTrace named(trace);
  LogWarning("session {}: the turn ended early: {}", key_, cause.message());
}

// A pure function of the turn's records, so that a restart after a crash and a server with a full disk get the same
// result.
void TurnProgress::Cut(Status cause) {
  Announce();
  ActiveTurn& turn = *running_;
  if (turn.response->started && !journal_.foreign()) {
    turn.cut_in_reasoning =
        turn.events.EmitHeldBack(context_->codec.tokenizer, turn.next.reopened(), turn.channels, turn.begun_ids);
  }
  Interrupt(std::move(cause));
}

void TurnProgress::Interrupt(Status cause) {
  Announce();
  ActiveTurn& turn = *running_;
  Response& response = *turn.response;
  response.incomplete_reason = kInterrupted;
  if (turn.renumbers) conversation_.first_epoch = ++conversation_.epoch;
  TurnEnd end;
  end.reason = FinishReason::kCancelled;
  end.error = std::move(cause);
  end.output = turn.events.output();
  end.reasoning_tokens = response.reasoning_tokens;
  end.cut_in_reasoning = turn.cut_in_reasoning;
  end.report = response.report;
  end.report.position = static_cast<int64_t>(turn.next.tokens().size() + turn.events.output().size());
  Finish(end, response.created_at);
}

void TurnProgress::Finish(const TurnEnd& end, double completed_at) {
  Response& response = *running_->response;
  response.reason = end.reason;
  response.stop_string = end.stop_string;
  response.error = end.error;
  response.output_tokens = static_cast<int64_t>(end.output.size());
  response.report = end.report;
  response.drafts = end.drafts;
  response.times = end.times;
  response.reasoning_tokens = end.reasoning_tokens;
  response.cut_in_reasoning = end.cut_in_reasoning && response.text.empty();
  response.reasoning_ms = end.times.reasoning_ms;
  if (running_->recomputed) response.report.source = CacheSource::kRecomputed;
  response.completed_at = completed_at;
  if (response.ended_s == 0) response.ended_s = running_->replayed ? conversation_.used_s : context_->uptime_s();
  if (end.stop_token && response.keeps_tokens()) running_->events.Hold(*end.stop_token);
  if (end.reason != FinishReason::kError) running_->events.EndText();
  if (response.token_ids) response.output_ids = end.output;
  if (end.reason == FinishReason::kError) {
    // As if the turn had never existed: it can be requested again.
    response.status = ResponseStatus::kFailed;
    response.items_end = response.input_items_end = response.items_before;
    const auto failed = [](const auto& one) { return one->status == ResponseStatus::kFailed; };
    if (context_->options.models != nullptr && std::ranges::all_of(conversation_.responses.all(), failed)) {
      conversation_.model.clear();  // it has not begun: another model may be asked
    }
  } else {
    Timeline& next = running_->next;
    const bool cut = end.reason != FinishReason::kStop;
    if (response.warm_up) {
      response.status =
          end.reason == FinishReason::kCancelled ? ResponseStatus::kCancelled : ResponseStatus::kCompleted;
    } else {
      response.status = !cut ? ResponseStatus::kCompleted
                        : end.reason == FinishReason::kCancelled && response.incomplete_reason.empty()
                            ? ResponseStatus::kCancelled
                            : ResponseStatus::kIncomplete;
      Item answer;
      answer.id = response.item_id;
      answer.reasoning = response.reasoning;
      answer.calls_at = running_->events.CallsAt(next.reopened());
      answer.text = running_->events.StoredText(cut, end.output.empty(), &next);
      answer.complete = !cut;
      if (cut) answer.form = response.form;
      next.CloseAnswer(std::move(answer), end.output, context_->codec);
    }
    conversation_.timeline = std::move(next);
    conversation_.adapter = response.adapter;
    if (context_->codec.encoder) response.report.messages_evicted += conversation_.timeline.left_out();
    response.items_end = conversation_.timeline.items().size();
    conversation_.head = response.id;
    conversation_.report = response.report;
  }
  // Before the end is reported: a client that has received the end finds the line and may start the next turn.
  if (!running_->replayed) LogTurn(key_, owner_, response);
  running_->permit.reset();
  running_->events.End();
  conversation_.responses.DropTokensExceptOf(response);
  Drop();
  hooks_.finished();
}

void TurnProgress::Drop() {
  running_.reset();
  listeners_.EndTurn();
}

}  // namespace ringside
