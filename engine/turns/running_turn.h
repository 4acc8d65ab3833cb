// One turn between Submit and OnEnd: its tokens so far, its place in the steps, its times and its end. Each kind of
// turn is a subclass in this folder: generation, beam, scoring, embedding, warm-up (MakeTurn). Owned by the engine's
// queue, then by its slots. THREAD: engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/model/network.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/turn_request.h"
#include "engine/turns/answer_stream.h"
#include "engine/turns/drafting_turn.h"
#include "engine/turns/turn_clock.h"
#include "engine/turns/turn_images.h"

namespace ringside {

class SlabMemory;

/// A row of logits of a turn: samples a token of its answer, or scores a token of its prompt.
struct TurnRow {
  bool awaits = false;  // its input token is not known on the host yet
  size_t beam = 0;      // index of the beam
  int64_t scored = 0;   // position of the scored token; 0 = samples
  int64_t drafted = 0;  // its input is the turn's draft token with this number, counted from 1; 0 = no draft
  bool samples() const { return scored == 0; }
};
/// The rows of a turn in a step, borrowed from the turn until the step is launched.
struct TurnRows {
  std::vector<StepPart> parts;
  std::vector<TurnRow> logits;  // in the order of the parts
  bool samples() const { return !logits.empty() && logits.back().samples(); }
};

class RunningTurn {
 public:
  RunningTurn(TurnRequest request, int64_t submitted_ns)
      : request_(std::move(request)), images_(request_.images, request_.tokens), clock_(submitted_ns) {}
  virtual ~RunningTurn() = default;
  RunningTurn(const RunningTurn&) = delete;
  RunningTurn& operator=(const RunningTurn&) = delete;

  const TurnRequest& request() const { return request_; }
  TurnId id() const { return request_.turn; }
  TimelineId timeline_id() const { return request_.timeline; }
  TurnClock& clock() { return clock_; }
  const TurnClock& clock() const { return clock_; }
  /// True if it has an answer.
  bool wants_logits() const { return request_.max_tokens != 0; }
  /// The intended content of its cache: all tokens so far, or only the prompt if it has beams.
  TimelineView timeline() const;
  Sequence* sequence() const { return sequence_; }
  /// Tokens to compute before the next sample; 1 = decodes.
  int64_t remaining() const { return remaining_; }
  /// The timeline's length: with beams, the maximum at the turn's end; otherwise the current one.
  int64_t most_tokens() const;
  /// Additional caches, for beams.
  int64_t branches() const;

  /// The image whose rows its next tokens need; null if they need none, or if they are set (TurnImages::SetRows).
  const ImageInput* FindPendingImage() const;
  TurnImages& images() { return images_; }

  /// Queue position (1 = next): notifies the sink if it changed and the turn has not started.
  void NotifyPosition(int64_t position);
  /// True until its first token is sampled.
  bool computes_prompt() const { return clock_.awaits_first_token() && remaining_ > 0; }
  /// Its cache has been loaded, `ms` after the request to the tiers.
  void NoteRestored(double ms);
  /// Middle of its prompt: a position with its mean attention time. REQUIRES: begun().
  int64_t prompt_middle() const { return sequence_->computed() + remaining_ - begun_remaining_ / 2; }
  /// Urgency of its prompt, given the time per token.
  double Urgency(int64_t now_ns, double ns_per_token) const;

  // Life.
  /// Starts the turn after its sequence was synced: reports the cache and creates what the kind needs.
  void Begin(Sequence* sequence, const SyncResult& sync, const Tokenizer& tokenizer, int64_t vocab, int64_t session_len,
             int64_t now_ns);
  /// True from Begin on, also while it is queued again.
  bool begun() const { return sequence_ != nullptr; }
  /// Resumes after a preemption; its cache was synced again.
  void Resume(const SyncResult& sync);
  /// Adds rows that the next step computes for it.
  void NoteRows(int64_t rows) { rows_computed_ += rows; }
  /// Finishes a turn without an answer once its last row is computed and its results are there.
  void FinishIfComputed();
  void Finish(FinishReason reason, Status error = {});
  std::optional<FinishReason> finished() const { return finished_; }
  /// Tokens that the turn has evicted from the window so far.
  int64_t evicted_since_begin() const;
  /// Emits held-back text and OnEnd. REQUIRES: finished(). Call once.
  void End(int64_t now_ns);

