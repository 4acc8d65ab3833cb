// UTF-8 for the tokenizers: decoding with replacement, normalization, white space, and the byte-level alphabet. Pure
// functions. THREAD: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr std::string_view kLowerOneEighthBlock = "\xE2\x96\x81";   // U+2581, SentencePiece's space

/// The unit at the start of some bytes: a whole character, a prefix that more bytes may complete, or a maximal
/// ill-formed subpart (Unicode 3.9, "substitution of maximal subparts": one U+FFFD for `length` bytes).
struct Utf8Unit {
  enum class Kind { kCharacter, kUnfinished, kInvalid };
  Kind kind;
  size_t length;  // bytes; at least 1
};
/// REQUIRES: `bytes` is not empty.
Utf8Unit ReadUtf8Unit(std::string_view bytes);

/// Appends the characters of `bytes` to `out`, with U+FFFD for ill-formed parts, as Python's incremental UTF-8 decoder
/// with errors="replace" does. Returns the number of bytes consumed: all if `final`, else all but an incomplete
/// character at the end (at most 3 bytes).
size_t DecodeUtf8(std::string_view bytes, bool final, std::string* out);

/// `bytes` with U+FFFD for ill-formed parts.
std::string ToValidUtf8(std::string_view bytes);

/// The first character of well-formed UTF-8 and its length in bytes. REQUIRES: `text` is not empty.
struct CodePoint {
  uint32_t value;
  size_t length;
};
CodePoint FirstCodePoint(std::string_view text);
/// The last character. REQUIRES: `text` is well-formed and not empty.
CodePoint LastCodePoint(std::string_view text);
void AppendCodePoint(uint32_t code_point, std::string* out);

/// A normalization form of well-formed UTF-8, in O(n log n) for any text.
enum class NormalForm { kC, kD, kKC, kKD };
std::string Normalise(std::string_view text, NormalForm form);
inline std::string NormaliseNfc(std::string_view text) { return Normalise(text, NormalForm::kC); }

/// The White_Space property of Unicode; a regular expression's \s.
bool IsUnicodeSpace(uint32_t code_point);

/// Removes leading or trailing white space of `text` (well-formed UTF-8).
void TrimLeft(std::string* text);
void TrimRight(std::string* text);

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to);

/// GPT-2's byte-level alphabet: a printable character for each byte, and back.
uint32_t ByteLevelCharacter(uint8_t byte);
std::string ToByteLevel(std::string_view bytes);
/// The bytes of a token spelled in that alphabet. False, and `bytes` is undefined, if it has another character.
bool ByteLevelToBytes(std::string_view spelling, std::string* bytes);

}  // namespace ringside
