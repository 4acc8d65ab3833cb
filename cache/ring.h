// The arithmetic of one conversation's ring: which positions a query sees, where the next tokens go, how far the
// conversation can be rolled back without recomputation. No memory, no device. Owned by a KvCache. THREAD: engine.
//
// Letters: S pinned tokens (positions 0 .. S-1, never evicted), W = memory_len, R = ring rows, t a query's position.
// Live for t: the pinned positions and [FirstLive(t), t]. FirstLive is a pure function of t and of the message starts
// at or before t, evaluated for each query row. No result can therefore depend on how tokens were split into chunks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "cache/row_origins.h"

namespace ringside {

enum class Eviction {
  kTurn,   // the window opens at a message start, if there is one within W / 4 tokens after the exact place
  kToken,  // exact sliding window
};

struct RingWindow {
  int64_t pinned = 0;      // S
  int64_t memory_len = 0;  // W, not counting the pinned tokens
  Eviction eviction = Eviction::kTurn;

  /// Maximum number of tokens by which the window may open late, to open at a message start.
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
  /// Oldest ring position (at least S) that is not yet overwritten. A roll-back never lowers it, except to S.
  int64_t resident() const { return resident_; }
  /// The largest chunk that Append accepts now: it overwrites no row that its first query sees. At least rows -
  /// memory_len + 1; all rows while the ring is empty.
  int64_t max_chunk() const { return rows_ - (next_ - FirstHeld(next_)); }

  /// Records that a message begins at `position`. REQUIRES: ascending positions; those at or after next() may be
  /// recorded early.
  void AddMessageStart(int64_t position);
  std::span<const int64_t> message_starts() const { return starts_; }

  /// Oldest ring position (>= S) that the query at position t sees.
  int64_t FirstLive(int64_t t) const;
  /// As FirstLive, clamped to positions that were ever written: at the start of a shortened replay the window extends
  /// before them. Equal to FirstLive otherwise.
  int64_t FirstHeld(int64_t t) const { return std::max(FirstLive(t), resident_); }
  /// Index of the newest token in a cache that holds live positions only: S + t - FirstLive(t), or t for t < S. Rotary
  /// position of the query against pinned keys (StreamingLLM, Xiao et al. 2023).
  int64_t PinnedQueryPosition(int64_t t) const;
  /// Claims rows for the next n tokens and returns the position of the first. REQUIRES: n <= max_chunk().
  int64_t Append(int64_t n);

  /// True if the cache can be rolled back to `to` tokens without recomputation: every row that position `to` may see is
  /// still resident.
  bool CanRollBack(int64_t to) const;
  /// Forgets every token and message start at or after `to`. REQUIRES: CanRollBack(to).
  void RollBack(int64_t to);
  /// Forgets everything.
  void Clear();
  /// Starts a shortened replay: treats the ring positions before `position` as evicted, so that the next token gets
  /// `position`. REQUIRES: next() == S.
  void SkipTo(int64_t position);

  /// Restores the state of another ring with the same window and any number of rows: rows that do not fit here count as
  /// overwritten. Everything is unchanged() afterwards. ERRORS: kCorruption, and an empty ring, if no ring can be in
  /// that state.
  Status Restore(int64_t next, int64_t resident, std::vector<int64_t> message_starts);

  /// Rows before this position are as they were at the last MarkUnchanged or Restore; 0 = neither was called.
  int64_t unchanged() const { return unchanged_; }
  void MarkUnchanged() { unchanged_ = next_; }

  /// Identity of the rows. A copy of a Ring describes a copy of its rows.
  const RowOrigins& origins() const { return origins_; }
  /// Records that all rows are copies of rows with these origins, and at the same places. REQUIRES: next() <=
  /// from.rows().
  void AdoptOrigins(const RowOrigins& from);

  /// Tokens that the query at position t can no longer see.
  int64_t EvictedAt(int64_t t) const { return t < window_.pinned ? 0 : FirstLive(t) - window_.pinned; }

 private:
  RingWindow window_;
  int64_t rows_;
  int64_t next_ = 0;
  int64_t resident_;
  int64_t unchanged_ = 0;
  std::vector<int64_t> starts_;
  RowOrigins origins_;
};

}  // namespace ringside
