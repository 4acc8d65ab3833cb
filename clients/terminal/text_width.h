// Terminal widths and grapheme clusters of UTF-8 text. Pure functions, independent of the locale. THREAD: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringside::client {

/// One code point of UTF-8 text. Each invalid byte yields U+FFFD.
struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;    // consumed; 0 = the text is empty
  bool valid = false;  // false for the replacement of an invalid byte
  bool cut = false;    // the text ends inside the character: more bytes may complete it
};
CodePoint DecodeUtf8(std::string_view text);
void AppendUtf8(std::string& text, uint32_t code_point);
bool IsUtf8(std::string_view text);
/// Replaces every invalid byte by U+FFFD.
std::string RepairUtf8(std::string_view text);

/// Size in bytes of the first grapheme cluster; 0 for an empty text.
size_t FirstCluster(std::string_view text);
/// Size in bytes of the last grapheme cluster.
size_t LastCluster(std::string_view text);
/// Width of one cluster: 0, 1 or 2 columns. Control characters have width 0.
int ClusterWidth(std::string_view cluster);
/// Width of a text without newlines.
int TextWidth(std::string_view text);

}  // namespace ringside::client
