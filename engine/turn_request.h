// What the engine is asked to do for one turn. A plain value; see Engine::Submit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/ring.h"
#include "engine/sampling/sampling.h"
#include "engine/text/tokenizer.h"
#include "engine/token_sink.h"

namespace ringside {

struct ChannelFormat;
class Grammar;
class GrammarMatcher;

using TimelineId = uint64_t;  // a conversation's timeline, chosen by the session layer, unique for the process
using TurnId = uint64_t;      // chosen by the session layer, unique for the process

struct TurnRequest {
  TurnId turn = 0;
  TimelineId timeline = 0;  // not 0
  std::string account;      // whose turn it is, where several share the server: they are served alike; "" is one, too
  std::string owner;        // the conversation's name in the tiers, 1 to 128 bytes; "" = its cache is never saved
  /// True if earlier tokens of the conversation were computed before, by an earlier process perhaps: a cache that is
  /// not found was lost then, and is reported as recomputed.
  bool continues = false;
  /// The timeline that this new one was forked off, and its owner; 0 = none. Its rows in a slot are taken over on the
  /// device, after its prompt has been computed if that is under way; its stored cache gets this one as a second owner.
  TimelineId forked_from = 0;
  std::string forked_owner;
  bool goes_on = false;  // `tokens` end in the middle of the answer, so that a space at the output's beginning is text
  /// The whole timeline before the answer: history and new input. The engine makes the cache equal it, reusing what it
  /// has: a longest common prefix in the slot, rolled back where the ring still allows, else rebuilt.
  std::vector<TokenId> tokens;
  std::vector<int64_t> message_starts;  // ascending positions of `tokens` at which messages begin
  RingWindow window;                    // pinned <= pinned_max, memory_len <= the engine's
  int64_t session_len = 0;              // <= the engine's; 0 = the engine's
  int adapter = 0;                      // of NetworkShape::adapters, counted from 1; 0 = the network as it is
  int64_t virtual_tokens = 0;           // the adapter's, which the engine puts before `tokens` and pins
  SamplingParams sampling;
  std::vector<std::string> stop_strings;
  std::vector<TokenId> stop_ids;  // end-of-turn tokens of the model included, unless ignored
  /// One of several answers to one prompt. Where another timeline of the account has the prompt in a slot and the
  /// device has branches, this turn's cache is a branch of that one's, which stays as it is, and ends with the turn.
  bool may_branch = false;
  /// The log probabilities of `tokens` are asked for, too (sampling.logprobs, at least 0, says of how many others):
  /// they are all computed, whatever a cache has of them, and no more than the window shows.
  bool scored = false;
  /// The mean of its tokens' hidden states is asked for (TokenSink::OnEmbedded), and no answer (max_tokens 0): as of
  /// scored, all of them are computed.
  bool embedded = false;
  /// What the answer must match, or null. Then stop_ids can be chosen only where it may end, and it ends by itself
  /// where it can only end.
  std::shared_ptr<const Grammar> grammar;
  std::string begun;  // where the turn goes on: the answer's text so far, which the grammar takes first
  /// A matcher that has taken `begun` already, on a worker; null: the engine takes it.
  std::shared_ptr<const GrammarMatcher> matcher;
  /// Splits sampled text into reasoning and answer; null = all text is the answer. Stop strings, grammar,
  /// penalties and bad words apply to the answer alone; max_tokens counts all tokens.
  std::shared_ptr<const ChannelFormat> channels;
  /// Tokens of reasoning, at most; -1 = no limit. Then the format's forced_close is appended as if it had been sampled.
  int64_t reasoning_budget = -1;
  std::vector<TokenId> begun_ids;  // with `channels`, where the turn continues an answer: its sampled ids so far
  int64_t max_tokens = 0;        // new tokens at most; 0 = prefill only (warm-up), -1 = until session_len
  bool ends_repetition = false;  // the answer ends where RepetitionGuard finds a loop, unless the grammar wants more
  std::shared_ptr<TokenSink> sink;
};

}  // namespace ringside
