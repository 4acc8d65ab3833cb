// Suggestions for misspelt names. Pure functions. THREAD: any.
#pragma once

#include <span>
#include <string_view>

namespace ringside {

/// The name that is nearest to a word, at most two insertions, deletions or replacements apart (Levenshtein distance);
/// the first of several, or empty if there is none. Words of up to two characters have none.
std::string_view NearName(std::string_view word, std::span<const std::string_view> names);

}  // namespace ringside
