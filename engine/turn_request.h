// The engine's input for one turn. A plain value; see Engine::Submit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/ring.h"
#include "engine/sampling/sampling.h"
#include "engine/text/tokenizer.h"
#include "engine/token_sink.h"
#include "engine/vision/image_input.h"

namespace ringside {

struct ChannelFormat;
class Grammar;
class GrammarMatcher;

using TimelineId = uint64_t;  // a conversation's timeline; chosen by the session layer, unique in the process
using TurnId = uint64_t;      // chosen by the session layer, unique in the process

struct TurnRequest {
  TurnId turn = 0;
  TimelineId timeline = 0;  // not 0
  std::string tenant;       // the tenant, for fair scheduling; "" is a tenant, too
  std::string owner;        // the conversation's name in the tiers, 1 to 128 bytes; "" = its cache is never saved
  /// True if earlier tokens of the conversation were computed before, even by an earlier process: if no cache is found,
  /// it was lost, and the turn reports recomputation.
  bool continues = false;
  int64_t known_tokens = 0;  // the first of `tokens` that earlier turns of the conversation have computed
  /// The timeline that this new one was forked from, and its owner; 0 = none. Rows in its slot are copied on the
  /// device, once its prompt is computed; its stored cache is shared with the new owner.
  TimelineId forked_from = 0;
  std::string forked_owner;
  bool continues_answer = false;  // continues a cut answer, so a space at the start of the output is text
  /// The whole timeline before the answer: history and new input. The engine makes the cache equal to it and reuses
  /// what it can: the longest common prefix in the slot, rolled back if the ring still allows it, else rebuilt.
  std::vector<TokenId> tokens;
  /// Images of the timeline, in order of their positions, which may lack those whose rows are not computed again. A row
  /// to compute whose image is missing fails the turn.
  std::vector<ImageInput> images;
  std::vector<int64_t> message_starts;  // ascending positions in `tokens` at which messages start
  RingWindow window;                    // pinned <= pinned_max, memory_len <= the engine's
  int64_t session_len = 0;              // <= the engine's; 0 = the engine's
  std::string model;                    // in a server with several, its name: chooses the engine
  int adapter = 0;                      // one of NetworkShape::adapters, counted from 1; 0 = the base network
  int64_t virtual_tokens = 0;           // the adapter's soft prompt, which the engine puts before `tokens` and pins
  SamplingParams sampling;
  std::vector<std::string> stop_strings;
  std::vector<TokenId> stop_ids;  // including the model's end-of-turn tokens, unless ignored
  /// One of several answers to one prompt. If another timeline of the tenant has the prompt in a slot and the device
  /// supports branches, this turn's cache is a copy-on-write branch, dropped with the turn.
  bool may_branch = false;
  /// Also returns the log probabilities of `tokens` (sampling.logprobs, at least 0, is the number of alternatives).
  /// They are all computed, whatever a cache has; at most one window.
  bool scored = false;
  /// Returns the mean of its tokens' hidden states (TokenSink::OnEmbedded) and no answer (max_tokens 0). As for
  /// `scored`, all tokens are computed.
  bool embedded = false;
  /// The grammar of the answer, or null. stop_ids are then allowed only where the answer may end, and the answer ends
  /// by itself where it can only end.
  std::shared_ptr<const Grammar> grammar;
  std::string begun;  // the existing text of a continued answer, which the grammar consumes first
  /// A matcher that a worker has already fed `begun`; null: the engine feeds it.
  std::shared_ptr<const GrammarMatcher> matcher;
  /// Splits sampled text into reasoning and answer; null = all text is the answer. Stop strings, grammar,
  /// penalties and bad words apply to the answer alone; max_tokens counts all tokens.
  std::shared_ptr<const ChannelFormat> channels;
  /// With `grammar` and messages as channels: the recipients that calls may have, "functions.NAME"; null = any.
  std::shared_ptr<const Grammar> recipients;
  bool must_call = false;  // the answer is a call
  /// Maximum number of reasoning tokens; -1 = no limit. Then the format's forced_close is appended as if it had been
  /// sampled.
  int64_t reasoning_budget = -1;
  std::vector<TokenId> begun_ids;  // with `channels`, if the turn continues an answer: its sampled ids so far
  int64_t max_tokens = 0;          // maximum number of new tokens; 0 = prefill only (warm-up), -1 = until session_len
  bool admitted = false;           // a further turn of an admitted request: never refused because of its wait
  int64_t expected_tokens = 0;     // prompt tokens that it should compute; set by the engine
  bool ends_repetition = false;  // ends the answer when RepetitionGuard finds a loop, unless the grammar requires more
  std::shared_ptr<TokenSink> sink;
};

}  // namespace ringside
