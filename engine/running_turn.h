// One turn between Submit and OnEnd: its tokens so far, its sampler, and its streamed text. Owned by the engine loop.
// THREAD: engine.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/beam_caches.h"
#include "engine/call_guide.h"
#include "engine/engine.h"
#include "engine/grammar/grammar.h"
#include "engine/sampling/beam_search.h"
#include "engine/sampling/sampling.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/text/channels/answer_reader.h"
#include "engine/text/channels/channel_format.h"
#include "engine/text/repetition_guard.h"

namespace ringside {

class RunningTurn {
 public:
  RunningTurn(TurnRequest request, int64_t submitted_ns) : request_(std::move(request)), submitted_ns_(submitted_ns) {}

  TurnId id() const { return request_.turn; }
  TimelineId timeline_id() const { return request_.timeline; }
  bool wants_logits() const { return request_.max_tokens != 0; }
  /// Length of the prefix that may come from a cache: without the last token, whose logits give the next one, and
  /// without tokens whose logits give a score that is still missing.
  int64_t max_reusable() const;
  const TurnRequest& request() const { return request_; }
  /// The intended content of its cache: all tokens so far, or only the prompt if it has beams.
  TimelineView timeline() const {
    const std::span<const TokenId> tokens = request_.tokens;
    return {beams_begun() ? tokens.first(prompt_tokens_) : tokens, request_.message_starts, request_.window,
            request_.adapter};
  }
  Sequence* sequence() const { return sequence_; }
  /// Tokens to compute before the next sample; 1 = decodes.
  int64_t remaining() const { return remaining_; }

  int64_t submitted_ns() const { return submitted_ns_; }

  /// Queue position (1 = next): notifies the sink if it changed and the turn has not started.
  void NotifyPosition(int64_t position) {
    if (!begun() && position != std::exchange(position_, position)) request_.sink->OnQueued(position);
  }
  /// Records the first failure to get a slot.
  void NoteNoSlot(int64_t now_ns) {
    if (no_slot_ns_ == 0) no_slot_ns_ = now_ns;
  }
  /// True until its first token is sampled.
  bool computes_prompt() const { return first_token_ns_ == 0 && remaining_ > 0; }
  /// True until the first token is read; before that, errors in the prompt's rows are not detected.
  bool awaits_first_token() const { return first_token_ns_ == 0; }
  /// Records whether its prompt takes part in the step that starts.
  void NoteStep(bool has_part, int64_t now_ns) {
    if (passed_over_ns_ != 0) others_ns_ += now_ns - passed_over_ns_;
    passed_over_ns_ = has_part ? 0 : now_ns;
  }
  /// Deadline of its prompt, given the time per token.
  int64_t Deadline(double ns_per_token) const {
    return PromptDeadline(submitted_ns_, static_cast<double>(remaining_) * ns_per_token);
  }
  /// Starts the turn after its sequence was synced: reports the cache and creates the sampler.
  void Begin(Sequence* sequence, const SyncResult& sync, const Tokenizer& tokenizer, int64_t vocab, int64_t session_len,
             int64_t now_ns);
  /// True from Begin on, also while it is queued again.
  bool begun() const { return sequence_ != nullptr; }
  /// Resumes after a preemption; its cache was synced again.
  void ResumeAfterPreemption(const SyncResult& sync) {
    const int64_t new_rows = beams_begun() ? 0 : remaining_;
    rows_computed_ -= std::max<int64_t>(sync.to_feed - new_rows, 0);  // recomputed rows are not charged
    // provisional until ResumeBeams counts the beams' rows
    remaining_ = sync.to_feed + (beams_begun() ? 2 : 0);
  }
  /// Adds rows that the next step computes for it.
  void NoteRows(int64_t rows) { rows_computed_ += rows; }
  /// Its cache has been loaded, `ms` after the request to the tiers.
  void NoteRestored(double ms) {
    if (report_.source == CacheSource::kHost || report_.source == CacheSource::kDisk) report_.restore_ms = ms;
  }
  /// The next tokens to feed, at most `limit`.
  std::span<const TokenId> NextChunk(int64_t limit);
  /// The chunk was given to the model.
  void AdvancePosition(std::span<const TokenId> chunk);
  /// True if the next chunk's logits score prompt tokens.
  bool scores_next() const;
  /// Parameters to score the token at `position` (up to the first one after the prompt).
  RowSamplingParams ScoreAt(int64_t position) const;
  /// Stores the score.
  void StoreScore(int64_t position, const SampledToken& token);
  /// True if the next rows give scores or hidden states that are still missing; the turn keeps those when it loses its
  /// cache.
  bool needs_results() const;
  /// Adds the hidden states of the tokens from `first` on, [tokens, width].
  void CollectHiddenStates(int64_t first, std::span<const float> states, int64_t width);
  /// Sampling parameters for the token after the timeline's last one, or after the beam's; valid until Take.
  RowSamplingParams Choice(size_t beam);
  /// Processes the sampled token, of the next beam if there are beams: appends and emits. Sets finished() at the end.
  void Take(const SampledToken& chosen, int64_t now_ns);

