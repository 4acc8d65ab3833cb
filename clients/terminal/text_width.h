// How text looks on a terminal: columns and grapheme clusters of UTF-8. Pure functions, any thread, no locale needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringside::client {

/// One code point of UTF-8 text. Bytes that are no UTF-8 come out one by one as U+FFFD.
struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;    // consumed; 0 = the text is empty
  bool valid = false;  // false for the replacement of a bad byte
  bool cut = false;    // the text ends inside the character: more bytes could make it whole
};
CodePoint DecodeUtf8(std::string_view text);
void AppendUtf8(std::string& text, uint32_t code_point);
bool IsUtf8(std::string_view text);
/// With every bad byte replaced by U+FFFD.
std::string RepairUtf8(std::string_view text);

/// Bytes of the grapheme cluster that `text` begins with; 0 for an empty text.
size_t FirstCluster(std::string_view text);
/// Bytes of the grapheme cluster that `text` ends with.
size_t LastCluster(std::string_view text);
/// Columns of one cluster: 0, 1 or 2. Control characters count 0.
int ClusterWidth(std::string_view cluster);
/// Columns of a text without newlines.
int TextWidth(std::string_view text);

}  // namespace ringside::client
