// Where the engine sends what happens to a turn. Implemented in session/; called on the engine thread, must not block.
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

/// What the engine did to make the cache equal the turn's tokens: promise P5.
struct CacheReport {
  CacheSource source = CacheSource::kNew;
  int64_t tokens_reused = 0;    // found in the slot, or brought back to it
  int64_t tokens_computed = 0;  // prefilled for this turn
  int64_t tokens_evicted = 0;   // of the timeline, no longer visible at the end of the turn
  int64_t messages_evicted = 0;
  double restore_ms = 0;  // host, disk: from asking the tiers to the end of the copy into the slot
  int64_t position = 0;   // tokens of the timeline at the end of the turn
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
/// One step's worth of an answer. `text` is whole UTF-8 characters and free of stop strings; it may be empty while the
/// tokens are held back. A stop token is no part of the text and not among the tokens; TurnEnd has it. With channels
/// (TurnRequest::channels) `text` is the answer's alone, and markup of channels is in neither text.
struct TokenDelta {
  std::vector<OutputToken> tokens;
  std::string text;
  std::string reasoning;         // comes before `text`
  bool reasoning_ended = false;  // the answer has begun
  int64_t reasoning_tokens = 0;  // the first `reasoning_tokens` of `tokens` are reasoning or markup of channels
};

struct TurnTimes {
  double queue_ms = 0;    // from Submit to the slot and its cache
  double slot_ms = 0;     // of it: while no slot was free
  double prefill_ms = 0;  // from there to the first token: queue + prefill = time to first token
  double others_ms = 0;   // of it: in steps that computed others' prompts and none of its own
  double decode_ms = 0;   // from the first token to the end
  double reasoning_ms = 0;  // part of decode_ms: until the answer began
};

struct TurnEnd {
  FinishReason reason = FinishReason::kStop;
  Status error;                           // for kError
  std::string stop_string;                // that ended it, if one did
  std::vector<TokenId> output;            // every sampled id, the stop token included: append these to the timeline
  std::optional<OutputToken> stop_token;  // the last of `output`, if it ended the answer by itself
  CacheReport report;
  TurnTimes times;
  /// Rows that the network computed for the turn, in all: the prompt's, and those of every beam in every step. Rows that
  /// were computed once more because the turn gave its memory up are not among them. Nothing = the engine did not count.
  std::optional<int64_t> rows_computed;
  int64_t reasoning_tokens = 0;   // of `output`: reasoning, and markup of channels
  bool cut_in_reasoning = false;  // the turn ended before the answer began
};

class TokenSink {
 public:
  virtual ~TokenSink() = default;
  /// The turn waits for a slot, `position` in line (1 = next); told when that changes, before OnStart.
  virtual void OnQueued(int64_t position) { (void)position; }
  /// The turn's first step begins: the cache is known. Called once, before any tokens.
  virtual void OnStart(const CacheReport& report) = 0;
  /// TurnRequest::scored: every token of the timeline before the answer with its log probability, as the model gives
  /// it: without bans, biases and penalties. The first, which nothing precedes, has none (0). Called once, before
  /// OnTokens.
  virtual void OnScored(std::vector<OutputToken> tokens) { (void)tokens; }
  /// TurnRequest::embedded: the mean of what the network's final norm made of the tokens, NetworkShape::hidden numbers.
  /// Called once, before OnEnd; not where the turn failed.
  virtual void OnEmbedded(std::vector<float> mean) { (void)mean; }
  virtual void OnTokens(const TokenDelta& delta) = 0;
  /// Called exactly once for every accepted turn, last. After it the engine holds no reference to the sink.
  virtual void OnEnd(const TurnEnd& end) = 0;
};

}  // namespace ringside
