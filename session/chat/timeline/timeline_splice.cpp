// Changes inside a timeline.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/refusals/context_overflow.h"
#include "session/chat/timeline/timeline.h"

namespace ringside {

Status Timeline::Splice(size_t at, size_t removed, std::vector<Item> added, const Codec& codec, int64_t max_tokens) {
  CHECK_LE(at + removed, items_.size());
  // Rendered items come first.
  const auto is_rendered = [](const Item& item) { return item.rendered(); };
  const auto rendered =
      static_cast<size_t>(std::partition_point(items_.begin(), items_.end(), is_rendered) - items_.begin());
  std::vector<Item> later = items_.From(at + removed);
  const auto add = [&](auto begin, auto end) {
    for (auto item = begin; item != end; ++item) AddItem(std::move(*item));
  };
  if (at >= rendered || RendersWhole(codec, true)) {
    TruncateItems(at);
    add(added.begin(), added.end());
    add(later.begin(), later.end());
    if (at < rendered) ForgetTokens();
    return Status::Ok();
  }

  const auto unrendered = std::partition_point(later.begin(), later.end(), is_rendered);
  const auto sampled = std::find_if(later.begin(), unrendered, [](const Item& item) { return item.sampled; });
  const bool moves = sampled != unrendered;  // ids of answers are moved
  const int64_t moved_begin = moves ? sampled->token_begin : std::ssize(tokens_);
  const std::vector<TokenId> moved = tokens_.From(static_cast<size_t>(moved_begin));
  const std::vector<int64_t> starts = message_starts_.From(0);
  const TimelineEnd end = end_;

  KeepItems(at);
  std::for_each(later.begin(), sampled, [](Item& item) { item.token_begin = item.token_end = -1; });
  const bool renders = moves || sampled != later.begin();
  if (renders) add(added.begin(), added.end());
  add(later.begin(), sampled);
  // Opens the answer for the text between it and the previous message. Its own ids start there.
  if (renders) RETURN_IF_ERROR(Render(codec, moves, max_tokens));
  if (moves) {
    const int64_t pinned = pinned_;
    CutTokens(std::exchange(answer_begin_, -1));
    const int64_t shift = std::ssize(tokens_) - moved_begin;
    tokens_.Append(moved);
    pinned_ = std::min<int64_t>(pinned, std::ssize(tokens_));
    for (const int64_t start : starts) {
      if (start >= moved_begin) message_starts_.push_back(start + shift);
    }
    for (auto item = sampled; item != unrendered; ++item) {
      item->token_begin += shift;
      item->token_end += shift;
    }
    end_ = end;
  }
  if (!renders) add(added.begin(), added.end());
  add(sampled, later.end());
  if (std::ssize(tokens_) <= max_tokens) return Status::Ok();
  return ContextOverflow{.limit = max_tokens, .tokens = std::ssize(tokens_)}.ToStatus();
}

}  // namespace ringside
