#include "session/table/turn_sink.h"

#include <utility>

#include "base/defect.h"
#include "session/journal/delta_log.h"
#include "session/journal/shared_log.h"
#include "session/records.h"
#include "session/turn/interruption.h"

namespace ringside {

TurnSink::TurnSink(std::shared_ptr<Session> session, TurnId turn, Journal* journal, Durability durability,
                   bool logprobs, std::shared_ptr<TokenBucket> tokens, const Clock& clock)
    : session_(std::move(session)),
      turn_(turn),
      journal_(journal),
      durability_(durability),
      logprobs_(logprobs),
      tokens_(std::move(tokens)),
      clock_(clock) {}

void TurnSink::Write(JournalRecord record, OnDurable durable) {
  JournalEntry entry;
  entry.session = session_->key();
  DeltaLog* const deltas = journal_->deltas();
  const bool erases = !kept_.empty();
  entry.records = std::exchange(kept_, {});
  entry.records.push_back(std::move(record));
  entry.urgent = true;
  if (RINGSIDE_DEFECT("delta_before_record")) std::exchange(durable, [](const JournalPosition&) {})({});
  ++progress_->pending;
  const auto notify = [session = session_, turn = turn_, progress = progress_, durable = std::move(durable)](
                          const Status& status, const JournalPosition& last) {
    status.ok() ? durable(last) : session->WithTurns([&](TurnProgress& turns) { turns.OnLost(turn, status); });
    if (status.ok()) progress->last = last;
    --progress->pending;
  };
  // After the text that was sent before.
  const auto done = [deltas, erases, session = session_, notify](const Status& status, const JournalPosition& last) {
    if (deltas == nullptr) return notify(status, last);
    const bool failed = status.code() == StatusCode::kIo;  // the next start restores the text
    if (erases && !failed) deltas->Erase(session->key());
    deltas->Post([notify, status, last] { notify(status, last); });
  };
  if (const Status status = journal_->Append(std::move(entry), done); !status.ok()) done(status, {});
}

void TurnSink::Charge(int64_t tokens) {
  charged_ += tokens;
  tokens_->Draw(tokens, clock_.MonotonicNs());
}

void TurnSink::OnStart(const CacheReport& report) {
  Charge(report.tokens_computed);
  if (journal_ == nullptr) return session_->WithTurns([&](TurnProgress& turns) { turns.OnStart(turn_, report, {}); });
  Write(EncodeStarted(report), [session = session_, turn = turn_, report](const JournalPosition& recorded) {
    session->WithTurns([&](TurnProgress& turns) { turns.OnStart(turn, report, recorded); });
  });
}

void TurnSink::OnTokens(const TokenDelta& delta) {
  written_ += static_cast<int64_t>(delta.tokens.size());
  Charge(static_cast<int64_t>(delta.tokens.size()));
  if (journal_ == nullptr) return session_->WithTurns([&](TurnProgress& turns) { turns.OnTokens(turn_, delta, {}); });
  recorded_tokens_ += delta.tokens.size();
  JournalRecord record =
      Encode(TokensRecord{delta.tokens, delta.text, delta.reasoning, delta.reasoning_tokens, delta.reasoning_ended},
             logprobs_);
  // Sent immediately only if nothing earlier is still waiting to be sent, and no other server can have the session:
  // otherwise the write finds out.
  const SharedLog* const shared = journal_->shared();
  const bool ours = shared == nullptr || shared->HoldsLease();
  if (durability_ == Durability::kTurn && progress_->pending == 0 && ours) {
    auto notify = [session = session_, turn = turn_, delta] {
      session->WithTurns([&](TurnProgress& turns) { turns.OnTokens(turn, delta, {}); });
    };
    kept_.push_back(std::move(record));
    if (journal_->deltas() == nullptr) return notify();
    return journal_->deltas()->Append(session_->key(), progress_->last, kept_.back(), std::move(notify));
  }
  Write(std::move(record), [session = session_, turn = turn_, delta](const JournalPosition& recorded) {
    session->WithTurns([&](TurnProgress& turns) { turns.OnTokens(turn, delta, recorded); });
  });
}

void TurnSink::OnEnd(const TurnEnd& end) {
  // The last written token is computed by the next turn, but paid for now.
  const int64_t unpaid = end.rows_computed.value_or(charged_) - charged_;
  if (unpaid > 0 || written_ == 0) Charge(unpaid);
  const double now = clock_.WallSeconds();
  std::string incomplete_reason =
      session_->WithTurns([&](TurnProgress& turns) { return turns.IncompleteReason(turn_); });
  if (const auto cause = InterruptionOf(end, incomplete_reason)) return Interrupt(*cause);
  if (journal_ == nullptr) return session_->WithTurns([&](TurnProgress& turns) { turns.OnEnd(turn_, end, now, {}); });
  if (logprobs_ && end.stop_token) {  // in the same record
    kept_.push_back(Encode(TokensRecord{.tokens = {*end.stop_token}}, true));
    ++recorded_tokens_;
  }
  EndRecord record;
  record.reason = end.reason;
  if (end.reason == FinishReason::kCancelled) record.incomplete_reason = std::move(incomplete_reason);
  record.stop_string = end.stop_string;
  record.error = end.error;
  record.tail.assign(end.output.begin() + static_cast<ptrdiff_t>(recorded_tokens_), end.output.end());
  record.report = end.report;
  record.drafts = end.drafts;
  record.times = end.times;
  record.completed_at = now;
  record.ended_s = journal_->UptimeSeconds();
  record.reasoning_tokens = end.reasoning_tokens;
  record.cut_in_reasoning = end.cut_in_reasoning;
  Write(Encode(record), [session = session_, turn = turn_, end, now](const JournalPosition& recorded) {
    session->WithTurns([&](TurnProgress& turns) { turns.OnEnd(turn, end, now, recorded); });
  });
}

void TurnSink::Interrupt(const Status& cause) {
  if (journal_ == nullptr)
    return session_->WithTurns([&](TurnProgress& turns) { turns.OnInterrupted(turn_, cause, {}); });
  Write(Encode(InterruptedRecord{cause}), [session = session_, turn = turn_, cause](const JournalPosition& recorded) {
    session->WithTurns([&](TurnProgress& turns) { turns.OnInterrupted(turn, cause, recorded); });
  });
}

}  // namespace ringside
