#include "clients/terminal/text_width.h"

#include <utf8proc.h>

#include <algorithm>

namespace ringside::client {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;
constexpr uint32_t kEmojiStyle = 0xFE0F;

bool IsRegionalIndicator(uint32_t point) { return point >= 0x1F1E6 && point <= 0x1F1FF; }

}  // namespace

CodePoint DecodeUtf8(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return {kReplacement, 1, false};
  uint32_t value = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size()) return {kReplacement, 1, false, true};
    // The second byte also excludes overlong forms, surrogates and values beyond Unicode.
    const unsigned char low = i == 1 && lead == 0xE0 ? 0xA0 : i == 1 && lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = i == 1 && lead == 0xED ? 0x9F : i == 1 && lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < low || byte(i) > high) return {kReplacement, 1, false};
    value = value << 6 | (byte(i) & 0x3F);
  }
  return {value, length, true};
}

void AppendUtf8(std::string& text, uint32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = DecodeUtf8(text);
    if (!point.valid) return false;
    text.remove_prefix(point.bytes);
  }
  return true;
}

std::string RepairUtf8(std::string_view text) {
  std::string repaired;
  while (!text.empty()) {
    const CodePoint point = DecodeUtf8(text);
    AppendUtf8(repaired, point.value);
    text.remove_prefix(point.bytes);
  }
  return repaired;
}

size_t FirstCluster(std::string_view text) {
  CodePoint point = DecodeUtf8(text);
  size_t bytes = point.bytes;
  utf8proc_int32_t state = 0;
  while (bytes < text.size()) {
    const CodePoint next = DecodeUtf8(text.substr(bytes));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(point.value),
                                         static_cast<utf8proc_int32_t>(next.value), &state)) {
      break;
    }
    bytes += next.bytes;
    point = next;
  }
  return bytes;
}

size_t LastCluster(std::string_view text) {
  // A newline always ends a cluster, so only the last line has to be scanned.
  const size_t newline = text.size() < 2 ? std::string_view::npos : text.rfind('\n', text.size() - 2);
  std::string_view rest = newline == std::string_view::npos ? text : text.substr(newline + 1);
  size_t bytes = 0;
  while (!rest.empty()) {
    bytes = FirstCluster(rest);
    rest.remove_prefix(bytes);
  }
  return bytes;
}

int ClusterWidth(std::string_view cluster) {
  int width = 0, indicators = 0;
  while (!cluster.empty()) {
    const CodePoint point = DecodeUtf8(cluster);
    if (IsRegionalIndicator(point.value) && ++indicators == 2) width = 2;  // a flag
    width = std::max(width, utf8proc_charwidth(static_cast<utf8proc_int32_t>(point.value)));
    if (point.value == kEmojiStyle) width = 2;
    cluster.remove_prefix(point.bytes);
  }
  return width;
}

int TextWidth(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const size_t bytes = FirstCluster(text);
    width += ClusterWidth(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return width;
}

}  // namespace ringside::client
