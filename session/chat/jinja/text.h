// Python's str methods on well-formed UTF-8. Lengths and positions count characters. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace ringside::jinja {

inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// str.isspace() of one character.
bool IsPythonSpace(uint32_t code_point);

/// str.lstrip(), rstrip() and strip(), of white space or of `characters`.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);
std::string_view Strip(std::string_view text);
std::string_view StripLeft(std::string_view text, std::string_view characters);
std::string_view StripRight(std::string_view text, std::string_view characters);

int64_t LengthOf(std::string_view text);
std::vector<std::string_view> CharactersOf(std::string_view text);
/// Characters [begin, end).
/// REQUIRES: they are in the text.
std::string_view PartOf(std::string_view text, int64_t begin, int64_t end);

std::string UpperOf(std::string_view text);
std::string LowerOf(std::string_view text);
std::string CapitalisedOf(std::string_view text);
/// str.title().
std::string TitleOf(std::string_view text);
/// Jinja's filter of that name: words start after a blank, a dash or a bracket.
std::string TitleByBlanks(std::string_view text);

/// Splits at white space, at most `most` times.
std::vector<std::string_view> SplitWords(std::string_view text, int64_t most);
std::vector<std::string_view> SplitWordsFromRight(std::string_view text, int64_t most);
/// REQUIRES: `separator` is not empty.
std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator, int64_t most);
std::vector<std::string_view> SplitAtFromRight(std::string_view text, std::string_view separator, int64_t most);
std::vector<std::string_view> LinesOf(std::string_view text, bool with_ends);

/// Number of occurrences without overlaps; for "", one more than the number of characters.
int64_t CountOf(std::string_view text, std::string_view part);
std::string ReplaceIn(std::string_view text, std::string_view from, std::string_view to, int64_t most);

/// str.isalpha(), isdigit(), isalnum(), isupper(), islower(), isspace(), selected by name; false for other names.
bool IsAll(std::string_view text, std::string_view method);

}  // namespace ringside::jinja
