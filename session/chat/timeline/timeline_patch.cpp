// A timeline as a difference from an earlier one.
#include <algorithm>

#include "engine/vision/image_tokens.h"
#include "session/chat/timeline/timeline.h"
#include "session/tools/answer_form.h"

namespace ringside {
namespace {

template <class T>
int64_t CommonPrefix(const SharedList<T>& a, const SharedList<T>& b) {
  return static_cast<int64_t>(SharedList<T>::CommonPrefix(a, b));
}

template <class T>
SharedList<T> Replaced(SharedList<T> first, int64_t keep, std::vector<T> rest) {
  first.Truncate(static_cast<size_t>(keep));
  first.Append(std::move(rest));
  return first;
}

bool InRange(int64_t count, size_t size) { return count >= 0 && count <= static_cast<int64_t>(size); }

bool ImagesFit(const Item& item) {
  const bool read = std::ranges::all_of(item.images, [](const ItemImage& image) { return image.file != nullptr; });
  return read && item.role != ChatRole::kAssistant && CountImageMarks(item.text) == item.images.size();
}

/// Checks items: rendered ones first, each inside the ids and after the previous one; the others have no ids and are
/// not sampled.
bool ItemsFit(const SharedList<Item>& items, int64_t tokens) {
  int64_t end = 0;
  bool rendered = true;
  for (const Item& item : items) {
    if (item.calls_at < -1 || item.calls_at > static_cast<int64_t>(item.text.size())) return false;
    const bool answers = item.calls_at >= 0 || item.reasoning.size() > 0;
    if (answers && item.role != ChatRole::kAssistant) return false;
    if (item.end == TimelineEnd::kForgotten) return false;
    if (!item.images.empty() && !ImagesFit(item)) return false;
    if (item.form.size() > 0 && (item.complete || !DecodeAnswerForm(item.form).ok())) return false;
    if (!item.rendered()) {
      rendered = false;
      if (item.sampled || item.token_begin != -1 || item.token_end != -1) return false;
      continue;
    }
    if (!rendered || item.token_begin < end || item.token_end < item.token_begin || item.token_end > tokens)
      return false;
    end = item.token_end;
  }
  return true;
}

}  // namespace

TimelinePatch Timeline::PatchFrom(const Timeline& base) const {
  TimelinePatch patch;
  patch.keep_items = CommonPrefix(items_, base.items_);
  patch.keep_tokens = CommonPrefix(tokens_, base.tokens_);
  patch.keep_starts = CommonPrefix(message_starts_, base.message_starts_);
  patch.items = items_.From(static_cast<size_t>(patch.keep_items));
  patch.tokens = tokens_.From(static_cast<size_t>(patch.keep_tokens));
  patch.message_starts = message_starts_.From(static_cast<size_t>(patch.keep_starts));
  patch.instructions = head_.instructions;
  if (!(head_.tools == base.head_.tools)) patch.tools = head_.tools;
  patch.pinned = pinned_;
  patch.answer_begin = answer_begin_;
  patch.end = end_;
  return patch;
}

Status Timeline::Apply(TimelinePatch patch, int64_t vocab) {
  if (!InRange(patch.keep_items, items_.size()) || !InRange(patch.keep_tokens, tokens_.size()) ||
      !InRange(patch.keep_starts, message_starts_.size())) {
    return Corruption("timeline: the change refers to items that do not exist");
  }
  const bool known = std::all_of(patch.tokens.begin(), patch.tokens.end(),
                                 [&](TokenId id) { return (id >= 0 && id < vocab) || IsImageToken(id); });
  Timeline next;
  next.items_ = items_;
  next.item_bytes_ = item_bytes_;
  next.TruncateItems(static_cast<size_t>(patch.keep_items));
  for (Item& item : patch.items) next.AddItem(std::move(item));
  next.tokens_ = Replaced(tokens_, patch.keep_tokens, std::move(patch.tokens));
  next.message_starts_ = Replaced(message_starts_, patch.keep_starts, std::move(patch.message_starts));
  next.head_ = {std::move(patch.instructions), std::move(patch.tools).value_or(head_.tools)};
  next.pinned_ = patch.pinned;
  next.answer_begin_ = patch.answer_begin;
  next.end_ = patch.end;

  const auto tokens = static_cast<int64_t>(next.tokens_.size());
  const SharedList<int64_t>& starts = next.message_starts_;
  const bool ascending = std::adjacent_find(starts.begin(), starts.end(), std::greater_equal<>()) == starts.end();
  const bool inside = starts.empty() || (starts[0] >= 0 && starts.back() <= tokens);
  if (!known || !ascending || !inside || next.pinned_ < 0 || next.pinned_ > tokens || next.answer_begin_ < -1 ||
      next.answer_begin_ > tokens || (next.forgotten() && tokens > 0) || !ItemsFit(next.items_, tokens)) {
    return Corruption("timeline: the change does not lead to a valid timeline");
  }
  // One item fewer and an open answer: the last answer is continued. Older journals store the continuation as a
  // separate item.
  if (next.answer_begin_ >= 0 && next.items_.size() + 1 == items_.size()) {
    const Item& cut = items_.back();
    const int64_t before = next.items_.empty() ? 0 : next.items_.back().token_end;
    if (cut.role != ChatRole::kAssistant || !cut.sampled || cut.complete || next.answer_begin_ < before) {
      return Corruption("timeline: the continued item is not a cut answer");
    }
    next.reopened_ = cut;
    next.reopened_->token_begin = next.answer_begin_;
    next.reopened_->token_end = tokens;
    next.reopened_->end = next.end_;
  }
  *this = std::move(next);
  return Status::Ok();
}

}  // namespace ringside
