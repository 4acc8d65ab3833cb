#include "engine/speculation/ngram_index.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

#include "base/check.h"

namespace ringside {
namespace {

constexpr size_t kMinPlaces = 1024;
constexpr size_t kPlacesPerToken = 8 * std::size(NgramIndex::kLengths);  // so that few n-grams share a place
constexpr size_t kMaxPlaces = size_t{1} << 19;                           // 2 MiB

// Number of equal tokens before `position` and at the end of the timeline.
int64_t MatchedBefore(std::span<const TokenId> timeline, int64_t position) {
  const int64_t size = std::ssize(timeline), most = std::min(position, NgramIndex::kMaxMatched);
  int64_t matched = 0;
  const auto at = [&](int64_t i) { return timeline[static_cast<size_t>(i)]; };
  while (matched < most && at(position - 1 - matched) == at(size - 1 - matched)) ++matched;
  return matched;
}

}  // namespace

uint32_t& NgramIndex::PlaceOf(std::span<const TokenId> ngram) {
  uint64_t hash = ngram.size();
  for (const TokenId id : ngram) hash = (hash ^ static_cast<uint32_t>(id)) * 0x9e3779b97f4a7c15u;
  return places_[static_cast<size_t>(hash >> 32) & (places_.size() - 1)];
}

void NgramIndex::Extend(std::span<const TokenId> timeline) {
  const int64_t size = std::ssize(timeline);
  CHECK_LE(size, int64_t{std::numeric_limits<uint32_t>::max()});
  const size_t wanted = std::clamp(std::bit_ceil(kPlacesPerToken * timeline.size()), kMinPlaces, kMaxPlaces);
  if (places_.size() < wanted) {  // doubles
    places_.assign(wanted, 0);
    indexed_ = std::max<int64_t>(0, size - kMaxTokens);
  }
  while (indexed_ < size - 1) {
    ++indexed_;
    for (const int64_t length : kLengths) {
      if (length > indexed_) continue;
      const auto begin = static_cast<size_t>(indexed_ - length);
      PlaceOf(timeline.subspan(begin, static_cast<size_t>(length))) = static_cast<uint32_t>(indexed_);
    }
  }
}

NgramIndex::Match NgramIndex::Find(std::span<const TokenId> timeline) {
  Extend(timeline);
  const int64_t size = std::ssize(timeline);
  Match best;
  const auto consider = [&](int64_t next, int64_t least) {
    const int64_t matched = next > 0 && next < size ? MatchedBefore(timeline, next) : 0;
    if (matched >= least && matched > best.matched) best = {next, matched};
  };
  if (distance_ > 0) consider(size - distance_, 1);  // also after a token that differs
  for (const int64_t length : kLengths) {
    if (length < size) consider(PlaceOf(timeline.last(static_cast<size_t>(length))), length);
  }
  if (best.matched > 0) distance_ = size - best.next;
  return best;
}

std::vector<TokenId> TokensAfter(std::span<const TokenId> timeline, const NgramIndex::Match& match, int64_t count) {
  const auto after = timeline.subspan(static_cast<size_t>(match.next));
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    tokens.push_back(i < after.size() ? after[i] : tokens[i - after.size()]);
  }
  return tokens;
}

}  // namespace ringside
