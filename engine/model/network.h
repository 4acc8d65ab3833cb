// What the engine runs: a network that appends tokens to caches and chooses the tokens that follow. Model is the one of
// the server; tests run the engine on others. Called from the engine's thread only.
#pragma once

#include <cstdint>
#include <span>

#include "cache/kv_cache.h"
#include "engine/text/tokenizer.h"
#include "kernels/token_choice.h"

namespace ringside {

class SlabMemory;

/// Rows whose logits may wait for their choices (Network::BeginUnchosen).
constexpr size_t kMostUnchosenRows = 128;

/// One sequence's part of a step: tokens appended to its cache at its next positions.
struct StepPart {
  KvCache* cache = nullptr;
  std::span<const TokenId> tokens;  // 1 .. the ring's max_chunk(); or AwaitedToken (kernels/awaited_token.h); all that
                                    // is pinned and nothing else, where the network encodes, and then no logits
  enum class Logits { kNone, kLast, kAll } logits = Logits::kLast;
  // That its rows are computed under, of NetworkShape::adapters, counted from 1; 0 = none. One with n virtual tokens
  // has as the first of its sequence the ids vocab .. vocab + n - 1.
  int adapter = 0;
  bool hidden_states = false;  // its rows' last hidden states are wanted, too: Network::hidden_states
};

/// What the engine must know of a network to make its caches and to refuse what it cannot run.
struct NetworkShape {
  int64_t layers = 0, kv_heads = 0, head_dim = 0, vocab = 0;
  int64_t most_heads = 0;      // key/value heads, of all layers together, that one device has; 0 = every one
  int64_t position_limit = 0;  // learned positions: no token may stand at or after it; 0 = none
  // Attending to so many tokens costs a row as much as all the rest of it; 0 = attention costs nothing.
  double attention_context = 0;
  bool branches = false;            // caches may be branches of others (KvCache::BranchOff)
  bool encodes = false;             // what is pinned is an input that is read as a whole; the answer stands behind it
  int64_t hidden = 0;               // numbers of a hidden state; 0 = hidden states are not told
  int adapters = 0;                 // that parts of steps may have
  int64_t most_virtual_tokens = 0;  // of any of them
};

class Network {
 public:
  virtual ~Network() = default;

  /// Where the caches lie and the steps run.
  virtual SlabMemory& memory() const = 0;
  virtual NetworkShape shape() const = 0;
  /// Those that every sequence under this adapter begins with: the rows of a soft prompt.
  virtual int64_t virtual_tokens(int adapter) const {
    (void)adapter;
    return 0;
  }
  /// Whether there is something to be gained from a step that begins before the one before it is finished.
  virtual bool runs_ahead() const = 0;

  /// Begins one step: appends each part's tokens to its cache; choices[i] chooses from the i-th row of logits asked
  /// for, part after part. Each part has a cache of its own, of this network's shape; ids are below the vocabulary
  /// size. Does not wait for the tokens where the network runs ahead, and a second step may begin before the first is
  /// finished.
  virtual void Begin(std::span<const StepPart> parts, std::span<const TokenChoice> choices) {
    BeginUnchosen(parts);
    Choose(choices);
  }
  /// The same in two calls, of a step that asks for at most kMostUnchosenRows rows of logits: it is on its way before
  /// anyone knows how its tokens are chosen. Only a Finish of the step before it may come between the two.
  virtual void BeginUnchosen(std::span<const StepPart> parts) = 0;
  virtual void Choose(std::span<const TokenChoice> choices) = 0;
  /// Waits for the oldest step begun and gives its tokens, one a choice.
  virtual void Finish(std::span<ChosenToken> chosen) = 0;
  /// What the final norm made of the rows that asked for it, part after part [rows, NetworkShape::hidden]: of the step
  /// that was begun last, once it is finished.
  virtual std::span<const float> hidden_states() const { return {}; }
};

}  // namespace ringside
