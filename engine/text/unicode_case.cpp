#include "engine/text/unicode_case.h"

#include <utf8proc.h>

#include "engine/text/unicode.h"

namespace ringside {
namespace {

constexpr uint32_t kSharpS = 0xDF;

utf8proc_category_t CategoryOf(uint32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

}  // namespace

bool IsLetter(uint32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsUpperCase(uint32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LU; }
bool IsLowerCase(uint32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LL; }
bool IsTitleCase(uint32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LT; }
bool IsDecimalDigit(uint32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_ND; }

bool IsNumber(uint32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool IsMark(uint32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool IsWordCharacter(uint32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  const bool letter_like =  // circled and squared letters
      (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
      (c >= 0x1F170 && c <= 0x1F189);
  return IsLetter(c) || IsMark(c) || category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D || letter_like;
}

bool BeginsWithWord(std::string_view bytes) {
  return !bytes.empty() && ReadUtf8Unit(bytes).kind == Utf8Unit::Kind::kCharacter &&
         IsWordCharacter(FirstCodePoint(bytes).value);
}

bool EndsWithWord(std::string_view bytes) {
  size_t begin = bytes.empty() ? 0 : bytes.size() - 1;
  while (begin > 0 && (static_cast<uint8_t>(bytes[begin]) & 0xC0) == 0x80 && bytes.size() - begin < 4) --begin;
  const std::string_view last = bytes.substr(begin);
  return BeginsWithWord(last) && FirstCodePoint(last).length == last.size();
}

bool IsPrintable(uint32_t c) {
  if (c == ' ') return true;
  const utf8proc_category_t category = CategoryOf(c);
  return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

void AppendUpper(uint32_t c, std::string* out) {
  if (c == kSharpS) {
    *out += "SS";
  } else {
    AppendCodePoint(static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
  }
}

void AppendLower(uint32_t c, std::string* out) {
  AppendCodePoint(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

void AppendTitle(uint32_t c, std::string* out) {
  if (c == kSharpS) {
    *out += "Ss";
  } else {
    AppendCodePoint(static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), out);
  }
}

std::string ToLower(std::string_view text) {
  constexpr uint32_t kDottedCapitalI = 0x130;
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = FirstCodePoint(text);
    if (c.value == kDottedCapitalI) {
      out += "i\u0307";
    } else {
      AppendLower(c.value, &out);
    }
    text.remove_prefix(c.length);
  }
  return out;
}

}  // namespace ringside
