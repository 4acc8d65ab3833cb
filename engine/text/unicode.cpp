#include "engine/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace ringside {
namespace {

constexpr bool IsContinuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

struct ByteLevelTables {
  std::array<uint32_t, 256> character{};
  std::array<int16_t, 0x144> byte{};  // by character; -1: none

  ByteLevelTables() {
    byte.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      character[b] = printable ? b : next++;
      byte[character[b]] = static_cast<int16_t>(b);
    }
  }
};

const ByteLevelTables& Tables() {
  static const ByteLevelTables tables;
  return tables;
}

}  // namespace

Utf8Unit ReadUtf8Unit(std::string_view bytes) {
  using Kind = Utf8Unit::Kind;
  CHECK(!bytes.empty());
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return {Kind::kCharacter, 1};
  size_t length;
  uint8_t low = 0x80,
          high = 0xBF;  // range of the second byte: no overlong forms, no surrogates, nothing past U+10FFFF
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {Kind::kInvalid, 1};
  }
  if (bytes.size() < 2) return {Kind::kUnfinished, 1};
  if (at(1) < low || at(1) > high) return {Kind::kInvalid, 1};
  for (size_t i = 2; i < length; ++i) {
    if (i == bytes.size()) return {Kind::kUnfinished, i};
    if (!IsContinuation(at(i))) return {Kind::kInvalid, i};
  }
  return {Kind::kCharacter, length};
}

size_t DecodeUtf8(std::string_view bytes, bool final, std::string* out) {
  size_t used = 0;
  while (used < bytes.size()) {
    const Utf8Unit unit = ReadUtf8Unit(bytes.substr(used));
    if (unit.kind == Utf8Unit::Kind::kUnfinished && !final) break;
    if (unit.kind == Utf8Unit::Kind::kCharacter) {
      out->append(bytes, used, unit.length);
    } else {
      out->append(kReplacementCharacter);
    }
    used += unit.length;
  }
  return used;
}

std::string ToValidUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  DecodeUtf8(bytes, /*final=*/true, &text);
  return text;
}

CodePoint FirstCodePoint(std::string_view text) {
  CHECK(!text.empty());
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<uint32_t>(static_cast<uint8_t>(text[i])) : 0; };
  const uint32_t lead = at(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (at(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F), 4};
}

CodePoint LastCodePoint(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && IsContinuation(static_cast<uint8_t>(text[begin]))) --begin;
  return FirstCodePoint(text.substr(begin));
}

void AppendCodePoint(uint32_t code_point, std::string* out) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

std::string Normalise(std::string_view text, NormalForm form) {
  const bool compatible = form == NormalForm::kKC || form == NormalForm::kKD;
  const bool composes = form == NormalForm::kC || form == NormalForm::kKC;
  const auto decompose = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  if (std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; })) return std::string(text);
  std::vector<utf8proc_int32_t> decomposed;
  decomposed.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = FirstCodePoint(text.substr(i));
    i += c.length;
    utf8proc_int32_t parts[32];  // the longest decomposition has 18
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value), parts, 32, decompose, &boundary);
    CHECK(count >= 0 && count <= 32);
    decomposed.insert(decomposed.end(), parts, parts + count);
  }
  // Canonical order by a stable sort of our own: the library's exchange sort is quadratic in a run of combining marks.
  const auto mark_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto run = decomposed.begin(); run != decomposed.end();) {
    if (mark_class(*run) == 0) {
      ++run;
      continue;
    }
    const auto end = std::find_if(run, decomposed.end(), [&](utf8proc_int32_t c) { return mark_class(c) == 0; });
    std::stable_sort(run, end, [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
    run = end;
  }
  auto count = static_cast<utf8proc_ssize_t>(decomposed.size());
  if (composes) {
    count = utf8proc_normalize_utf32(decomposed.data(), count,
                                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    CHECK_GE(count, 0);
  }
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i) AppendCodePoint(static_cast<uint32_t>(decomposed[i]), &out);
  return out;
}

bool IsUnicodeSpace(uint32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

void TrimLeft(std::string* text) {
  size_t begin = 0;
  while (begin < text->size()) {
    const CodePoint c = FirstCodePoint(std::string_view(*text).substr(begin));
    if (!IsUnicodeSpace(c.value)) break;
    begin += c.length;
  }
  text->erase(0, begin);
}

void TrimRight(std::string* text) {
  size_t end = text->size();
  while (end > 0) {
    const CodePoint c = LastCodePoint(std::string_view(*text).substr(0, end));
    if (!IsUnicodeSpace(c.value)) break;
    end -= c.length;
  }
  text->resize(end);
}

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t i = 0;;) {
    const size_t found = text.find(from, i);
    out.append(text.substr(i, found - i));
    if (found == std::string_view::npos) return out;
    out.append(to);
    i = found + from.size();
  }
}

uint32_t ByteLevelCharacter(uint8_t byte) { return Tables().character[byte]; }

std::string ToByteLevel(std::string_view bytes) {
  std::string spelled;
  spelled.reserve(bytes.size());
  for (const char byte : bytes) AppendCodePoint(ByteLevelCharacter(static_cast<uint8_t>(byte)), &spelled);
  return spelled;
}

bool ByteLevelToBytes(std::string_view spelling, std::string* bytes) {
  bytes->clear();
  for (size_t i = 0; i < spelling.size();) {
    if (ReadUtf8Unit(spelling.substr(i)).kind != Utf8Unit::Kind::kCharacter) return false;
    const CodePoint c = FirstCodePoint(spelling.substr(i));
    i += c.length;
    if (c.value >= Tables().byte.size() || Tables().byte[c.value] < 0) return false;
    bytes->push_back(static_cast<char>(Tables().byte[c.value]));
  }
  return true;
}

}  // namespace ringside