  /// Additional caches, for beams.
  int64_t branches() const {
    return request_.sampling.beams.searches() && wants_logits() ? request_.sampling.beams.width + 1 : 0;
  }
  /// The timeline's length: with beams, the maximum at the turn's end; otherwise the current one.
  int64_t most_tokens() const;
  /// Gives the turn these caches.
  void AttachBranches(SlabMemory& memory, std::vector<KvCache*> caches) { beam_caches_.emplace(memory, caches); }
  /// Returns these caches at the turn's end or on preemption. With `keep`, appends the answer's rows to the timeline's
  /// cache.
  std::vector<KvCache*> DetachBranches(bool keep);
  /// True while it decodes beams, all in one step.
  bool has_beams() const { return beam_caches_ && beam_caches_->begun() && remaining_ == 1; }
  /// True once its beams have tokens, also while it is queued after a preemption.
  bool beams_begun() const { return search_ && search_->beams() > 0 && !search_->beam(0).tokens.empty(); }
  /// Maximum rows to recompute for all beams after a preemption.
  int64_t rows_of_beams() const {
    return beams_begun() ? std::ssize(search_->beam(0).tokens) * static_cast<int64_t>(search_->beams()) : 0;
  }
  /// True after a preemption once its cache has the whole prompt and the beams' caches are empty.
  bool may_resume_beams() const {
    return beams_begun() && beam_caches_ && !beam_caches_->begun() &&
           sequence_->computed() == static_cast<int64_t>(prompt_tokens_);
  }
  /// Makes the beams' caches branches of its cache; remaining() then counts their rows. REQUIRES: may_resume_beams().
  void ResumeBeams();
  /// True while the beams' rows are recomputed, one beam per step.
  bool rebuilds_beams() const { return beam_caches_ && beam_caches_->begun() && remaining_ > 1; }
  struct BeamChunk {
    KvCache* cache;
    std::span<const TokenId> tokens;
  };
  /// The next of these rows, at most `limit`. REQUIRES: rebuilds_beams().
  BeamChunk NextBeamChunk(int64_t limit);
  size_t beams() const { return search_->beams(); }
  KvCache* BeamCache(size_t beam) const { return beam_caches_->OfBeam(beam); }
  /// The next token to feed.
  std::span<const TokenId> LastOfBeam(size_t beam) const { return std::span(search_->beam(beam).tokens).last(1); }
  /// True if the token being sampled may be fed before the host knows it.
  bool CanRunAhead() const;
  /// True if the sampling parameters of the token after that do not depend on it.
  bool ParamsKnownAhead() const {
    const bool budget_ends = request_.reasoning_budget >= 0 && budget_used_ + 1 >= request_.reasoning_budget;
    return !matcher_ && forced_.empty() && !(budget_ends && !reader_->in_answer()) && sampler_->ParamsKnownAhead();
  }
  /// These parameters. REQUIRES: ParamsKnownAhead().
  RowSamplingParams ChoiceAhead() { return sampler_->Choice(static_cast<int64_t>(request_.tokens.size()) + 1); }
  /// The token being sampled was fed on the device.
  void RunAhead() { ahead_ = true; }
  /// Finishes a turn without an answer (warm-up, scoring, embedding) after its last row.
  void FinishPrefill();

  void Finish(FinishReason reason, Status error = {});
  std::optional<FinishReason> finished() const { return finished_; }
  /// Tokens that the turn has evicted from the window so far.
  int64_t evicted_since_begin() const;
  /// Emits held-back text and OnEnd. Call once.
  void End(int64_t now_ns);

