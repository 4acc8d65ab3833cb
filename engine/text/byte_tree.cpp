#include "engine/text/byte_tree.h"

#include "base/check.h"

namespace ringside {

ByteTree::ByteTree() : slots_(16), values_(1, -1) {}

size_t ByteTree::FindSlot(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t i = (key * 0x9E3779B97F4A7C15u >> 20) & mask;
  while (slots_[i].key != key && slots_[i].key != 0) i = (i + 1) & mask;
  return i;
}

void ByteTree::Grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.key != 0) slots_[FindSlot(slot.key)] = slot;
  }
}

void ByteTree::Add(std::string_view string, int32_t value) {
  CHECK(value >= 0);
  if (string.empty()) return;
  uint32_t node = kRoot;
  for (const char byte : string) {
    uint32_t next = Step(node, byte);
    if (next == kRoot) {
      next = static_cast<uint32_t>(values_.size());
      values_.push_back(-1);
      if (node == kRoot) {
        first_[static_cast<uint8_t>(byte)] = next;
      } else {
        if (2 * values_.size() > slots_.size()) Grow();
        slots_[FindSlot(Key(node, byte))] = {Key(node, byte), next};
      }
    }
    node = next;
  }
  if (values_[node] < 0) values_[node] = value;
}

}  // namespace ringside
