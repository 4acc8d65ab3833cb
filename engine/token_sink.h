// Receives a turn's events from the engine. Implemented in session/. THREAD: called on the engine thread; must not
// block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/sampling/sampling.h"
#include "engine/text/tokenizer.h"

namespace ringside {

enum class CacheSource { kNew, kSlot, kHost, kDisk, kRecomputed };
const char* CacheSourceName(CacheSource source);

/// How the engine made the cache equal to the turn's tokens.
struct CacheReport {
  CacheSource source = CacheSource::kNew;
  int64_t tokens_reused = 0;    // found in the slot, or restored into it
  int64_t tokens_computed = 0;  // prefilled for this turn
  int64_t tokens_replayed = 0;  // part of tokens_computed: cached, but after the last usable recurrent state
  int64_t tokens_evicted = 0;   // tokens of the timeline that are no longer visible at the end of the turn
  int64_t messages_evicted = 0;
  double restore_ms = 0;  // host, disk: from the request to the tiers to the end of the copy into the slot
  int64_t position = 0;   // length of the timeline at the end of the turn
};

/// Speculative decoding of a turn.
struct DraftReport {
  int64_t steps = 0;     // steps that verified a draft
  int64_t drafted = 0;   // tokens of all drafts
  int64_t accepted = 0;  // part of the answer that came from drafts
};

/// Stored by number: append only.
enum class FinishReason {
  kStop,
  kLength,
  kSessionFull,
  kCancelled,
  kError,
  kRepetition,  // the answer repeated itself (RepetitionGuard)
};

struct OutputToken {
  TokenId id = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;
};
/// The part of an answer from one step. `text` is whole UTF-8 characters without stop strings; it may be empty while
/// text is held back. A stop token is in neither `text` nor `tokens`; TurnEnd has it. With channels
/// (TurnRequest::channels) `text` is the answer alone, and channel markup is in neither text.
struct TokenDelta {
  std::vector<OutputToken> tokens;
  std::string text;
  std::string reasoning;         // precedes `text`
  bool reasoning_ended = false;  // the answer has started
  int64_t reasoning_tokens = 0;  // the first `reasoning_tokens` of `tokens` are reasoning or channel markup
};

struct TurnTimes {
  double queue_ms = 0;      // from Submit until its slot and cache are ready
  double slot_ms = 0;       // part of queue_ms: no slot was free
  double prefill_ms = 0;    // from there to the first token: queue + prefill = time to first token
  double others_ms = 0;     // part of prefill_ms: steps with other prompts only
  double decode_ms = 0;     // from the first token to the end
  double reasoning_ms = 0;  // part of decode_ms: until the answer started
};

struct TurnEnd {
  FinishReason reason = FinishReason::kStop;
  Status error;                           // for kError
  std::string stop_string;                // the stop string that ended it, if any
  std::vector<TokenId> output;            // every sampled id, the stop token included: append these to the timeline
  std::optional<OutputToken> stop_token;  // the last of `output`, if it ended the answer by itself
  CacheReport report;
  DraftReport drafts;
  TurnTimes times;
  /// Rows that the network computed for the turn: the prompt's, and those of every beam in every step. Rows recomputed
  /// after a preemption are not counted. nullopt = not counted.
  std::optional<int64_t> rows_computed;
  int64_t reasoning_tokens = 0;   // part of `output`: reasoning and channel markup
  bool cut_in_reasoning = false;  // the turn ended before the answer started
};

class TokenSink {
 public:
  virtual ~TokenSink() = default;
  /// The turn waits for a slot at `position` in the queue (1 = next). Called on each change, before OnStart.
  virtual void OnQueued(int64_t position) { (void)position; }
  /// The turn's first step starts; the cache is known. Called once, before any tokens.
  virtual void OnStart(const CacheReport& report) = 0;
  /// TurnRequest::scored: every token of the timeline before the answer with its raw log probability, without bans,
  /// biases and penalties. The first token has none (0). Called once, before OnTokens.
  virtual void OnScored(std::vector<OutputToken> tokens) { (void)tokens; }
  /// TurnRequest::embedded: the mean over the tokens of the final norm's output, NetworkShape::hidden numbers. Called
  /// once, before OnEnd, unless the turn failed.
  virtual void OnEmbedded(std::vector<float> mean) { (void)mean; }
  virtual void OnTokens(const TokenDelta& delta) = 0;
  /// The last call, exactly once for every accepted turn. Afterwards the engine holds no reference to the sink.
  virtual void OnEnd(const TurnEnd& end) = 0;
};

}  // namespace ringside
