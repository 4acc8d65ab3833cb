// Serialization: little-endian numbers, variable-length integers, length-prefixed strings. The reader treats its input
// as hostile: it never reads past the end, allocates no more than the bytes could fill, and remembers the first error.
// Plain values; no locks.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace ringside {

class ByteWriter {
 public:
  void Byte(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void Bool(bool value) { Byte(value ? 1 : 0); }
  /// LEB128: 7 bits a byte, low bits first. Signed uses zigzag, so a small negative number stays short.
  void Unsigned(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte(static_cast<uint8_t>(value | 0x80));
    Byte(static_cast<uint8_t>(value));
  }
  void Signed(int64_t value) { Unsigned(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }
  void Fixed64(uint64_t value) {
    for (int i = 0; i < 8; ++i) Byte(static_cast<uint8_t>(value >> (8 * i)));
  }
  void Double(double value) { Fixed64(std::bit_cast<uint64_t>(value)); }
  void String(std::string_view value) {
    Unsigned(value.size());
    bytes_.append(value);
  }
  std::string Take() { return std::move(bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  uint8_t Byte() {
    if (rest_.empty()) return Fail();
    const auto value = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  bool Bool() {
    const uint8_t value = Byte();
    if (value > 1) Fail();
    return value == 1;
  }
  uint64_t Unsigned() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      if (shift == 63 && byte > 1) return Fail();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Fail();
  }
  int64_t Signed() {
    const uint64_t value = Unsigned();
    return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }
  uint64_t Fixed64() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(Byte()) << (8 * i);
    return value;
  }
  double Double() { return std::bit_cast<double>(Fixed64()); }
  std::string String() { return std::string(View()); }
  /// A string as a view of the input, without a copy.
  std::string_view View() {
    const uint64_t size = Unsigned();
    if (size > rest_.size()) {
      Fail();
      return {};
    }
    const std::string_view value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return value;
  }
  /// Number of elements that follow, each of at least `least_bytes` bytes; an error if that number cannot fit in the
  /// rest.
  size_t Count(size_t least_bytes = 1) {
    const uint64_t count = Unsigned();
    if (count > rest_.size() / least_bytes) return Fail();
    return count;
  }
  /// An enumerator; an error above `last`.
  template <class E>
  E Enum(E last) {
    const uint8_t value = Byte();
    if (value > static_cast<uint8_t>(last)) Fail();
    return ok_ ? static_cast<E>(value) : E{};
  }

  /// False after any error; every read since then has returned zero or empty.
  bool ok() const { return ok_; }
  /// True if there was no error and all bytes have been read.
  bool done() const { return ok_ && rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  uint8_t Fail() {
    ok_ = false;
    rest_ = {};
    return 0;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace ringside
