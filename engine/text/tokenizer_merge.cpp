#include "engine/text/tokenizer_merge.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <functional>

#include "base/check.h"

namespace ringside {
namespace {

uint64_t PairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct Symbol {
  TokenId id;  // -1: swallowed by its left neighbour
  int32_t previous, next;
};

struct Candidate {
  uint32_t rank;
  int32_t position;
  TokenId merged;
  auto operator<=>(const Candidate&) const = default;  // by rank, then the leftmost
};

}  // namespace

MergeTable::MergeTable(size_t count) : slots_(std::bit_ceil(std::max<size_t>(16, 2 * count + 2))) {}

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

void MergeTable::Add(TokenId left, TokenId right, Merge merge) {
  CHECK(left >= 0 && right >= 0 && merge.merged >= 0);
  if (2 * (used_ + 1) > slots_.size()) Grow();
  Slot& slot = slots_[FindSlot(PairKey(left, right))];
  used_ += slot.key == kEmpty;
  slot = {PairKey(left, right), merge};
}

MergeTable::Merge MergeTable::Find(TokenId left, TokenId right) const {
  return slots_[FindSlot(PairKey(left, right))].merge;  // an empty slot's has no token
}

void MergeTable::Apply(std::vector<TokenId>* symbols) const {
  const auto count = static_cast<int32_t>(symbols->size());
  if (count < 2) return;
  std::vector<Symbol> list(symbols->size());
  std::vector<Candidate> heap;  // the best in front
  heap.reserve(symbols->size());
  const auto find = [&](int32_t left, int32_t right) {
    const Merge merge = Find(list[left].id, list[right].id);
    if (merge.merged >= 0) heap.push_back({merge.rank, left, merge.merged});
    return merge.merged >= 0;
  };
  const auto offer = [&](int32_t left, int32_t right) {
    if (find(left, right)) std::ranges::push_heap(heap, std::greater<>());
  };
  for (int32_t i = 0; i < count; ++i) list[i] = {(*symbols)[i], i - 1, i + 1 < count ? i + 1 : -1};
  for (int32_t i = 0; i + 1 < count; ++i) find(i, i + 1);
  std::ranges::make_heap(heap, std::greater<>());
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, std::greater<>());
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = list[best.position];
    if (left.id < 0 || left.next < 0) continue;
    // A candidate outlives its pair when a neighbour is merged first. One that still gives the same token from another
    // pair counts, as in the reference implementation.
    if (Find(left.id, list[left.next].id).merged != best.merged) continue;
    Symbol& right = list[left.next];
    left.id = best.merged;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) list[left.next].previous = best.position;
    if (left.previous >= 0) offer(left.previous, best.position);
    if (left.next >= 0) offer(best.position, left.next);
  }
  symbols->clear();
  for (int32_t i = 0; i >= 0; i = list[i].next) symbols->push_back(list[i].id);
}

}  // namespace ringside
