// A set of Unicode scalar values, as ranges. A plain value.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace ringside {

struct CodePointRange {
  uint32_t first = 0, last = 0;  // inclusive
  friend auto operator<=>(const CodePointRange&, const CodePointRange&) = default;
};

class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges) {
    for (const CodePointRange& range : ranges) Add(range.first, range.last);
  }
  /// Every character of an ASCII string.
  static CodePointSet Of(std::string_view characters);
  static CodePointSet All();

  /// Ignores surrogates and values above U+10FFFF.
  void Add(uint32_t first, uint32_t last);
  void Add(const CodePointSet& other);
  CodePointSet Complement() const;
  CodePointSet Without(const CodePointSet& other) const;
  CodePointSet And(const CodePointSet& other) const { return Without(other.Complement()); }

  bool empty() const { return ranges_.empty(); }
  /// Ascending and not adjacent.
  std::span<const CodePointRange> ranges() const { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

/// Allowed bytes at one position of a UTF-8 sequence.
struct ByteRange {
  uint8_t first = 0, last = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// The UTF-8 of a range of characters, as sequences of 1 to 4 byte ranges; the union of the sequences is exactly the
/// range.
std::vector<std::vector<ByteRange>> Utf8Sequences(CodePointRange range);

}  // namespace ringside
