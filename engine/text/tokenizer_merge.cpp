#include "engine/text/tokenizer_merge.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <unordered_map>

#include "base/check.h"

namespace ringside {
namespace {

uint64_t PairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct Symbol {
  TokenId id;  // -1: merged into its left neighbour
  int32_t previous, next;
};

// Both queues hold mergeable positions of a word and return the lowest rank first, the leftmost of equals.
struct Place {
  uint32_t rank;
  int32_t left;
};

// For words: fits in the L1 cache.
class HeapQueue {
 public:
  explicit HeapQueue(size_t symbols) { heap_.reserve(symbols); }
  bool empty() const { return heap_.empty(); }
  void Push(Place place) {
    heap_.push_back(static_cast<uint64_t>(place.rank) << 32 | static_cast<uint32_t>(place.left));
    std::ranges::push_heap(heap_, std::greater<>());
  }
  Place Pop() {
    std::ranges::pop_heap(heap_, std::greater<>());
    const uint64_t best = heap_.back();
    heap_.pop_back();
    return {static_cast<uint32_t>(best >> 32), static_cast<int32_t>(best & 0xFFFFFFFFu)};
  }

 private:
  std::vector<uint64_t> heap_;
};

// For texts without word boundaries: a list of positions per rank. The positions of a rank mostly arrive from left to
// right, so reads and writes are sequential instead of scattered over a large heap.
class RankQueue {
 public:
  explicit RankQueue(size_t) {}
  bool empty() const { return ranks_.empty(); }
  void Push(Place place) {
    Places& places = by_rank_[place.rank];
    if (places.empty()) {
      places.ascending.clear();
      places.next = 0;
      ranks_.push(place.rank);
    }
    if (places.ascending.empty() || place.left >= places.ascending.back()) {
      places.ascending.push_back(place.left);
    } else {
      places.others.push(place.left);
    }
  }
  Place Pop() {
    const uint32_t rank = ranks_.top();
    Places& places = by_rank_.find(rank)->second;
    int32_t left;
    if (places.others.empty() ||
        (places.next < places.ascending.size() && places.ascending[places.next] <= places.others.top())) {
      left = places.ascending[places.next++];
    } else {
      left = places.others.top();
      places.others.pop();
    }
    if (places.empty()) ranks_.pop();
    return {rank, left};
  }

 private:
  template <class T>
  using LeastFirst = std::priority_queue<T, std::vector<T>, std::greater<>>;
  struct Places {
    std::vector<int32_t> ascending;  // [next, size) are pending
    size_t next = 0;
    LeastFirst<int32_t> others;
    bool empty() const { return next == ascending.size() && others.empty(); }
  };
  std::unordered_map<uint32_t, Places> by_rank_;
  LeastFirst<uint32_t> ranks_;  // ranks with positions
};

// Above this length a heap no longer fits in the near caches.
constexpr size_t kLongWord = 1024;

}  // namespace

MergeTable::MergeTable(size_t count)
    : slots_(std::bit_ceil(std::max<size_t>(16, 2 * count + 2))), meetings_(kMeetingSlots) {}

size_t MergeTable::FindSlot(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t i = (key * 0x9E3779B97F4A7C15u >> 20) & mask;
  while (slots_[i].key != key && slots_[i].key != kEmpty) i = (i + 1) & mask;
  return i;
}

void MergeTable::Grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.key != kEmpty) slots_[FindSlot(slot.key)] = slot;
  }
}

size_t MergeTable::MeetingSlot(uint32_t last, uint32_t first) {
  return static_cast<size_t>((uint64_t{last} << 32 | first) * 0x9E3779B97F4A7C15u >> 44);
}

void MergeTable::Add(TokenId left, TokenId right, Merge merge, uint32_t last, uint32_t first) {
  CHECK(left >= 0 && right >= 0 && merge.merged >= 0);
  if (2 * (used_ + 1) > slots_.size()) Grow();
  Slot& slot = slots_[FindSlot(PairKey(left, right))];
  used_ += slot.key == kEmpty;
  slot = {PairKey(left, right), merge};
  meetings_[MeetingSlot(last, first)] = true;
}

MergeTable::Merge MergeTable::Find(TokenId left, TokenId right) const {
  return slots_[FindSlot(PairKey(left, right))].merge;  // an empty slot has no merged token
}

template <class Queue>
void MergeTable::MergeAll(std::vector<TokenId>* symbols) const {
  const auto count = static_cast<int32_t>(symbols->size());
  std::vector<Symbol> list(symbols->size());
  Queue queue(symbols->size());
  const auto offer = [&](int32_t left, int32_t right) {
    const Merge merge = Find(list[left].id, list[right].id);
    if (merge.merged >= 0) queue.Push({merge.rank, left});
  };
  for (int32_t i = 0; i < count; ++i) list[i] = {(*symbols)[i], i - 1, i + 1 < count ? i + 1 : -1};
  for (int32_t i = 0; i + 1 < count; ++i) offer(i, i + 1);
  while (!queue.empty()) {
    const Place best = queue.Pop();
    Symbol& left = list[best.left];
    if (left.id < 0 || left.next < 0) continue;
    // The pair may be gone: a neighbour was merged first. The new pair is queued under its own rank.
    const Merge merge = Find(left.id, list[left.next].id);
    if (merge.merged < 0 || merge.rank != best.rank) continue;
    Symbol& right = list[left.next];
    left.id = merge.merged;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) list[left.next].previous = best.left;
    if (left.previous >= 0) offer(left.previous, best.left);
    if (left.next >= 0) offer(best.left, left.next);
  }
  symbols->clear();
  for (int32_t i = 0; i >= 0; i = list[i].next) symbols->push_back(list[i].id);
}

void MergeTable::Apply(std::vector<TokenId>* symbols) const {
  if (symbols->size() < 2) return;
  if (symbols->size() < kLongWord) {
    MergeAll<HeapQueue>(symbols);
  } else {
    MergeAll<RankQueue>(symbols);
  }
}

}  // namespace ringside
