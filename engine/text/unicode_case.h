// Character classes and case mappings, as in Python's str. A character whose other case is several characters ("ﬁ") is
// unchanged, except the German sharp s. Pure functions. THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

bool IsLetter(uint32_t code_point);
bool IsUpperCase(uint32_t code_point);  // title case is neither
bool IsLowerCase(uint32_t code_point);
bool IsTitleCase(uint32_t code_point);
/// A decimal digit of any script.
bool IsDecimalDigit(uint32_t code_point);
/// A digit, or another character for a number.
bool IsNumber(uint32_t code_point);
/// A mark that combines with the previous character.
bool IsMark(uint32_t code_point);
/// A regular expression's \w: letters, marks, decimal digits, connecting punctuation and joiners.
bool IsWordCharacter(uint32_t code_point);
/// True if the text (any bytes) begins or ends with such a character; malformed UTF-8 does not count.
bool BeginsWithWord(std::string_view bytes);
bool EndsWithWord(std::string_view bytes);
/// True if Python's repr() prints it unescaped.
bool IsPrintable(uint32_t code_point);

void AppendUpper(uint32_t code_point, std::string* out);
void AppendLower(uint32_t code_point, std::string* out);
void AppendTitle(uint32_t code_point, std::string* out);

/// Each character of `text` (well-formed UTF-8) in lower case; a dotted capital I becomes two characters.
std::string ToLower(std::string_view text);

}  // namespace ringside
