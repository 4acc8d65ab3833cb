// A timeline as the difference to an earlier one.
#include <algorithm>

#include "session/chat/timeline.h"

namespace ringside {
namespace {

template <class T>
int64_t CommonPrefix(const std::vector<T>& a, const std::vector<T>& b) {
  const size_t length = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(length), b.begin()).first - a.begin();
}

template <class T>
std::vector<T> From(const std::vector<T>& all, int64_t first) {
  return {all.begin() + first, all.end()};
}

template <class T>
std::vector<T> Joined(const std::vector<T>& first, int64_t keep, std::vector<T> rest) {
  if (keep == 0) return rest;
  std::vector<T> out(first.begin(), first.begin() + keep);
  out.insert(out.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
  return out;
}

bool InRange(int64_t count, size_t size) { return count >= 0 && count <= static_cast<int64_t>(size); }

/// Rendered items first, each where the ids are and behind the one before it; the others have no ids, least of all
/// sampled ones.
bool ItemsFit(const std::vector<Item>& items, int64_t tokens) {
  int64_t end = 0;
  bool rendered = true;
  for (const Item& item : items) {
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
  patch.items = From(items_, patch.keep_items);
  patch.tokens = From(tokens_, patch.keep_tokens);
  patch.message_starts = From(message_starts_, patch.keep_starts);
  patch.instructions = instructions_;
  patch.pinned = pinned_;
  patch.answer_begin = answer_begin_;
  patch.end = end_;
  return patch;
}

Status Timeline::Apply(TimelinePatch patch, int64_t vocab) {
  if (!InRange(patch.keep_items, items_.size()) || !InRange(patch.keep_tokens, tokens_.size()) ||
      !InRange(patch.keep_starts, message_starts_.size())) {
    return Corruption("timeline: a change of what is not there");
  }
  const bool known =
      std::all_of(patch.tokens.begin(), patch.tokens.end(), [&](TokenId id) { return id >= 0 && id < vocab; });
  Timeline next;
  next.items_ = Joined(items_, patch.keep_items, std::move(patch.items));
  next.tokens_ = Joined(tokens_, patch.keep_tokens, std::move(patch.tokens));
  next.message_starts_ = Joined(message_starts_, patch.keep_starts, std::move(patch.message_starts));
  next.instructions_ = std::move(patch.instructions);
  next.pinned_ = patch.pinned;
  next.answer_begin_ = patch.answer_begin;
  next.end_ = patch.end;

  const auto tokens = static_cast<int64_t>(next.tokens_.size());
  const std::vector<int64_t>& starts = next.message_starts_;
  const bool ascending = std::adjacent_find(starts.begin(), starts.end(), std::greater_equal<>()) == starts.end();
  const bool inside = starts.empty() || (starts.front() >= 0 && starts.back() <= tokens);
  if (!known || !ascending || !inside || next.pinned_ < 0 || next.pinned_ > tokens || next.answer_begin_ < -1 ||
      next.answer_begin_ > tokens || !ItemsFit(next.items_, tokens)) {
    return Corruption("timeline: a change that leads to none");
  }
  *this = std::move(next);
  return Status::Ok();
}

}  // namespace ringside
