#include "engine/text/sentencepiece/charsmap.h"

#include <utf8proc.h>

#include <algorithm>

#include "engine/text/unicode.h"

namespace ringside {
namespace {

// Far above every rule of Unicode; bounds the growth of a text and the cost per place.
constexpr size_t kMaxReplacementBytes = 256;
constexpr size_t kMaxRuleBytes = 256;
constexpr size_t kMaxShortGrapheme = 5;

uint32_t ReadU32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

// A unit of the double array (Yata's darts-clone): offset of a node's children, label byte, leaf value.
uint32_t Offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
uint32_t Label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t LeafValue(uint32_t unit) { return unit & ~(1u << 31); }

bool BeginsCharacter(std::string_view text, size_t at) {
  return at == text.size() || (static_cast<uint8_t>(text[at]) & 0xC0) != 0x80;
}

}  // namespace

Result<Charsmap> Charsmap::Make(std::string_view bytes) {
  if (bytes.empty()) return Charsmap();
  const auto wrong = [](const char* what) {
    return InvalidArgument(std::string("tokenizer: precompiled_charsmap ") + what);
  };
  const size_t trie_bytes = bytes.size() < 4 ? 0 : ReadU32(bytes);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > bytes.size() - 4) return wrong("is truncated");
  Charsmap map;
  for (size_t at = 4; at < 4 + trie_bytes; at += 4) map.units_.push_back(ReadU32(bytes.substr(at)));
  map.replacements_ = bytes.substr(4 + trie_bytes);
  if (!map.replacements_.ends_with('\0')) return wrong("has a replacement without an end");
  if (ToValidUtf8(map.replacements_) != map.replacements_) return wrong("has a replacement that is not UTF-8");
  for (size_t begin = 0; begin < map.replacements_.size();) {
    const size_t end = map.replacements_.find('\0', begin);
    if (end - begin > kMaxReplacementBytes) return wrong("has a replacement of more than 256 bytes");
    begin = end + 1;
  }
  return map;
}

std::optional<Charsmap::Rule> Charsmap::Find(std::string_view text, bool longest) const {
  std::optional<Rule> found;
  uint32_t node = units_.empty() ? 0 : Offset(units_[0]);
  for (size_t i = 0; i < std::min(text.size(), kMaxRuleBytes); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units_.size() || Label(units_[node]) != byte) break;
    const bool leaf = HasLeaf(units_[node]);
    node ^= Offset(units_[node]);
    if (!leaf) continue;
    if (node >= units_.size()) break;
    const size_t at = LeafValue(units_[node]);
    // Reject a rule that splits a character on either side.
    if (at >= replacements_.size() || !BeginsCharacter(replacements_, at) || !BeginsCharacter(text, i + 1)) continue;
    found = Rule{i + 1, std::string_view(replacements_.data() + at)};
    if (!longest) break;
  }
  return found;
}

std::string Charsmap::Apply(std::string_view text) const {
  if (units_.empty()) return std::string(text);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto rule = Find(text, /*longest=*/true);
    const size_t length = rule ? rule->length : FirstCodePoint(text).length;
    out.append(rule ? rule->replacement : text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

void Charsmap::AppendGrapheme(std::string_view grapheme, std::string* out) const {
  if (grapheme.size() <= kMaxShortGrapheme) {
    if (const auto rule = Find(grapheme, /*longest=*/false)) {
      out->append(rule->replacement);
      return;
    }
  }
  while (!grapheme.empty()) {
    const std::string_view character = grapheme.substr(0, FirstCodePoint(grapheme).length);
    const auto rule = Find(character, /*longest=*/false);
    out->append(rule ? rule->replacement : character);
    grapheme.remove_prefix(character.size());
  }
}

std::string Charsmap::ApplyToGraphemes(std::string_view text) const {
  if (units_.empty()) return std::string(text);
  std::string out;
  out.reserve(text.size());
  utf8proc_int32_t state = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = FirstCodePoint(text.substr(i));
    i += c.length;
    const bool last = i == text.size();
    if (!last && !utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c.value),
                                                   static_cast<utf8proc_int32_t>(FirstCodePoint(text.substr(i)).value),
                                                   &state)) {
      continue;
    }
    AppendGrapheme(text.substr(begin, i - begin), &out);
    begin = i;
  }
  return out;
}

}  // namespace ringside
