// Strings as a tree of their bytes: a text walked along it says which strings begin at a place, at a cost that does not
// grow with their number. Owned by a tokenizer; immutable once filled, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ringside {

class ByteTree {
 public:
  static constexpr uint32_t kRoot = 0;

  ByteTree();
  /// `value` >= 0. An empty string is left out; of equal ones the first added counts.
  void Add(std::string_view string, int32_t value);
  /// The node behind `node` and `byte`, or kRoot, which is behind none.
  uint32_t Step(uint32_t node, char byte) const {
    if (node == kRoot) return first_[static_cast<uint8_t>(byte)];
    return slots_[FindSlot(Key(node, byte))].next;
  }
  /// Of the string that ends at `node`; -1 if none does.
  int32_t Value(uint32_t node) const { return values_[node]; }

 private:
  struct Slot {
    uint64_t key = 0;  // 0: empty
    uint32_t next = kRoot;
  };
  static uint64_t Key(uint32_t node, char byte) { return uint64_t{node} << 8 | static_cast<uint8_t>(byte); }
  size_t FindSlot(uint64_t key) const;
  void Grow();

  std::array<uint32_t, 256> first_{};  // the root's steps
  std::vector<Slot> slots_;            // the others': a power of two, at most half full, linear probing
  std::vector<int32_t> values_;        // by node
};

}  // namespace ringside
