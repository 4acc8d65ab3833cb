#include "engine/speculation/draft_control.h"

#include <algorithm>
#include <iterator>

namespace ringside {
namespace {

constexpr double kMinGain = 1.05;  // covers the error of the estimates
constexpr double kMemory = 0.9;    // weight of the earlier drafts at each new one
constexpr int64_t kProbeTokens = 1;
constexpr int64_t kMinPause = 16, kMaxPause = 1024;  // matches between probes

}  // namespace

size_t DraftControl::ClassOf(int64_t matched) {
  constexpr int64_t kFirst[] = {3, 6, 12};
  return static_cast<size_t>(std::ranges::upper_bound(kFirst, matched) - std::begin(kFirst));
}

int64_t DraftControl::FindBest(int64_t matched, int64_t most, const DraftCosts& costs) const {
  most = std::min(most, DraftCosts::kMaxDrafts);
  const double probability = acceptance_[ClassOf(matched)].probability();
  const auto decoding = static_cast<double>(costs.decoding);
  double accepted = 0, reached = 1, best_gain = 1;
  int64_t best = 0;
  for (int64_t drafts = 1; drafts <= most; ++drafts) {
    reached *= probability;
    accepted += reached;  // the expectation: a token counts only if all before it are accepted
    const double gain = (1 + accepted / decoding) / (1 + costs.extra[static_cast<size_t>(drafts)]);
    if (gain > best_gain) best = drafts, best_gain = gain;
  }
  return best_gain >= kMinGain ? best : 0;
}

bool DraftControl::Expects(int64_t matched, int64_t most, const DraftCosts& costs) {
  if (matched == 0 || most <= 0) return false;
  if (FindBest(matched, most, costs) > 0 || skipped_ + 1 >= pause_ * costs.decoding) return true;
  ++skipped_;
  return false;
}

int64_t DraftControl::Plan(int64_t matched, int64_t most, const DraftCosts& costs) {
  if (matched == 0 || most <= 0) return 0;
  if (const int64_t best = FindBest(matched, most, costs); best > 0) {
    skipped_ = 0, pause_ = kMinPause;
    return best;
  }
  if (++skipped_ < pause_ * costs.decoding) return 0;
  skipped_ = 0, pause_ = std::min(2 * pause_, kMaxPause);
  return kProbeTokens;
}

void DraftControl::Note(int64_t matched, int64_t drafted, int64_t accepted) {
  Acceptance& known = acceptance_[ClassOf(matched)];
  known.accepted = known.accepted * kMemory + static_cast<double>(accepted);
  known.rejected = known.rejected * kMemory + (accepted < drafted ? 1 : 0);
}

}  // namespace ringside
