// Classes and cases of characters, as Python's str has them. A character whose other case would be several ("ﬁ") stays
// as it is, but for the German sharp s. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

bool IsLetter(uint32_t code_point);
bool IsUpperCase(uint32_t code_point);  // title case is neither
bool IsLowerCase(uint32_t code_point);
bool IsTitleCase(uint32_t code_point);
/// A digit of a number to the base of ten, of any script.
bool IsDecimalDigit(uint32_t code_point);
/// A digit, or another character for a number.
bool IsNumber(uint32_t code_point);
/// A mark that combines with the character in front of it.
bool IsMark(uint32_t code_point);
/// A regular expression's \w: letters, marks, decimal digits, connecting punctuation and joiners.
bool IsWordCharacter(uint32_t code_point);
/// True for text of any bytes that begins or ends with such a character; what is not UTF-8 is none.
bool BeginsWithWord(std::string_view bytes);
bool EndsWithWord(std::string_view bytes);
/// One that Python's repr() writes as it is.
bool IsPrintable(uint32_t code_point);

void AppendUpper(uint32_t code_point, std::string* out);
void AppendLower(uint32_t code_point, std::string* out);
void AppendTitle(uint32_t code_point, std::string* out);

/// Each character of `text` (well-formed UTF-8) in lower case; a dotted capital I becomes two characters.
std::string ToLower(std::string_view text);

}  // namespace ringside
