// A byte trie of strings: a walk over a text finds the strings that begin at a place, at a cost independent of their
// number. Owned by a tokenizer; immutable once filled. THREAD: any.
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
  /// Adds a string with `value` >= 0. Ignores an empty string; the first of equal strings wins.
  void Add(std::string_view string, int32_t value);
  /// The child of `node` for `byte`; kRoot if there is none.
  uint32_t Step(uint32_t node, char byte) const {
    if (node == kRoot) return first_[static_cast<uint8_t>(byte)];
    return slots_[FindSlot(Key(node, byte))].next;
  }
  /// Value of the string that ends at `node`; -1 if none does.
  int32_t Value(uint32_t node) const { return values_[node]; }

 private:
  struct Slot {
    uint64_t key = 0;  // 0: empty
    uint32_t next = kRoot;
  };
  static uint64_t Key(uint32_t node, char byte) { return uint64_t{node} << 8 | static_cast<uint8_t>(byte); }
  size_t FindSlot(uint64_t key) const;
  void Grow();

  std::array<uint32_t, 256> first_{};  // children of the root
  std::vector<Slot> slots_;            // other children: a power of two, at most half full, linear probing
  std::vector<int32_t> values_;        // by node
};

}  // namespace ringside
