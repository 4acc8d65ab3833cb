// One timeline as the engine sees it: the tokens its cache holds and the cache itself, if it has a slot. Sync makes the
// cache ready to continue any token list. Owned by Engine; engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/text/tokenizer.h"
#include "engine/token_sink.h"

namespace ringside {

/// What a timeline should become: its tokens before the answer, where messages begin in them, and its window.
struct TimelineView {
  std::span<const TokenId> tokens;
  std::span<const int64_t> message_starts;
  RingWindow window;
  int adapter = 0;  // under which it is computed; 0 = none
};

/// How many tokens two timelines have in common from their beginning on. A query's window depends on the message starts
/// before it: where those differ, so may everything after.
int64_t CommonPrefix(std::span<const TokenId> tokens, std::span<const int64_t> message_starts,
                     std::span<const TokenId> other_tokens, std::span<const int64_t> other_message_starts);

struct SyncResult {
  CacheSource source = CacheSource::kNew;
  int64_t reused = 0;     // tokens found in the cache and kept
  int64_t to_feed = 0;    // tokens to compute before the first new one
  bool rebuilt = false;   // what was cached could not be used and the history is replayed
  double restore_ms = 0;  // set by the engine where the cache was brought back
};

class Sequence {
 public:
  /// `layers` bounds how far back a token's numbers reach: layers * (memory_len - 1) positions. `rebuild_windows`: a
  /// rebuild replays only that many windows (another answer of equal quality), 0 = as many as make it exact.
  /// `encodes`: what is pinned is an encoder's input (NetworkShape::encodes), computed as a whole or not at all.
  Sequence(int64_t layers, int64_t rebuild_windows, bool encodes = false)
      : layers_(layers), rebuild_windows_(rebuild_windows), encodes_(encodes) {}

  bool has_cache() const { return cache_ != nullptr; }
  KvCache* cache() const { return cache_; }
  /// Tokens whose keys and values are in the cache.
  int64_t computed() const { return cache_ == nullptr ? 0 : cache_->ring().next(); }

  /// Gives the sequence an empty cache, or takes it away (the caller returns it to the pool).
  void Attach(KvCache* cache);
  KvCache* Detach();
  /// Notes that the cache now holds these tokens (as many as its ring says), brought back from where `source` says.
  void Restored(std::span<const TokenId> tokens, int64_t replay_start, int adapter, CacheSource source);
  /// How many of the first `most` tokens of `timeline` another cache may take over from this one: they have the same
  /// window, adapter and message starts, and every row that the token after them sees is still there. 0 = none.
  int64_t SharedPrefix(const TimelineView& timeline, int64_t most) const;
  /// Notes that the cache now holds the first `tokens` tokens of another one, its SharedPrefix; returns the bytes at
  /// the beginning of its slab that must be copied from the other's for that to be true. `own`: the timeline's own
  /// tokens were computed there, so that its report finds them in a slot.
  size_t Adopt(const Sequence& from, int64_t tokens, bool own);
  /// How many of the first `most` tokens of `timeline` a branch of this cache would begin with; 0 = it cannot have one.
  int64_t BranchPoint(const TimelineView& timeline, int64_t most) const;
  /// Notes that the cache has been made a branch of so many tokens of another one.
  void BranchedOff(const Sequence& from, int64_t tokens);
  /// Notes that tokens of this timeline were computed before: a cache that is not there is a lost one.
  void MarkKnown() { known_ = true; }

  /// The tokens in the cache, those that a shortened replay skipped included, and where that replay began.
  std::span<const TokenId> tokens() const { return tokens_; }
  int64_t replay_start() const { return replay_start_; }
  /// Under which those were computed.
  int adapter() const { return adapter_; }

  /// Makes the cache a prefix of `timeline` as cheaply as is exact: keeps the longest common prefix (of tokens and of
  /// message starts), rolls back what differs if the ring still has the rows, else empties it for a replay; empties it,
  /// too, where window or adapter are others. Needs a
  /// cache with room for the window. Keeps no more than `most` tokens: the others are left to feed.
  SyncResult Sync(const TimelineView& timeline, int64_t most);

  /// The next tokens to compute, of a timeline that Sync was given (and that may have grown since), at most `limit`; an
  /// encoder's input whatever the limit is.
  /// A replay that does not begin at 0 computes the pinned tokens first, then jumps.
  std::span<const TokenId> NextChunk(std::span<const TokenId> timeline, int64_t limit);
  /// Notes that the model has appended these tokens, as NextChunk returned them, to the cache.
  void Fed(std::span<const TokenId> tokens);

 private:
  int64_t CommonWith(const TimelineView& timeline) const;
  bool CanContinueFrom(int64_t position) const;
  int64_t ReplayStart(const TimelineView& timeline) const;

  int64_t layers_, rebuild_windows_;
  bool encodes_;
  KvCache* cache_ = nullptr;
  std::vector<TokenId> tokens_;          // as far as computed(); those skipped by a shortened replay included
  int adapter_ = 0;                      // of these
  int64_t replay_start_ = 0;             // ring positions before it were never computed in this cache
  bool known_ = false;                   // tokens of it were computed before
  std::optional<CacheSource> restored_;  // since the last Sync
  bool adopted_ = false;                 // since the last Sync
};

}  // namespace ringside
