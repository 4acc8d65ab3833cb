// One turn between Submit and OnEnd: its tokens so far, its sampler, and how its text leaves. Owned by the engine loop;
// engine thread only.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/beam_caches.h"
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
  /// Tokens, from the timeline's beginning on, that may come out of a cache: not the last, whose logits give the one
  /// that follows, and none whose logits score another that has no score yet.
  int64_t most_reused() const;
  const TurnRequest& request() const { return request_; }
  /// What its cache is to hold: its tokens so far, or, beside beams, its prompt.
  TimelineView timeline() const {
    const std::span<const TokenId> tokens = request_.tokens;
    return {beams_begun() ? tokens.first(prompt_tokens_) : tokens, request_.message_starts, request_.window,
            request_.adapter};
  }
  Sequence* sequence() const { return sequence_; }
  /// Tokens to compute before the next sample; 1 = it decodes.
  int64_t remaining() const { return remaining_; }

  int64_t submitted_ns() const { return submitted_ns_; }

  /// It waits for a slot, so far back in line (1 = next): tells the sink if that is news, and if it has not begun.
  void TellPosition(int64_t position) {
    if (!begun() && position != std::exchange(position_, position)) request_.sink->OnQueued(position);
  }
  /// It finds no slot, not for the first time perhaps.
  void NoteNoSlot(int64_t now_ns) {
    if (no_slot_ns_ == 0) no_slot_ns_ = now_ns;
  }
  /// Its first token is still to come.
  bool computes_prompt() const { return first_token_ns_ == 0 && remaining_ > 0; }
  /// Until its first token is read nothing shows whether the rows of its prompt are sound.
  bool awaits_first_token() const { return first_token_ns_ == 0; }
  /// A step begins in which its prompt has a part, or has none.
  void NoteStep(bool has_part, int64_t now_ns) {
    if (passed_over_ns_ != 0) others_ns_ += now_ns - passed_over_ns_;
    passed_over_ns_ = has_part ? 0 : now_ns;
  }
  /// When its prompt should have been computed, of which a token takes so long.
  int64_t Deadline(double ns_per_token) const {
    return PromptDeadline(submitted_ns_, static_cast<double>(remaining_) * ns_per_token);
  }
  /// The sequence has been synced: report it and make the sampler.
  void Begin(Sequence* sequence, const SyncResult& sync, const Tokenizer& tokenizer, int64_t vocab, int64_t session_len,
             int64_t now_ns);
  /// True from Begin on, also while it waits again.
  bool begun() const { return sequence_ != nullptr; }
  /// It had lost its cache meanwhile, which has been synced again: it goes on where it was.
  void GoOn(const SyncResult& sync) {
    const int64_t new_rows = beams_begun() ? 0 : remaining_;
    rows_computed_ -= std::max<int64_t>(sync.to_feed - new_rows, 0);  // recomputed rows are not charged
    remaining_ = sync.to_feed + (beams_begun() ? 2 : 0);              // until ResumeBeams counts their rows
  }
  /// So many rows are computed for it in the step that begins.
  void NoteRows(int64_t rows) { rows_computed_ += rows; }
  /// Its cache has come in, so long after the tiers were asked for it.
  void NoteRestored(double ms) {
    if (report_.source == CacheSource::kHost || report_.source == CacheSource::kDisk) report_.restore_ms = ms;
  }
  /// The next tokens to feed, at most `limit`.
  std::span<const TokenId> NextChunk(int64_t limit);
  /// The model has been given the chunk.
  void Fed(std::span<const TokenId> chunk);
  /// Whether the next chunk's logits score tokens of the prompt.
  bool scores_next() const;
  /// How the log probability of the token at `position`, which may be that behind the prompt, is asked for.
  TokenChoice ScoreAt(int64_t position) const;
  /// It is here.
  void TakeScore(int64_t position, const ChosenToken& token);
  /// The next rows give scores or hidden states that the turn does not have yet, and keeps without its cache.
  bool takes_results() const;
  /// The hidden states of the tokens from `first` on are here, [tokens, width].
  void TakeHiddenStates(int64_t first, std::span<const float> states, int64_t width);
  /// How the token after the timeline's last one, or after that of a beam, is chosen; valid until Take.
  TokenChoice Choice(size_t beam);
  /// That token is here, of the first beam that has not got one: appends, emits. Ends the turn by setting finished().
  void Take(const ChosenToken& chosen, int64_t now_ns);

  /// Caches that the turn needs besides its timeline's: for beams.
  int64_t branches() const {
    return request_.sampling.beams.searches() && wants_logits() ? request_.sampling.beams.width + 1 : 0;
  }
  /// Tokens that the timeline may have at the turn's end, where it has beams; now, where it has none.
  int64_t most_tokens() const;
  /// Gives it those caches.
  void GiveBranches(SlabMemory& memory, std::vector<KvCache*> caches) { beam_caches_.emplace(memory, caches); }
  /// Takes them back, at the turn's end or where it is preempted. With `keep` the timeline's cache gets the answer's
  /// rows from them.
  std::vector<KvCache*> TakeBranches(bool keep);
  /// It has beams, which are all fed at once.
  bool has_beams() const { return beam_caches_ && beam_caches_->begun() && remaining_ == 1; }
  /// Its beams have tokens, also while it waits again after a preemption.
  bool beams_begun() const { return search_ && search_->beams() > 0 && !search_->beam(0).tokens.empty(); }
  /// Rows that all beams' caches would lack after a preemption, at most.
  int64_t rows_of_beams() const {
    return beams_begun() ? std::ssize(search_->beam(0).tokens) * static_cast<int64_t>(search_->beams()) : 0;
  }
  /// After a preemption: its cache has the whole prompt again, and its beams' caches have nothing.
  bool may_resume_beams() const {
    return beams_begun() && beam_caches_ && !beam_caches_->begun() &&
           sequence_->computed() == static_cast<int64_t>(prompt_tokens_);
  }
  /// Makes the beams' caches branches of its cache; remaining() counts their rows from now on.
  /// REQUIRES: may_resume_beams().
  void ResumeBeams();
  /// Rows of its beams are computed again, those of one beam in a step.
  bool rebuilds_beams() const { return beam_caches_ && beam_caches_->begun() && remaining_ > 1; }
  struct BeamChunk {
    KvCache* cache;
    std::span<const TokenId> tokens;
  };
  /// The next of these rows, at most `limit`. REQUIRES: rebuilds_beams().
  BeamChunk NextBeamChunk(int64_t limit);
  size_t beams() const { return search_->beams(); }
  KvCache* BeamCache(size_t beam) const { return beam_caches_->OfBeam(beam); }
  /// The token to feed next.
  std::span<const TokenId> LastOfBeam(size_t beam) const { return std::span(search_->beam(beam).tokens).last(1); }
  /// Whether the token that the model has been asked for may be fed before it is known.
  bool CanRunAhead() const;
  /// Whether how the one after it is chosen does not depend on it.
  bool Foresees() const {
    const bool budget_ends = request_.reasoning_budget >= 0 && budget_used_ + 1 >= request_.reasoning_budget;
    return !matcher_ && forced_.empty() && !(budget_ends && !reader_->in_answer()) && sampler_->Foresees();
  }
  /// How that one is chosen, where it is foreseen.
  TokenChoice ChoiceAhead() { return sampler_->Choice(static_cast<int64_t>(request_.tokens.size()) + 1); }
  /// The model is given the awaited token unseen.
  void RunAhead() { ahead_ = true; }
  /// A turn without an answer (a warm-up, or one that only scores) has computed everything.
  void FinishPrefill();

  void Finish(FinishReason reason, Status error = {});
  std::optional<FinishReason> finished() const { return finished_; }
  /// Tokens that the turn pushed out of the window so far.
  int64_t evicted_since_begin() const;
  /// Emits what is held back and OnEnd; the turn is over. Call once.
  void End(int64_t now_ns);

 private:
  /// What was found for the next beam is here.
  void TakeForBeam(const ChosenToken& found);
  /// Tokens of a beam that have rows in its cache while the last one is to be fed.
  std::span<const TokenId> FedOfBeam(size_t beam) const {
    const std::span<const TokenId> tokens = search_->beam(beam).tokens;
    return tokens.first(tokens.size() - 1);
  }
  void FedBeamChunk(std::span<const TokenId> chunk);
  /// What all beams make of their tokens: parts, ends, and what of the answer is settled.
  void AdvanceBeams();
  /// A token of the answer.
  void Append(const OutputToken& token);
  /// Sends it to the sink, once it shows which channel it is in.
  void Tell(const OutputToken& token, const AnswerReader::Step& step);
  /// Ends the turn where its answer has become a loop.
  void CheckRepetition(TokenId id);
  /// Everything is scored that was to be.
  void TellScores();
  void TellEmbedding();
  void CheckLimits();
  /// Makes the reader, and finds out what of the answer there is already.
  void BeginReading(const Tokenizer& tokenizer);
  /// Finds out which tokens may follow. Ends the turn where the grammar lets none, or that cannot be found out.
  void FindAllowed();
  void FollowGrammar();
  /// The grammar takes what the token adds to the answer. `answered`: the answer had begun before it. `forced`: it was
  /// not sampled.
  Status TakeByGrammar(TokenId id, const AnswerReader::Step& step, bool answered, bool forced);
  /// Ends reasoning once its budget is used up.
  void CheckBudget();
  /// Has `markup` appended as if it had been sampled.
  void Force(std::string_view markup);
  void FillEvicted(CacheReport* report) const;

  TurnRequest request_;  // request_.tokens grows by each sampled token: the timeline
  size_t prompt_tokens_ = 0;
  int64_t submitted_ns_, begun_ns_ = 0, first_token_ns_ = 0;
  int64_t no_slot_ns_ = 0;                      // since when; 0 = it had one at once
  int64_t passed_over_ns_ = 0, others_ns_ = 0;  // since when, and how long in all before
  int64_t session_len_ = 0;
  Sequence* sequence_ = nullptr;
  int64_t position_ = 0;  // in line, as told
  int64_t remaining_ = 0;
  int64_t rows_computed_ = 0;  // without those that are not charged
  bool ahead_ = false;         // the token that is awaited has been fed
  CacheReport report_;
  std::optional<OutputToken> stop_token_;
  std::vector<OutputToken> scored_;  // of the prompt, so far; until they are told
  bool told_scores_ = false;
  std::vector<double> embedding_;  // the sum of the hidden states
  int64_t embedded_tokens_ = 0;    // of so many
  int64_t evicted_before_ = 0;
  std::optional<Sampler> sampler_;
  std::optional<AnswerReader> reader_;
  const Tokenizer* tokenizer_ = nullptr;
  std::vector<OutputToken> undecided_;     // until it shows which channel they are in
  std::vector<TokenId> forced_;            // tokens that are appended next, in place of sampled ones
  TokenId opens_reasoning_ = -1;           // the token that does, where there is a grammar
  int64_t taken_ns_ = 0;                   // when the last token was known
  int64_t reasoned_until_ns_ = 0;          // when the last token of reasoning was; 0 = there was none
  int64_t reasoning_tokens_ = 0;           // of this turn
  int64_t budget_used_ = 0;                // including the earlier part of a continued answer
  RepetitionGuard repetition_;
  std::optional<GrammarMatcher> matcher_;  // with a grammar
  std::vector<uint32_t> allowed_;          // a bit an id of the model's vocabulary; empty = all
  size_t allowed_words_ = 0;
  std::optional<BeamSearch> search_;       // with beams
  std::optional<BeamCaches> beam_caches_;  // likewise
  size_t rebuilt_beam_ = 0;                // whose rows are computed again, after a preemption
  std::vector<ChosenToken> found_;         // for the first beams, in this step
  std::string stop_string_;
  std::optional<FinishReason> finished_;
  Status error_;
};

}  // namespace ringside
