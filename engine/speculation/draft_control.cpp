#include "engine/speculation/draft_control.h"

#include <algorithm>
#include <iterator>

namespace ringside {
namespace {

constexpr double kMinGain = 1.05;  // covers the error of the estimates
constexpr double kMemory = 0.9;    // weight of the earlier drafts at each new one
constexpr int64_t kProbeTokens = 1;
constexpr int64_t kMinPause = 16, kMaxPause = 1024;  // matches between probes

bool HasMatch(const DraftControl::Sources& sources) { return sources.matched > 0 && sources.ngram > 0; }

bool HasLayer(const DraftControl::Sources& sources, const DraftCosts& costs) {
  return costs.layer_token && sources.layer > 0;
}

}  // namespace

size_t DraftControl::ClassOf(int64_t matched) {
  constexpr int64_t kFirst[] = {1, 3, 6, 12};
  return static_cast<size_t>(std::ranges::upper_bound(kFirst, matched) - std::begin(kFirst));
}

DraftControl::Choice DraftControl::FindBest(const Sources& sources, const DraftCosts& costs) const {
  const auto decoding = static_cast<double>(costs.decoding);
  Choice best;
  double best_gain = kMinGain;
  // The expectation: a token counts only if all before it are accepted. The other decode rows of the step wait, too,
  // while tokens are drafted, but share their time.
  const auto compare = [&](int64_t matched, int64_t most, double token_time) {
    const double probability = acceptance_[ClassOf(matched)].probability();
    double accepted = 0, reached = 1;
    for (int64_t tokens = 1; tokens <= std::min(most, DraftCosts::kMaxDrafts); ++tokens) {
      reached *= probability;
      accepted += reached;
      const double time = costs.extra[static_cast<size_t>(tokens)] + token_time * static_cast<double>(tokens);
      const double gain = (1 + accepted / decoding) / (1 + time);
      if (gain > best_gain) best = {tokens, matched == 0}, best_gain = gain;
    }
  };
  if (HasMatch(sources)) compare(sources.matched, sources.ngram, 0);
  if (HasLayer(sources, costs)) {
    compare(0, std::min(sources.layer, DraftCosts::kMaxOfLayer), *costs.layer_token / decoding);
  }
  return best;
}

bool DraftControl::Expects(const Sources& sources, const DraftCosts& costs) {
  if (!HasMatch(sources) && !HasLayer(sources, costs)) return false;
  if (FindBest(sources, costs).tokens > 0 || skipped_ + 1 >= pause_ * costs.decoding) return true;
  ++skipped_;
  return false;
}

DraftControl::Choice DraftControl::Plan(const Sources& sources, const DraftCosts& costs) {
  if (!HasMatch(sources) && !HasLayer(sources, costs)) return {};
  if (const Choice best = FindBest(sources, costs); best.tokens > 0) {
    skipped_ = 0, pause_ = kMinPause;
    return best;
  }
  if (++skipped_ < pause_ * costs.decoding) return {};
  skipped_ = 0, pause_ = std::min(2 * pause_, kMaxPause);
  return {kProbeTokens, !HasMatch(sources)};
}

void DraftControl::Note(int64_t matched, int64_t drafted, int64_t accepted) {
  Acceptance& known = acceptance_[ClassOf(matched)];
  known.accepted = known.accepted * kMemory + static_cast<double>(accepted);
  known.rejected = known.rejected * kMemory + (accepted < drafted ? 1 : 0);
}

}  // namespace ringside
