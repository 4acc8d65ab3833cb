// One timeline in the engine: the tokens in its cache, and the cache itself if it has a slot. Sync prepares the cache
// to continue any token list. Owned by Engine. THREAD: engine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/speculation/draft_control.h"
#include "engine/text/tokenizer.h"
#include "engine/token_sink.h"

namespace ringside {

/// The target state of a timeline: its tokens before the answer, their message starts, and its window.
struct TimelineView {
  std::span<const TokenId> tokens;
  std::span<const int64_t> message_starts;
  RingWindow window;
  int adapter = 0;  // 0 = none
};

/// Length of the common prefix of two timelines with the same window. It ends where the message starts after the
/// `pinned` tokens differ, because a query's window depends on the message starts before it (Ring::FirstLive).
int64_t CommonPrefix(std::span<const TokenId> tokens, std::span<const int64_t> message_starts,
                     std::span<const TokenId> other_tokens, std::span<const int64_t> other_message_starts,
                     int64_t pinned);

struct SyncResult {
  CacheSource source = CacheSource::kNew;
  int64_t reused = 0;     // tokens kept in the cache
  int64_t to_feed = 0;    // tokens to compute before the first new one
  int64_t replayed = 0;   // part of to_feed: tokens that were in the cache, after the last usable recurrent state
  bool rebuilt = false;   // the cache was unusable, and the history is replayed
  double restore_ms = 0;  // set by the engine after a restore
};

class Sequence {
 public:
  /// `layers` bounds the receptive field: layers * (memory_len - 1) positions. `rebuild_windows`: a rebuild replays
  /// only this many windows (an approximation of equal quality), 0 = the number that exactness needs. `encodes`: the
  /// pinned tokens are an encoder's input (NetworkShape::encodes), computed as a whole or not at all. `whole_images`:
  /// the tokens of an image are computed in one chunk (NetworkShape::whole_image_tokens).
  Sequence(int64_t layers, int64_t rebuild_windows, bool encodes = false, bool whole_images = false)
      : layers_(layers), rebuild_windows_(rebuild_windows), encodes_(encodes), whole_images_(whole_images) {}

  bool has_cache() const { return cache_ != nullptr; }
  KvCache* cache() const { return cache_; }
  /// Number of tokens with keys and values in the cache.
  int64_t computed() const { return cache_ == nullptr ? 0 : cache_->ring().next(); }

  /// Gives the sequence an empty cache, or takes it away (the caller returns it to the pool).
  void Attach(KvCache* cache);
  KvCache* Detach();
  /// Records that the cache holds `tokens` (their number is that of its ring), restored from `source`.
  void Restored(std::span<const TokenId> tokens, int64_t replay_start, int adapter, CacheSource source);
  /// Number of the first `most` tokens of `timeline` that the cache has or had: same window, adapter and message
  /// starts.
  int64_t CommonTokens(const TimelineView& timeline, int64_t most) const;
  /// Number of the first `most` tokens of `timeline` that another cache may copy from this one: same window, adapter
  /// and message starts, every row that the next token sees is resident, and the recurrent state is there. 0 = none.
  int64_t SharedPrefix(const TimelineView& timeline, int64_t most) const;
  /// Records that the cache holds the first `tokens` tokens of `from`, its SharedPrefix; returns the number of bytes to
  /// copy from the start of the other slab to this one. `own`: these are the timeline's own tokens, so its report names
  /// the slot as the source.
  size_t Adopt(const Sequence& from, int64_t tokens, bool own);
  /// Number of the first `most` tokens of `timeline` that a branch of this cache can share; 0 = no branch is possible.
  int64_t BranchPoint(const TimelineView& timeline, int64_t most) const;
  /// Records that the cache is a branch of `from` with `tokens` tokens.
  void BranchedOff(const Sequence& from, int64_t tokens);
  /// Records that this timeline was computed before, so that a missing cache counts as lost.
  void MarkKnown() { known_ = true; }

  /// The tokens in the cache, including those that a shortened replay skipped, and the start of that replay.
  std::span<const TokenId> tokens() const { return tokens_; }
  int64_t replay_start() const { return replay_start_; }
  /// The adapter of these tokens.
  int adapter() const { return adapter_; }

  /// Makes the cache an exact prefix of `timeline` at the lowest cost: keeps the longest common prefix (of tokens and
  /// message starts) and rolls back the rest if the ring still has the rows, else empties the cache for a replay. A
  /// change of window or adapter also empties it. With recurrent state, cuts the prefix down to a position whose state
  /// the cache has (KvCache::Floor), and a replay starts at token 0. Keeps at most `most` tokens; the others are left
  /// to feed. REQUIRES: a cache with room for the window.
  SyncResult Sync(const TimelineView& timeline, int64_t most);

  /// The next tokens to compute, at most `limit`, of a timeline given to Sync (which may have grown since); an
  /// encoder's input ignores `limit`, and so does an image that is computed as a whole and comes first. A replay that
  /// does not start at 0 computes the pinned tokens first, then jumps.
  std::span<const TokenId> NextChunk(std::span<const TokenId> timeline, int64_t limit);
  /// The number of tokens that NextChunk returns at least.
  int64_t LeastChunk(std::span<const TokenId> timeline) const;
  /// The position that NextChunk starts at.
  int64_t next_position() const;
  /// True if the token at `position` is to be computed.
  bool WillCompute(int64_t position) const;
  /// Records that the model has appended these tokens, as returned by NextChunk, to the cache.
  void AdvancePosition(std::span<const TokenId> tokens);
  /// Drops the tokens after the first `tokens`, which were drafts. REQUIRES: the cache can be rolled back to there.
  void DropDrafts(int64_t tokens);
  DraftControl& draft_control() { return draft_control_; }

 private:
  int64_t CommonWith(const TimelineView& timeline) const;
  bool CanContinueFrom(int64_t position) const;
  int64_t ReplayStart(const TimelineView& timeline) const;

  int64_t layers_, rebuild_windows_;
  bool encodes_, whole_images_;
  KvCache* cache_ = nullptr;
  std::vector<TokenId> tokens_;          // the first computed() tokens, those skipped by a shortened replay included
  int adapter_ = 0;                      // adapter of tokens_
  int64_t replay_start_ = 0;             // ring positions before it were never computed in this cache
  bool known_ = false;                   // computed before, in this process or an earlier one
  std::optional<CacheSource> restored_;  // since the last Sync
  bool adopted_ = false;                 // since the last Sync
  DraftControl draft_control_;           // of the conversation: kept without a cache
};

}  // namespace ringside
