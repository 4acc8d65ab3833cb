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

}  // namespace ringside