  // The kind of turn. The defaults are those of a turn without results.
  /// Length of the prefix that may come from a cache: without the last token, whose logits give the next one, and
  /// without tokens whose rows give a result that is still missing.
  virtual int64_t max_reusable() const;
  /// Called before each step. `loaded`: its cache has all restored rows. False: it cannot take part yet.
  virtual bool PrepareStep(bool /*loaded*/) { return true; }
  /// Its rows in the next step, at most `limit` tokens of its prompt. REQUIRES: remaining() > 0.
  virtual TurnRows NextRows(int64_t limit) { return PromptRows(limit, /*scores=*/false); }
  /// These tokens were given to the network. `awaits`: the token that is being sampled.
  virtual void OnLaunched(std::span<const TokenId> tokens, bool awaits);
  /// Whether the token that is being sampled may be fed before the host knows it.
  enum class RunAhead {
    kNo,
    kDeferred,  // yes, but the sampling parameters of the token after it depend on it
    kYes,
  };
  virtual RunAhead run_ahead() const { return RunAhead::kNo; }
  /// Sampling parameters of a row, which borrow from the turn until Take.
  virtual RowSamplingParams Params(const TurnRow& row);
  /// Processes the result of a row. Sets finished() at the end. REQUIRES: not finished.
  virtual void Take(const TurnRow& row, const SampledToken& token, int64_t now_ns);
  /// Null if it never drafts tokens.
  virtual DraftingTurn* drafting() { return nullptr; }
  /// True if the next rows of its prompt have logits.
  virtual bool scores_next() const { return false; }
  /// True if the next rows give scores or hidden states that are still missing; the turn keeps those when it loses its
  /// cache.
  virtual bool needs_results() const { return false; }
  /// Adds the hidden states of the tokens from `first` on, [tokens, width].
  virtual void CollectHiddenStates(int64_t first, std::span<const float> states, int64_t width);
  /// Gives the turn branches() caches.
  virtual void AttachBranches(SlabMemory& memory, std::vector<KvCache*> caches);
  /// Returns them at the turn's end or on preemption. With `keep`, appends the answer's rows to the timeline's cache.
  virtual std::vector<KvCache*> DetachBranches(bool keep);
  /// Maximum rows to recompute for its beams after a preemption; 0 = no beam has tokens.
  virtual int64_t beam_rows() const { return 0; }

 protected:
  /// Called by Begin.
  virtual void Start(const Tokenizer& /*tokenizer*/, int64_t /*vocab*/) {}
  /// Finishes a turn without an answer, unless results are missing: the step that gives the last ones may have been
  /// launched ahead of the finished one.
  virtual void FinishPrefill();

  /// The next part of the prompt. `scores`: its rows score the tokens after them.
  TurnRows PromptRows(int64_t limit, bool scores);
  /// The chunk is in the cache.
  void AdvancePosition(std::span<const TokenId> chunk);
  /// A token of the answer has arrived.
  void NoteToken(int64_t now_ns);
  /// Appends a token of the answer to the timeline.
  void AppendToTimeline(TokenId id) { request_.tokens.push_back(id); }
  /// Ends an answer at a stop string or a stop token, and sends the token to the sink.
  void Emit(const OutputToken& token, const AnswerReader::Step& step);
  /// Ends an answer at its limits.
  void CheckLimits();
  AnswerStream& stream() { return *stream_; }
  const AnswerStream& stream() const { return *stream_; }
  /// Length of the timeline at Begin.
  int64_t prompt_tokens() const { return prompt_tokens_; }
  /// Tokens of the answer so far.
  int64_t generated() const { return std::ssize(request_.tokens) - prompt_tokens_; }
  int64_t session_len() const { return session_len_; }
  void SetRemaining(int64_t remaining) { remaining_ = remaining; }
  DraftReport& draft_report() { return draft_report_; }
  TokenSink& sink() const { return *request_.sink; }

 private:
  void FillEvicted(CacheReport* report) const;

  TurnRequest request_;  // request_.tokens is the timeline; it grows by each sampled token
  TurnImages images_;
  TurnClock clock_;
  int64_t prompt_tokens_ = 0;
  int64_t session_len_ = 0;
  Sequence* sequence_ = nullptr;
  int64_t position_ = 0;  // last reported queue position
  int64_t remaining_ = 0;
  int64_t begun_remaining_ = 0;  // when it got its slot
  int64_t rows_computed_ = 0;    // without uncharged rows
  CacheReport report_;
  DraftReport draft_report_;
  int64_t evicted_before_ = 0;
  std::optional<AnswerStream> stream_;  // from Begin on
  std::optional<FinishReason> finished_;
  Status error_;
};

/// The kind of turn that the request asks for; a RunningTurn is a warm-up.
std::unique_ptr<RunningTurn> MakeTurn(TurnRequest request, int64_t submitted_ns);

}  // namespace ringside
