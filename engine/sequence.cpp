#include "engine/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ringside {

void Sequence::Attach(KvCache* cache) {
  CHECK(cache_ == nullptr);
  cache_ = cache;
  tokens_.clear();
  replay_start_ = 0;
}

KvCache* Sequence::Detach() {
  tokens_.clear();
  replay_start_ = 0;
  restored_.reset();
  adopted_ = false;
  return std::exchange(cache_, nullptr);
}

void Sequence::Restored(std::span<const TokenId> tokens, int64_t replay_start, CacheSource source) {
  CHECK_EQ(static_cast<int64_t>(tokens.size()), cache_->ring().next());
  tokens_.assign(tokens.begin(), tokens.end());
  replay_start_ = replay_start;
  known_ = true;
  restored_ = source;
}

int64_t Sequence::SharedPrefix(const TimelineView& timeline) const {
  if (cache_ == nullptr) return 0;
  const Ring& ring = cache_->ring();
  const int64_t pinned = ring.window().pinned;
  if (!(ring.window() == timeline.window) || ring.resident() > pinned || replay_start_ > pinned) return 0;
  return CommonPrefix(timeline);
}

size_t Sequence::Adopt(const Sequence& from, int64_t tokens) {
  const Ring& other = from.cache_->ring();
  const auto starts = other.message_starts();
  const auto end = std::ranges::lower_bound(starts, tokens);
  const int64_t pinned = other.window().pinned;
  CHECK(cache_->ring().Restore(tokens, pinned, {starts.begin(), end}).ok());
  tokens_.assign(from.tokens_.begin(), from.tokens_.begin() + tokens);
  replay_start_ = 0;
  adopted_ = true;
  const KvShape& shape = cache_->shape();
  return static_cast<size_t>((shape.Slot(tokens - 1, pinned) / KvShape::kTile + 1) * shape.tile_bytes());
}

int64_t Sequence::CommonPrefix(const TimelineView& timeline) const {
  const auto limit = std::min(tokens_.size(), timeline.tokens.size());
  int64_t common =
      std::mismatch(tokens_.begin(), tokens_.begin() + limit, timeline.tokens.begin()).first - tokens_.begin();
  // A query's window depends on the message starts before it: where those differ, so may everything after.
  const auto starts = cache_->ring().message_starts();
  const auto [ours, theirs] =
      std::mismatch(starts.begin(), starts.end(), timeline.message_starts.begin(), timeline.message_starts.end());
  if (ours != starts.end()) common = std::min(common, *ours);
  if (theirs != timeline.message_starts.end()) common = std::min(common, *theirs);
  return common;
}

// After a shortened replay only rows a full receptive field behind its start are exact; with rebuild_windows the caller
// has chosen near-equality, which the same number of windows gives.
bool Sequence::CanContinueFrom(int64_t position) const {
  const Ring& ring = cache_->ring();
  if (!ring.CanRollBack(position)) return false;
  const int64_t pinned = ring.window().pinned;
  if (position <= pinned || replay_start_ <= pinned) return true;
  const int64_t windows = rebuild_windows_ > 0 ? rebuild_windows_ : layers_;
  return position - windows * (ring.window().memory_len - 1) >= replay_start_;
}

int64_t Sequence::ReplayStart(const TimelineView& timeline) const {
  const int64_t windows = rebuild_windows_ > 0 ? rebuild_windows_ : layers_;
  const auto length = static_cast<int64_t>(timeline.tokens.size());
  const int64_t reach = std::max<int64_t>(1, windows * (timeline.window.memory_len - 1));
  return std::max(timeline.window.pinned, length - 1 - reach);
}

SyncResult Sequence::Sync(const TimelineView& timeline, bool want_logits) {
  CHECK(cache_ != nullptr);
  const auto length = static_cast<int64_t>(timeline.tokens.size());
  CHECK_GE(length, 1);
  SyncResult result;
  if (!(cache_->ring().window() == timeline.window)) {
    cache_->Reset(timeline.window);
    tokens_.clear();
    replay_start_ = 0;
  }
  Ring& ring = cache_->ring();
  int64_t keep = std::min(CommonPrefix(timeline), want_logits ? length - 1 : length);
  if (!CanContinueFrom(keep)) {
    keep = std::min(keep, timeline.window.pinned);  // the ring's rows are gone, the pinned ones never go
    result.rebuilt = true;
  }
  ring.RollBack(keep);
  tokens_.resize(keep);
  result.to_feed = length - keep;
  if (keep <= timeline.window.pinned) {
    replay_start_ = ReplayStart(timeline);
    if (length > replay_start_) result.to_feed -= replay_start_ - timeline.window.pinned;
  }
  for (const int64_t start : timeline.message_starts) {
    if (start >= keep) ring.AddMessageStart(start);
  }
  result.reused = keep;
  const CacheSource from = std::exchange(restored_, std::nullopt).value_or(CacheSource::kSlot);
  const bool own = !std::exchange(adopted_, false);  // what it has of another is no cache of its own that was found
  result.source = own && keep > 0 && !result.rebuilt ? from : known_ ? CacheSource::kRecomputed : CacheSource::kNew;
  known_ = true;
  return result;
}

std::span<const TokenId> Sequence::NextChunk(std::span<const TokenId> timeline, int64_t limit) {
  Ring& ring = cache_->ring();
  const int64_t pinned = ring.window().pinned;
  if (ring.next() == pinned && replay_start_ > pinned) {
    ring.SkipTo(replay_start_);
    tokens_.insert(tokens_.end(), timeline.begin() + pinned, timeline.begin() + replay_start_);
  }
  const int64_t next = ring.next();
  // Pinned tokens before a jump are a chunk of their own.
  const bool before_jump = next < pinned && replay_start_ > pinned;
  const int64_t end = before_jump ? pinned : static_cast<int64_t>(timeline.size());
  return timeline.subspan(next, std::min({limit, end - next, ring.max_chunk()}));
}

void Sequence::Fed(std::span<const TokenId> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  CHECK_EQ(static_cast<int64_t>(tokens_.size()), cache_->ring().next());
}

}  // namespace ringside
