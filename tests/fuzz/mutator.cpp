#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace ringside {
namespace {

constexpr uint64_t kNumbers[] = {0,          1,          2,          0x7f,       0x80,       0xff,
                                 0x100,      0x7fff,     0xffff,     0x10000,    0x7fffffff, 0x80000000,
                                 0xffffffff, 1ull << 40, 1ull << 62, 1ull << 63, ~0ull,      ~0ull - 7};
constexpr std::string_view kDigits[] = {
    "0",    "-1",   "1e999", "0.5",  "18446744073709551615", "9223372036854775808",
    "null", "true", "[]",    "\"\"", "4294967296",           "-9223372036854775808"};
// Brackets and escapes of the text formats, invalid UTF-8, a character beyond the BMP.
constexpr std::string_view kPieces[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        "\"",
                                        "\\",
                                        "\\ud800",
                                        "\n",
                                        "\r\n",
                                        "%00",
                                        "%",
                                        "&",
                                        "\x1b[",
                                        std::string_view("\0", 1),
                                        "\xff",
                                        "\xc3",
                                        "\xed\xa0\x80",
                                        "\xe2\x96\x81",
                                        "\xf0\x9f\x98\x80"};

}  // namespace

std::string Mutator::Next() {
  std::string bytes = seeds_[Below(seeds_.size())];
  // Mostly one or two mutations: the more there are, the earlier a parser gives up.
  const size_t changes = size_t{1} << Below(4);
  for (size_t i = 0; i < changes; ++i) Change(bytes);
  return bytes;
}

void Mutator::Change(std::string& bytes) {
  // Often near the beginning, where files have their headers.
  const size_t at = Below(std::min(bytes.size(), size_t{16} << Below(20)) + 1),
               length = Below(std::min<size_t>(bytes.size() - at, size_t{1} << Below(12)) + 1);
  switch (Below(9)) {
    case 0:
    case 1:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
      return;
    case 2:
      if (at < bytes.size()) bytes[at] = static_cast<char>(random_());
      return;
    case 3:
      bytes.erase(at, length);
      return;
    case 4:
      bytes.insert(at, bytes.substr(Below(bytes.size() + 1), length));
      return;
    case 5:
      bytes.insert(at, kPieces[Below(std::size(kPieces))]);
      return;
    case 6: {
      const std::string& other = seeds_[Below(seeds_.size())];
      bytes.replace(at, length, other.substr(Below(other.size() + 1), size_t{1} << Below(12)));
      return;
    }
    case 7:
      return SetNumber(bytes);
    default:
      return SetDigits(bytes);
  }
}

// Sets a little-endian number of 1, 2, 4 or 8 bytes to an edge value, or to about the length of the rest.
void Mutator::SetNumber(std::string& bytes) {
  const size_t width = size_t{1} << Below(4);
  if (bytes.size() < width) return;
  const size_t at = Below(std::min(bytes.size() - width, size_t{16} << Below(20)) + 1);
  uint64_t number = Below(3) == 0 ? bytes.size() - Below(3) : kNumbers[Below(std::size(kNumbers))];
  for (size_t i = 0; i < width; ++i, number >>= 8) bytes[at + i] = static_cast<char>(number);
}

void Mutator::SetDigits(std::string& bytes) {
  constexpr std::string_view kAny = "0123456789";
  const size_t from = bytes.find_first_of(kAny, Below(bytes.size() + 1));
  if (from == std::string::npos) return;
  const size_t to = std::min(bytes.find_first_not_of(kAny, from), bytes.size());
  bytes.replace(from, to - from, kDigits[Below(std::size(kDigits))]);
}

}  // namespace ringside
