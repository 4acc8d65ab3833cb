#include "engine/grammar/code_points.h"

#include <algorithm>
#include <string>

#include "engine/text/unicode.h"

namespace ringside {
namespace {

constexpr uint32_t kLast = 0x10FFFF, kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

}  // namespace

CodePointSet CodePointSet::Of(std::string_view characters) {
  CodePointSet set;
  for (const char c : characters) set.Add(static_cast<uint8_t>(c), static_cast<uint8_t>(c));
  return set;
}

CodePointSet CodePointSet::All() { return {{0, kLast}}; }

void CodePointSet::Add(uint32_t first, uint32_t last) {
  last = std::min(last, kLast);
  if (first > last) return;
  if (first <= kLastSurrogate && last >= kFirstSurrogate) {
    if (first < kFirstSurrogate) Add(first, kFirstSurrogate - 1);
    if (last > kLastSurrogate) Add(kLastSurrogate + 1, last);
    return;
  }
  // Merge all ranges that touch the new one.
  auto from = std::ranges::lower_bound(ranges_, first, {}, [](const CodePointRange& r) { return r.last + 1; });
  auto to = from;
  for (; to != ranges_.end() && to->first <= last + 1; ++to) {
    first = std::min(first, to->first);
    last = std::max(last, to->last);
  }
  ranges_.insert(ranges_.erase(from, to), {first, last});
}

void CodePointSet::Add(const CodePointSet& other) {
  for (const CodePointRange& range : other.ranges_) Add(range.first, range.last);
}

CodePointSet CodePointSet::Complement() const {
  CodePointSet rest;
  uint32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) rest.Add(next, range.first - 1);
    next = range.last + 1;
  }
  rest.Add(next, kLast);
  return rest;
}

CodePointSet CodePointSet::Without(const CodePointSet& other) const {
  CodePointSet out = Complement();
  out.Add(other);
  return out.Complement();
}

namespace {

std::string Encode(uint32_t code_point) {
  std::string bytes;
  AppendCodePoint(code_point, &bytes);
  return bytes;
}

// Splits a range of characters with equal UTF-8 length wherever a leading byte changes but the trailing bytes do not
// cover all of 80..BF.
void Cut(uint32_t first, uint32_t last, std::vector<std::vector<ByteRange>>* out) {
  const std::string low = Encode(first), high = Encode(last);
  for (size_t tail = 1; tail < low.size(); ++tail) {
    const uint32_t mask = (1u << (6 * tail)) - 1;  // mask of the bits in the last `tail` bytes
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      Cut(first, first | mask, out);
      Cut((first | mask) + 1, last, out);
      return;
    }
    if ((last & mask) != mask) {
      Cut(first, (last & ~mask) - 1, out);
      Cut(last & ~mask, last, out);
      return;
    }
  }
  std::vector<ByteRange>& sequence = out->emplace_back();
  for (size_t i = 0; i < low.size(); ++i) {
    sequence.push_back({static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])});
  }
}

}  // namespace

std::vector<std::vector<ByteRange>> Utf8Sequences(CodePointRange range) {
  std::vector<std::vector<ByteRange>> out;
  for (const uint32_t most : {0x7Fu, 0x7FFu, 0xFFFFu, kLast}) {  // maximum for 1, 2, 3 and 4 bytes
    if (range.first > range.last) break;
    if (range.first > most) continue;
    const uint32_t last = std::min(range.last, most);
    Cut(range.first, last, &out);
    range.first = last + 1;
  }
  return out;
}

}  // namespace ringside
