// Functions for protocol text, whose letters and blanks are ASCII. Pure.
// THREAD: any.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace ringside {

inline std::string AsciiLower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// `text` without leading and trailing spaces and tabs.
inline std::string_view TrimBlanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace ringside
