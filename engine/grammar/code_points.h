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
  uint32_t first = 0, last = 0;  // both included
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

  /// Surrogates and what lies beyond U+10FFFF are left out.
  void Add(uint32_t first, uint32_t last);
  void Add(const CodePointSet& other);
  CodePointSet Complement() const;
  CodePointSet Without(const CodePointSet& other) const;
  CodePointSet And(const CodePointSet& other) const { return Without(other.Complement()); }

  bool empty() const { return ranges_.empty(); }
  /// Ascending, with gaps between them.
  std::span<const CodePointRange> ranges() const { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

/// Bytes of one position in the UTF-8 of some characters.
struct ByteRange {
  uint8_t first = 0, last = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// The UTF-8 of the characters of a range, as sequences of 1 to 4 byte ranges: the characters are exactly those that
/// one of them spells.
std::vector<std::vector<ByteRange>> Utf8Sequences(CodePointRange range);

}  // namespace ringside
