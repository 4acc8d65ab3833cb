// Classes and cases of characters, as Python's str has them. A character whose other case would be several ("ﬁ") stays
// as it is, but for the German sharp s. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace ringside {

bool IsLetter(uint32_t code_point);
bool IsUpperCase(uint32_t code_point);  // title case is neither
bool IsLowerCase(uint32_t code_point);
bool IsTitleCase(uint32_t code_point);
/// A digit of a number to the base of ten, of any script.
bool IsDecimalDigit(uint32_t code_point);
/// One that Python's repr() writes as it is.
bool IsPrintable(uint32_t code_point);

void AppendUpper(uint32_t code_point, std::string* out);
void AppendLower(uint32_t code_point, std::string* out);
void AppendTitle(uint32_t code_point, std::string* out);

}  // namespace ringside
