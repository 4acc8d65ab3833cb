// The caches of a turn's beams: copy-on-write branches of the conversation's cache, which keeps the shared history,
// plus one branch that holds the best finished answer. Beams that diverge copy only the few rows in which they differ.
// One per turn. THREAD: engine.
#pragma once

#include <span>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/text/tokenizer.h"

namespace ringside {

class SlabMemory;

class BeamCaches {
 public:
  /// `caches`: one for each beam and one more, lent by the pool; the creator returns them.
  BeamCaches(SlabMemory& memory, std::vector<KvCache*> caches);

  /// Makes the caches branches of `history`, which holds the whole prompt. `beams`: one in a new search, all in a
  /// resumed search; all start without rows.
  void Begin(const KvCache& history, size_t beams = 1);
  bool begun() const { return history_tokens_ >= 0; }
  KvCache* OfBeam(size_t beam) const { return branches_[order_[beam]].cache; }
  /// Advances the beam: its token now has a row in the cache.
  void AdvancePosition(size_t beam, TokenId token) { branches_[order_[beam]].tokens.push_back(token); }
  void AdvancePosition(size_t beam, std::span<const TokenId> tokens);
  /// Copies the rows of `tokens` (the beam's) that earlier beams already have into a resumed beam's cache. Returns the
  /// tokens without rows, which must be recomputed.
  std::span<const TokenId> CopyFromEarlier(size_t beam, std::span<const TokenId> tokens);
  /// The best answer so far is this beam: keep its rows.
  void KeepBestRows(size_t beam);
  /// Reorders after a search step: beam i continues beam parents[i].
  void Follow(std::span<const size_t> parents);
  /// Appends the rows of the answer's first `tokens` tokens, from the best answer or from the first beam, to the
  /// conversation's cache; returns how many it had.
  int64_t JoinBest(KvCache* history, int64_t tokens) { return Join(history, branches_.back(), tokens); }
  int64_t JoinFirstBeam(KvCache* history, int64_t tokens) { return Join(history, branches_[order_.front()], tokens); }

  /// All caches, to be returned to the pool.
  std::vector<KvCache*> caches() const;

 private:
  struct Branch {
    KvCache* cache;
    std::vector<TokenId> tokens;  // tokens after the history that have rows here
  };
  void Copy(Branch* to, const Branch& from);
  int64_t Join(KvCache* history, const Branch& branch, int64_t tokens);

  SlabMemory& memory_;
  std::vector<Branch> branches_;  // the last one holds the best answer
  std::vector<size_t> order_;     // index of each beam's branch
  int64_t history_tokens_ = -1;
};

}  // namespace ringside
