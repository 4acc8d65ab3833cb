// Reads a text character by character, for the parsers of GBNF and regular expressions. THREAD: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/grammar/grammar_source.h"
#include "engine/text/unicode.h"

namespace ringside {

class TextCursor {
 public:
  static constexpr uint32_t kEnd = UINT32_MAX;

  /// REQUIRES: `text` is well-formed UTF-8 and outlives the cursor.
  explicit TextCursor(std::string_view text) : text_(text) {}

  bool done() const { return position_ == text_.size(); }
  size_t position() const { return position_; }
  std::string_view rest() const { return text_.substr(position_); }
  /// The next character, or the one after it; kEnd at the end.
  uint32_t Peek() const { return done() ? kEnd : FirstCodePoint(rest()).value; }
  uint32_t PeekSecond() const {
    if (done()) return kEnd;
    const std::string_view behind = rest().substr(FirstCodePoint(rest()).length);
    return behind.empty() ? kEnd : FirstCodePoint(behind).value;
  }
  /// REQUIRES: !done().
  uint32_t Next() {
    const CodePoint c = FirstCodePoint(rest());
    position_ += c.length;
    return c.value;
  }
  bool Consume(char c) {
    if (Peek() != static_cast<uint32_t>(c)) return false;
    ++position_;
    return true;
  }
  bool Consume(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    position_ += word.size();
    return true;
  }

  /// Consumes at least `least` and at most `most` hexadecimal digits.
  std::optional<uint32_t> ConsumeHex(int least, int most) {
    uint32_t value = 0;
    int digits = 0;
    for (; digits < most && !done(); ++digits) {
      const char c = rest().front();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<uint32_t>(digit);
      ++position_;
    }
    if (digits < least) return std::nullopt;
    return value;
  }

  /// Consumes {m}, {m,}, {m,n} or {,n}, blanks allowed; otherwise consumes nothing. Clamps numbers to kUnbounded - 1.
  std::optional<std::pair<uint32_t, uint32_t>> ConsumeBounds() {
    const size_t begin = position_;
    const auto number = [&]() -> std::optional<uint32_t> {
      while (Consume(' ')) {
      }
      std::optional<uint64_t> value;
      while (!done() && rest().front() >= '0' && rest().front() <= '9') {
        value = value.value_or(0) * 10 + static_cast<uint64_t>(rest().front() - '0');
        if (*value >= kUnbounded) value = kUnbounded - 1;
        ++position_;
      }
      while (Consume(' ')) {
      }
      if (!value) return std::nullopt;
      return static_cast<uint32_t>(*value);
    };
    Consume('{');
    const std::optional<uint32_t> least = number();
    const bool comma = Consume(',');
    const std::optional<uint32_t> most = comma ? number() : least;
    if (!Consume('}') || (!least && !most)) {
      position_ = begin;
      return std::nullopt;
    }
    return std::pair(least.value_or(0), most.value_or(kUnbounded));
  }

 private:
  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace ringside
