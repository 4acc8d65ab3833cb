#include "engine/beam_caches.h"

#include <algorithm>

#include "base/check.h"
#include "cache/kv_branch.h"

namespace ringside {

BeamCaches::BeamCaches(SlabMemory& memory, std::vector<KvCache*> caches) : memory_(memory) {
  for (KvCache* cache : caches) branches_.push_back({cache, {}});
}

void BeamCaches::Begin(const KvCache& history) {
  history_tokens_ = history.ring().next();
  for (Branch& branch : branches_) BranchOff(memory_, branch.cache, history, history_tokens_);
  order_ = {0};
}

void BeamCaches::Copy(Branch* to, const Branch& from) {
  const int64_t common = std::ranges::mismatch(to->tokens, from.tokens).in1 - to->tokens.begin();
  CopyBranch(memory_, to->cache, *from.cache, history_tokens_ + common);
  to->tokens = from.tokens;
}

void BeamCaches::KeepForBest(size_t beam) { Copy(&branches_.back(), branches_[order_[beam]]); }

void BeamCaches::Follow(std::span<const size_t> parents) {
  CHECK_LT(parents.size(), branches_.size());
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> order(parents.size(), kNone), unused;
  std::vector<bool> used(branches_.size() - 1);
  for (size_t i = 0; i < parents.size(); ++i) {  // the first that goes on with a beam has its cache
    const size_t branch = order_[parents[i]];
    if (!used[branch]) order[i] = branch;
    used[branch] = true;
  }
  for (size_t branch = 0; branch < used.size(); ++branch) {
    if (!used[branch]) unused.push_back(branch);
  }
  for (size_t i = 0; i < parents.size(); ++i) {
    if (order[i] != kNone) continue;
    order[i] = unused.back();
    unused.pop_back();
    Copy(&branches_[order[i]], branches_[order_[parents[i]]]);
  }
  order_ = std::move(order);
}

int64_t BeamCaches::Join(KvCache* history, const Branch& branch, int64_t tokens) {
  const int64_t joined = std::min(tokens, static_cast<int64_t>(branch.tokens.size()));
  JoinBranch(memory_, history, *branch.cache, history_tokens_ + joined);
  return joined;
}

std::vector<KvCache*> BeamCaches::caches() const {
  std::vector<KvCache*> caches;
  for (const Branch& branch : branches_) caches.push_back(branch.cache);
  return caches;
}

}  // namespace ringside
