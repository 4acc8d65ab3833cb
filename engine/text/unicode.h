// UTF-8 as the tokenizers need it: decoding with replacement, normalisation, whitespace, and the byte-level alphabet.
// Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr std::string_view kLowerOneEighthBlock = "\xE2\x96\x81";   // U+2581, SentencePiece's space

/// What stands at the beginning of some bytes: a whole character, a beginning that more bytes may complete, or a
/// maximal ill-formed part (Unicode 3.9, "substitution of maximal subparts": one U+FFFD for `length` bytes).
struct Utf8Unit {
  enum class Kind { kCharacter, kUnfinished, kInvalid };
  Kind kind;
  size_t length;  // bytes; at least 1
};
/// `bytes` must not be empty.
Utf8Unit ReadUtf8Unit(std::string_view bytes);

/// Appends the characters of `bytes` to `out`, U+FFFD for what is ill-formed, as Python's incremental UTF-8 decoder
/// with errors="replace" does. Returns how many bytes are used up: all of them if `final`, else all but an unfinished
/// character at the end (at most 3 bytes).
size_t DecodeUtf8(std::string_view bytes, bool final, std::string* out);

/// `bytes` with U+FFFD for what is not UTF-8.
std::string ToValidUtf8(std::string_view bytes);

/// The first character of well-formed UTF-8 and its length in bytes. `text` must not be empty.
struct CodePoint {
  uint32_t value;
  size_t length;
};
CodePoint FirstCodePoint(std::string_view text);
/// The last character, of text that is well-formed and not empty as well.
CodePoint LastCodePoint(std::string_view text);
void AppendCodePoint(uint32_t code_point, std::string* out);

/// A normalisation form of well-formed UTF-8, in O(n log n) whatever the text.
enum class NormalForm { kC, kD, kKC, kKD };
std::string Normalise(std::string_view text, NormalForm form);
inline std::string NormaliseNfc(std::string_view text) { return Normalise(text, NormalForm::kC); }

/// The White_Space property of Unicode; a regular expression's \s.
bool IsUnicodeSpace(uint32_t code_point);

/// Takes away the white space that `text` (well-formed UTF-8) begins or ends with.
void TrimLeft(std::string* text);
void TrimRight(std::string* text);

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to);

/// GPT-2's byte-level alphabet: the printable character that stands for each byte, and back.
uint32_t ByteLevelCharacter(uint8_t byte);
std::string ToByteLevel(std::string_view bytes);
/// The bytes that a token spelled in that alphabet stands for. False, and `bytes` is undefined, if it has another
/// character.
bool ByteLevelToBytes(std::string_view spelling, std::string* bytes);

}  // namespace ringside
