#include "engine/turns/running_turn.h"

#include <algorithm>

#include "base/check.h"
#include "engine/turns/beam_turn.h"
#include "engine/turns/embedding_turn.h"
#include "engine/turns/generation_turn.h"
#include "engine/turns/scoring_turn.h"

namespace ringside {

TimelineView RunningTurn::timeline() const {
  const std::span<const TokenId> tokens = request_.tokens;
  return {beam_rows() > 0 ? tokens.first(static_cast<size_t>(prompt_tokens_)) : tokens, request_.message_starts,
          request_.window, request_.adapter};
}

int64_t RunningTurn::most_tokens() const {
  if (branches() == 0) return std::ssize(request_.tokens);
  return (begun() ? prompt_tokens_ : std::ssize(request_.tokens)) + request_.max_tokens;
}

int64_t RunningTurn::branches() const {
  return request_.sampling.beams.searches() && wants_logits() ? request_.sampling.beams.width + 1 : 0;
}

void RunningTurn::NotifyPosition(int64_t position) {
  if (!begun() && position != std::exchange(position_, position)) request_.sink->OnQueued(position);
}

void RunningTurn::NoteRestored(double ms) {
  if (report_.source == CacheSource::kHost || report_.source == CacheSource::kDisk) report_.restore_ms = ms;
}

double RunningTurn::Urgency(int64_t now_ns, double ns_per_token) const {
  return PromptUrgency(now_ns - clock_.submitted_ns(), static_cast<double>(begun_remaining_) * ns_per_token);
}

void RunningTurn::Begin(Sequence* sequence, const SyncResult& sync, const Tokenizer& tokenizer, int64_t vocab,
                        int64_t session_len, int64_t now_ns) {
  sequence_ = sequence;
  request_.forked_from = 0;  // its cache is its own now
  session_len_ = session_len;
  prompt_tokens_ = std::ssize(request_.tokens);
  clock_.NoteBegin(now_ns);
  remaining_ = begun_remaining_ = sync.to_feed;
  report_.source = sync.source;
  // Virtual tokens are not charged to the turn.
  const int64_t virtual_tokens = request_.virtual_tokens;
  report_.tokens_reused = std::max<int64_t>(sync.reused - virtual_tokens, 0);
  const int64_t virtual_computed = std::max<int64_t>(virtual_tokens - sync.reused, 0);
  report_.tokens_computed = sync.to_feed - virtual_computed;
  report_.tokens_replayed = sync.replayed;
  rows_computed_ = -virtual_computed;
  report_.restore_ms = sync.restore_ms;
  report_.position = prompt_tokens_ - virtual_tokens;
  stream_.emplace(request_, tokenizer);
  const Ring& ring = sequence_->cache()->ring();
  evicted_before_ = ring.next() > 0 ? ring.EvictedAt(ring.next() - 1) : 0;
  request_.sink->OnStart(report_);
  Start(tokenizer, vocab);
  if (Status images = images_.Check(request_, *sequence_); !images.ok())
    Finish(FinishReason::kError, std::move(images));
}

const ImageInput* RunningTurn::FindPendingImage() const {
  if (remaining_ == 0) return nullptr;
  return images_.FindPending(timeline().tokens, sequence_->next_position());
}

void RunningTurn::Resume(const SyncResult& sync) {
  const bool has_beams = beam_rows() > 0;
  const int64_t new_rows = has_beams ? 0 : remaining_;
  rows_computed_ -= std::max<int64_t>(sync.to_feed - new_rows, 0);  // recomputed rows are not charged
  // With beams provisional, until their rows are counted.
  remaining_ = begun_remaining_ = sync.to_feed + (has_beams ? 2 : 0);
  if (Status images = images_.Check(request_, *sequence_); !images.ok())
    Finish(FinishReason::kError, std::move(images));
}

void RunningTurn::FinishIfComputed() {
  if (!wants_logits() && remaining_ == 0 && !finished_) FinishPrefill();
}

void RunningTurn::FinishPrefill() { Finish(FinishReason::kStop); }

void RunningTurn::Finish(FinishReason reason, Status error) {
  if (finished_) return;
  finished_ = reason;
  error_ = std::move(error);
}

int64_t RunningTurn::max_reusable() const {
  const int64_t length = std::ssize(request_.tokens);
  return wants_logits() ? length - 1 : length;
}

TurnRows RunningTurn::PromptRows(int64_t limit, bool scores) {
  const std::span<const TokenId> tokens = timeline().tokens, next = sequence_->NextChunk(tokens, limit),
                                 chunk = images_.Limit(next, sequence_->computed());
  const bool last = wants_logits() && std::ssize(chunk) == remaining_;
  const auto logits = scores ? StepPart::Logits::kAll : last ? StepPart::Logits::kLast : StepPart::Logits::kNone;
  TurnRows rows;
  rows.parts.push_back({sequence_->cache(), chunk, logits, request_.adapter, request_.embedded,
                        images_.RowsOf(tokens, sequence_->computed(), std::ssize(chunk))});
  const int64_t first = sequence_->computed(), end = first + std::ssize(chunk) - (last ? 1 : 0);
  for (int64_t position = first; scores && position < end; ++position) rows.logits.push_back({.scored = position + 1});
  if (last) rows.logits.push_back({});
  return rows;
}

void RunningTurn::OnLaunched(std::span<const TokenId> tokens, bool awaits) {
  CHECK(!awaits);
  AdvancePosition(tokens);
}

void RunningTurn::AdvancePosition(std::span<const TokenId> chunk) {
  sequence_->AdvancePosition(chunk);
  remaining_ -= std::ssize(chunk);
  CHECK_GE(remaining_, 0);
}

RowSamplingParams RunningTurn::Params(const TurnRow&) {
  CHECK(false);  // it has no rows of logits
  return {};
}

void RunningTurn::Take(const TurnRow&, const SampledToken&, int64_t) { CHECK(false); }

void RunningTurn::CollectHiddenStates(int64_t, std::span<const float>, int64_t) { CHECK(false); }

void RunningTurn::AttachBranches(SlabMemory&, std::vector<KvCache*>) { CHECK(false); }

std::vector<KvCache*> RunningTurn::DetachBranches(bool) { return {}; }

void RunningTurn::NoteToken(int64_t now_ns) {
  clock_.NoteToken(now_ns);
  stream_->NoteArrival(now_ns);
  remaining_ = 1;
}

void RunningTurn::Emit(const OutputToken& token, const AnswerReader::Step& step) {
  if (step.stop) Finish(FinishReason::kStop);
  stream_->Emit(token, step, *request_.sink);
}

void RunningTurn::CheckLimits() {
  if (std::ssize(request_.tokens) >= session_len_) {
    Finish(FinishReason::kSessionFull);
  } else if (request_.max_tokens > 0 && generated() >= request_.max_tokens) {
    Finish(FinishReason::kLength);
  }
}

int64_t RunningTurn::evicted_since_begin() const {
  const Ring& ring = sequence_->cache()->ring();
  const int64_t now = ring.next() > 0 ? ring.EvictedAt(ring.next() - 1) : 0;
  return std::max<int64_t>(0, now - evicted_before_);
}

void RunningTurn::FillEvicted(CacheReport* report) const {
  // Recompute this from the window and the message starts, because the cache's ring may be gone.
  Ring ring(request_.window, request_.window.memory_len);
  for (const int64_t start : request_.message_starts) ring.AddMessageStart(start);
  const int64_t last = std::ssize(request_.tokens) - 1;
  report->tokens_evicted = ring.EvictedAt(last);
  if (report->tokens_evicted == 0) return;
  const auto starts = ring.message_starts();
  const auto from = std::lower_bound(starts.begin(), starts.end(), ring.window().pinned);
  report->messages_evicted = std::lower_bound(from, starts.end(), ring.FirstLive(last)) - from;
}

void RunningTurn::End(int64_t now_ns) {
  CHECK(finished_.has_value());
  TurnEnd end;
  end.reason = *finished_;
  end.error = error_;
  end.report = report_;
  end.drafts = draft_report_;
  end.rows_computed = std::max<int64_t>(rows_computed_, 0);
  if (begun()) {
    stream_->Finish(wants_logits(), *request_.sink, &end);
    end.output.assign(request_.tokens.begin() + prompt_tokens_, request_.tokens.end());
    end.report.position = std::ssize(request_.tokens) - request_.virtual_tokens;
    FillEvicted(&end.report);
    end.times = clock_.Times(stream_->reasoned_until_ns(), now_ns);
  }
  // Move the sink out, so that no reference remains after OnEnd.
  const std::shared_ptr<TokenSink> sink = std::move(request_.sink);
  sink->OnEnd(end);
}

std::unique_ptr<RunningTurn> MakeTurn(TurnRequest request, int64_t submitted_ns) {
  if (request.max_tokens == 0) {
    if (request.embedded) return std::make_unique<EmbeddingTurn>(std::move(request), submitted_ns);
    if (request.scored) return std::make_unique<ScoringTurn>(std::move(request), submitted_ns);
    return std::make_unique<RunningTurn>(std::move(request), submitted_ns);
  }
  if (request.sampling.beams.searches()) return std::make_unique<BeamTurn>(std::move(request), submitted_ns);
  return std::make_unique<GenerationTurn>(std::move(request), submitted_ns);
}

}  // namespace ringside