 private:
  /// Processes the candidates of the next beam.
  void AddBeamCandidates(const SampledToken& found);
  /// Tokens of a beam that have rows in its cache before the last one is fed.
  std::span<const TokenId> CachedTokensOfBeam(size_t beam) const {
    const std::span<const TokenId> tokens = search_->beam(beam).tokens;
    return tokens.first(tokens.size() - 1);
  }
  void AdvanceBeamPosition(std::span<const TokenId> chunk);
  /// Advances the search after all beams have candidates: reorders, ends, and emits the settled text.
  void AdvanceBeams();
  /// Appends a token of the answer.
  void Append(const OutputToken& token);
  /// Sends the token to the sink, once its channel is known.
  void EmitToken(const OutputToken& token, const AnswerReader::Step& step);
  /// Ends the turn if its answer repeats itself.
  void CheckRepetition(TokenId id);
  /// Sends the scores to the sink once they are complete.
  void ReportScores();
  void ReportEmbedding();
  void CheckLimits();
  /// Creates the reader and feeds it the existing part of the answer.
  void BeginReading(const Tokenizer& tokenizer);
  /// Computes the mask of allowed tokens. Ends the turn if the grammar allows none or its work budget is used up.
  void FindAllowed();
  void FollowGrammar();
  /// The grammar takes what the token adds to the answer. `answered`: the answer had begun before it. `forced`: it was
  /// not sampled. `called`: it came in a call.
  Status AdvanceGrammar(TokenId id, const AnswerReader::Step& step, bool answered, bool forced, bool called);
  /// Restricts the next token of a message's header. False where any may come.
  bool FollowHeader();
  /// AdvanceGrammar of a token in a call, or that begins or ends it. `within`: the call had begun before it.
  Status TakeInCall(const AnswerReader::Step& step, bool within);
  /// Ends the reasoning when its budget is used up.
  void CheckBudget();
  /// Queues `markup` to be appended as if it had been sampled.
  void Force(std::string_view markup);
  void FillEvicted(CacheReport* report) const;

  TurnRequest request_;  // request_.tokens is the timeline; it grows by each sampled token
  size_t prompt_tokens_ = 0;
  int64_t submitted_ns_, begun_ns_ = 0, first_token_ns_ = 0;
  int64_t no_slot_ns_ = 0;                      // time of the first failure to get a slot; 0 = none
  int64_t passed_over_ns_ = 0, others_ns_ = 0;  // start of the current pause, and total of earlier ones
  int64_t session_len_ = 0;
  Sequence* sequence_ = nullptr;
  int64_t position_ = 0;  // last reported queue position
  int64_t remaining_ = 0;
  int64_t rows_computed_ = 0;  // without uncharged rows
  bool ahead_ = false;         // the token being sampled has been fed
  CacheReport report_;
  std::optional<OutputToken> stop_token_;
  std::vector<OutputToken> scored_;  // prompt scores so far, until reported
  bool scores_reported_ = false;
  std::vector<double> embedding_;  // sum of the hidden states
  int64_t embedded_tokens_ = 0;    // number of summed states
  int64_t evicted_before_ = 0;
  std::optional<Sampler> sampler_;
  std::optional<AnswerReader> reader_;
  const Tokenizer* tokenizer_ = nullptr;
  std::vector<OutputToken> undecided_;  // tokens whose channel is not known yet
  std::vector<TokenId> forced_;         // tokens to append next, in place of sampled ones
  TokenId opens_reasoning_ = -1;        // the token that opens reasoning, if there is a grammar
  int64_t taken_ns_ = 0;                // arrival of the last token
  int64_t reasoned_until_ns_ = 0;       // arrival of the last reasoning token; 0 = none
  int64_t reasoning_tokens_ = 0;        // in this turn
  int64_t budget_used_ = 0;             // including the earlier part of a continued answer
  RepetitionGuard repetition_;
  std::optional<GrammarMatcher> matcher_;  // if there is a grammar
  std::optional<CallGuide> guide_;         // with recipients
  bool follows_call_ = false;              // the matcher has taken the call that has begun
  std::vector<uint32_t> allowed_;          // bit mask over the model's vocabulary; empty = all allowed
  size_t allowed_words_ = 0;
  std::optional<BeamSearch> search_;       // if there are beams
  std::optional<BeamCaches> beam_caches_;  // if there are beams
  size_t rebuilt_beam_ = 0;                // beam being recomputed after a preemption
  std::vector<SampledToken> found_;        // candidates of the first beams in this step
  std::string stop_string_;
  std::optional<FinishReason> finished_;
  Status error_;
};

}  // namespace ringside
