#include "engine/sequence.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "engine/vision/image_tokens.h"

namespace ringside {

int64_t CommonPrefix(std::span<const TokenId> tokens, std::span<const int64_t> message_starts,
                     std::span<const TokenId> other_tokens, std::span<const int64_t> other_message_starts,
                     int64_t pinned) {
  const auto evictable = [pinned](std::span<const int64_t> starts) {
    return std::ranges::subrange(std::ranges::upper_bound(starts, pinned), starts.end());
  };
  int64_t common = std::ranges::mismatch(tokens, other_tokens).in1 - tokens.begin();
  const auto our_starts = evictable(message_starts), their_starts = evictable(other_message_starts);
  const auto [ours, theirs] = std::ranges::mismatch(our_starts, their_starts);
  if (ours != our_starts.end()) common = std::min(common, *ours);
  if (theirs != their_starts.end()) common = std::min(common, *theirs);
  return common;
}

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

void Sequence::Restored(std::span<const TokenId> tokens, int64_t replay_start, int adapter, CacheSource source) {
  CHECK_EQ(static_cast<int64_t>(tokens.size()), cache_->ring().next());
  tokens_.assign(tokens.begin(), tokens.end());
  replay_start_ = replay_start;
  adapter_ = adapter;
  known_ = true;
  restored_ = source;
}

int64_t Sequence::CommonTokens(const TimelineView& timeline, int64_t most) const {
  if (cache_ == nullptr || cache_->history() != nullptr) return 0;
  if (!(cache_->ring().window() == timeline.window) || adapter_ != timeline.adapter) return 0;
  return std::min(CommonWith(timeline), most);
}

int64_t Sequence::SharedPrefix(const TimelineView& timeline, int64_t most) const {
  if (cache_ == nullptr) return 0;
  const int64_t tokens = cache_->Floor(CommonTokens(timeline, most));
  return CanContinueFrom(tokens) ? tokens : 0;
}

size_t Sequence::Adopt(const Sequence& from, int64_t tokens, bool own) {
  const int64_t pinned = from.cache_->ring().window().pinned;
  cache_->Adopt(*from.cache_, tokens);
  tokens_.assign(from.tokens_.begin(), from.tokens_.begin() + tokens);
  replay_start_ = tokens > pinned ? from.replay_start_ : 0;
  adapter_ = from.adapter_;
  adopted_ = !own;
  return static_cast<size_t>(cache_->shape().HeldBytes(tokens, pinned));
}

int64_t Sequence::BranchPoint(const TimelineView& timeline, int64_t most) const {
  const int64_t tokens = SharedPrefix(timeline, most);
  return tokens > timeline.window.pinned ? tokens : 0;
}

void Sequence::BranchedOff(const Sequence& from, int64_t tokens) {
  tokens_.assign(from.tokens_.begin(), from.tokens_.begin() + tokens);
  replay_start_ = from.replay_start_;
  adapter_ = from.adapter_;
  restored_ = CacheSource::kSlot;
}

int64_t Sequence::CommonWith(const TimelineView& timeline) const {
  const int64_t common = CommonPrefix(tokens_, cache_->ring().message_starts(), timeline.tokens,
                                      timeline.message_starts, timeline.window.pinned);
  return encodes_ && common < timeline.window.pinned ? 0 : common;
}

// After a shortened replay, rows are exact only from a full receptive field after its start. With rebuild_windows the
// caller accepts an approximation, and the same number of windows applies.
bool Sequence::CanContinueFrom(int64_t position) const {
  const Ring& ring = cache_->ring();
  if (!ring.CanRollBack(position)) return false;
  const int64_t pinned = ring.window().pinned;
  if (position <= pinned || replay_start_ <= pinned) return true;
  const int64_t windows = rebuild_windows_ > 0 ? rebuild_windows_ : layers_;
  return position - windows * (ring.window().memory_len - 1) >= replay_start_;
}

// A recurrent layer carries every earlier token.
int64_t Sequence::ReplayStart(const TimelineView& timeline) const {
  if (cache_->state().used()) return timeline.window.pinned;
  const int64_t windows = rebuild_windows_ > 0 ? rebuild_windows_ : layers_;
  const auto length = static_cast<int64_t>(timeline.tokens.size());
  const int64_t reach = std::max<int64_t>(1, windows * (timeline.window.memory_len - 1));
  return std::max(timeline.window.pinned, length - 1 - reach);
}

SyncResult Sequence::Sync(const TimelineView& timeline, int64_t most) {
  CHECK(cache_ != nullptr);
  const auto length = static_cast<int64_t>(timeline.tokens.size());
  CHECK_GE(length, 1);
  SyncResult result;
  if (!(cache_->ring().window() == timeline.window) || adapter_ != timeline.adapter) {
    cache_->Reset(timeline.window);
    tokens_.clear();
    replay_start_ = 0;
  }
  adapter_ = timeline.adapter;
  Ring& ring = cache_->ring();
  const int64_t common = std::min({CommonWith(timeline), length, most});
  int64_t keep = cache_->Floor(common);
  if (!CanContinueFrom(keep)) {
    // The ring's rows are gone; pinned rows are never evicted.
    keep = cache_->Floor(std::min(keep, timeline.window.pinned));
    result.rebuilt = true;
  }
  cache_->RollBack(keep);
  cache_->SetTurn(length - 1);
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
  if (cache_->state().used()) result.replayed = common - keep;
  const CacheSource from = std::exchange(restored_, std::nullopt).value_or(CacheSource::kSlot);
  const bool own = !std::exchange(adopted_, false);  // rows copied from another timeline do not count as its own cache
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
  if (encodes_ && next < pinned) return timeline.subspan(next, pinned - next);
  // Pinned tokens before a jump form a separate chunk.
  const bool before_jump = next < pinned && replay_start_ > pinned;
  const int64_t end = before_jump ? pinned : static_cast<int64_t>(timeline.size());
  const auto count = static_cast<size_t>(std::min({limit, end - next, ring.max_chunk()}));
  const auto rest = timeline.subspan(next);
  if (!whole_images_ || count == rest.size() || !IsImageToken(rest[count]) || !IsImageToken(rest[count - 1])) {
    return rest.first(count);
  }
  // The chunk would divide an image.
  const auto before = rest.first(count) | std::views::reverse;
  const auto begin = count - static_cast<size_t>(std::ranges::find_if_not(before, IsImageToken) - before.begin());
  return rest.first(begin > 0 ? begin : static_cast<size_t>(LeastChunk(timeline)));
}

int64_t Sequence::LeastChunk(std::span<const TokenId> timeline) const {
  if (!whole_images_) return 1;
  const auto rest = timeline.subspan(static_cast<size_t>(next_position()));
  return std::max<int64_t>(std::ranges::find_if_not(rest, IsImageToken) - rest.begin(), 1);
}

int64_t Sequence::next_position() const {
  const Ring& ring = cache_->ring();
  const bool jumps = ring.next() == ring.window().pinned && replay_start_ > ring.window().pinned;
  return jumps ? replay_start_ : ring.next();
}

bool Sequence::WillCompute(int64_t position) const {
  const Ring& ring = cache_->ring();
  return position >= ring.next() && (position < ring.window().pinned || position >= replay_start_);
}

void Sequence::AdvancePosition(std::span<const TokenId> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  CHECK_EQ(static_cast<int64_t>(tokens_.size()), cache_->ring().next());
}

void Sequence::DropDrafts(int64_t tokens) {
  cache_->RollBack(tokens);
  tokens_.resize(static_cast<size_t>(tokens));
}

}  // namespace ringside
