// The caches of a turn's beams: branches of the conversation's own cache, which keeps the history for all of them, and
// one more that keeps what the best answer found so far was made of. Beams that part copy no more than the few rows in
// which they differ. One turn's; engine thread only.
#pragma once

#include <span>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/text/tokenizer.h"

namespace ringside {

class SlabMemory;

class BeamCaches {
 public:
  /// One cache for each beam, and one more; lent by the pool, to which whoever made this gives them back.
  BeamCaches(SlabMemory& memory, std::vector<KvCache*> caches);

  /// Makes them branches of the conversation's cache, which has the whole prompt. `beams`: one in a new search, all of
  /// a search that is resumed; each is without rows.
  void Begin(const KvCache& history, size_t beams = 1);
  bool begun() const { return history_tokens_ >= 0; }
  KvCache* OfBeam(size_t beam) const { return branches_[order_[beam]].cache; }
  /// The beam's next token is in its cache.
  void Fed(size_t beam, TokenId token) { branches_[order_[beam]].tokens.push_back(token); }
  void Fed(size_t beam, std::span<const TokenId> tokens);
  /// Copies into a resumed beam's cache the rows that earlier beams have of `tokens`, which are the beam's. Returns the
  /// tokens without rows; they are to be computed again.
  std::span<const TokenId> CopyFromEarlier(size_t beam, std::span<const TokenId> tokens);
  /// The best answer so far is made of this beam, whose rows must stay.
  void KeepForBest(size_t beam);
  /// From now on beam i goes on with what beam parents[i] had.
  void Follow(std::span<const size_t> parents);
  /// Appends to the conversation's cache what the cache of the best answer, or of the first beam, has of the answer's
  /// first `tokens` tokens; returns how many.
  int64_t JoinBest(KvCache* history, int64_t tokens) { return Join(history, branches_.back(), tokens); }
  int64_t JoinFirstBeam(KvCache* history, int64_t tokens) { return Join(history, branches_[order_.front()], tokens); }

  /// All of them.
  std::vector<KvCache*> caches() const;

 private:
  struct Branch {
    KvCache* cache;
    std::vector<TokenId> tokens;  // behind the history, that have rows here
  };
  void Copy(Branch* to, const Branch& from);
  int64_t Join(KvCache* history, const Branch& branch, int64_t tokens);

  SlabMemory& memory_;
  std::vector<Branch> branches_;  // the last is the best answer's
  std::vector<size_t> order_;     // the branch of each beam
  int64_t history_tokens_ = -1;
};

}  // namespace ringside
