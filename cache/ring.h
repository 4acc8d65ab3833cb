// The arithmetic of one conversation's ring: which positions a query may see, where the next tokens go, how far back
// the conversation can be taken without recomputing. No memory, no device. Owned by a KvCache; engine thread only.
//
// Letters: S pinned tokens (positions 0 .. S-1, never evicted), W = memory_len, R = ring rows, t a query's position.
// Live for t: the pinned positions and [FirstLive(t), t]. FirstLive is a pure function of t and of the message starts
// at or before t, evaluated for each query row: no result can depend on how tokens were cut into chunks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace ringside {

enum class Eviction {
  kTurn,   // the window opens at a message start, if one lies within W / 4 tokens of where it would
  kToken,  // exact sliding window
};

struct RingWindow {
  int64_t pinned = 0;      // S
  int64_t memory_len = 0;  // W, not counting the pinned tokens
  Eviction eviction = Eviction::kTurn;

  /// How many tokens later than exactly W the window may open, to open at a message.
  int64_t slack() const { return eviction == Eviction::kTurn ? memory_len / 4 : 0; }
  friend bool operator==(const RingWindow&, const RingWindow&) = default;
};

class Ring {
 public:
  /// `rows` = R >= memory_len.
  Ring(RingWindow window, int64_t rows);

  const RingWindow& window() const { return window_; }
  int64_t rows() const { return rows_; }
  /// Tokens held so far, evicted ones included: the next token's position.
  int64_t next() const { return next_; }
  /// Oldest ring position that no write has yet replaced (at least S). Never falls on a roll-back, except to S.
  int64_t resident() const { return resident_; }
  /// The largest chunk that Append takes now: one that overwrites nothing that its first query sees. At least
  /// rows - memory_len + 1; as many as there are rows while the ring is empty.
  int64_t max_chunk() const { return rows_ - (next_ - FirstHeld(next_)); }

  /// Declares that a message begins at `position`; positions ascend. Positions at or after next() may be declared
  /// early.
  void AddMessageStart(int64_t position);
  std::span<const int64_t> message_starts() const { return starts_; }

  /// Oldest ring position (>= S) that the query at position t sees.
  int64_t FirstLive(int64_t t) const;
  /// The same, but no position that was never written: at the start of a shortened replay the window reaches back to
  /// such. Changes nothing elsewhere.
  int64_t FirstHeld(int64_t t) const { return std::max(FirstLive(t), resident_); }
  /// Index of the newest token in a cache that holds only what is live: S + t - FirstLive(t), or t for t < S. The
  /// angle of the query against pinned keys (StreamingLLM, Xiao et al. 2023).
  int64_t PinnedQueryPosition(int64_t t) const;
  /// Claims rows for the next n tokens and returns the position of the first. Aborts if n > max_chunk().
  int64_t Append(int64_t n);

  /// True if the cache can be taken back to `to` tokens with nothing recomputed: every row that position `to` may see
  /// is still there.
  bool CanRollBack(int64_t to) const;
  /// Forgets every token and message start at or after `to`; CanRollBack(to) must hold.
  void RollBack(int64_t to);
  /// Forgets everything.
  void Clear();
  /// Continues at `position` as if the ring positions before it had been seen and lost: the next token appended has
  /// that position. Only right after the pinned tokens (next() == S); how a shortened replay begins.
  void SkipTo(int64_t position);

  /// Takes the ring to a state read from another ring of the same window and any number of rows: what that one held and
  /// this one has no row for counts as overwritten. Everything before unchanged() afterwards. kCorruption, and an empty
  /// ring, if no ring can be in that state.
  Status Restore(int64_t next, int64_t resident, std::vector<int64_t> message_starts);

  /// Rows of positions below it are as they were at the last MarkUnchanged or Restore; 0 = there was none.
  int64_t unchanged() const { return unchanged_; }
  void MarkUnchanged() { unchanged_ = next_; }

  /// Tokens that the query at position t can no longer see.
  int64_t EvictedAt(int64_t t) const { return t < window_.pinned ? 0 : FirstLive(t) - window_.pinned; }

 private:
  RingWindow window_;
  int64_t rows_;
  int64_t next_ = 0;
  int64_t resident_;
  int64_t unchanged_ = 0;
  std::vector<int64_t> starts_;
};

}  // namespace ringside
