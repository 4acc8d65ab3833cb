#include "engine/turns/beam_caches.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "cache/kv_branch.h"

namespace ringside {

BeamCaches::BeamCaches(SlabMemory& memory, std::vector<KvCache*> caches) : memory_(memory) {
  for (KvCache* cache : caches) branches_.push_back({cache, {}});
}

void BeamCaches::Begin(const KvCache& history, size_t beams) {
  CHECK_LT(beams, branches_.size());
  history_tokens_ = history.ring().next();
  for (Branch& branch : branches_) BranchOff(memory_, branch.cache, history, history_tokens_);
  order_.resize(beams);
  std::iota(order_.begin(), order_.end(), size_t{0});
}

void BeamCaches::AdvancePosition(size_t beam, std::span<const TokenId> tokens) {
  std::vector<TokenId>& held = branches_[order_[beam]].tokens;
  held.insert(held.end(), tokens.begin(), tokens.end());
}

std::span<const TokenId> BeamCaches::CopyFromEarlier(size_t beam, std::span<const TokenId> tokens) {
  Branch& to = branches_[order_[beam]];
  const Branch* best = nullptr;
  int64_t most = std::ssize(to.tokens);
  for (size_t earlier = 0; earlier < beam; ++earlier) {
    const Branch& from = branches_[order_[earlier]];
    const int64_t common = std::ranges::mismatch(from.tokens, tokens).in1 - from.tokens.begin();
    if (common > most) best = &from, most = common;
  }
  if (best != nullptr) {
    ExtendBranch(memory_, to.cache, *best->cache, history_tokens_ + most);
    to.tokens.assign(tokens.begin(), tokens.begin() + most);
  }
  return tokens.subspan(static_cast<size_t>(most));
}

void BeamCaches::Copy(Branch* to, const Branch& from) {
  const int64_t common = std::ranges::mismatch(to->tokens, from.tokens).in1 - to->tokens.begin();
  CopyBranch(memory_, to->cache, *from.cache, history_tokens_ + common);
  to->tokens = from.tokens;
}

void BeamCaches::KeepBestRows(size_t beam) { Copy(&branches_.back(), branches_[order_[beam]]); }

void BeamCaches::Follow(std::span<const size_t> parents) {
  CHECK_LT(parents.size(), branches_.size());
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> order(parents.size(), kNone), unused;
  std::vector<bool> used(branches_.size() - 1);
  for (size_t i = 0; i < parents.size(); ++i) {  // the first child of a beam keeps its cache; the others copy
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
